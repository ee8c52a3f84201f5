#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_candidate.py - what a program reads while its side of an upgrade is not done

    test_candidate.py

    fionread
        server: accepts, which sends a segment
        client: takes it, and sends more than the ring holds
        server: FIONREAD; then reads all, and waits in epoll when there is nothing.  It
                never sends, so nothing but these calls tells it that the client uses the
                ring: its side has to follow before it reads from memory
    recvmmsg
        client: sends a few bytes, and resets the connection instead of taking the segment
        server: recvmmsg() of two messages returns the first, and recv() the reset
"""
import array
import ctypes
import errno
import fcntl
import os
import select
import socket
import struct
import sys
import termios

import harness

BYTES = 32 << 20  # more than a ring and both kernels' buffers
PIECE = 1 << 20
FEW = b"ten bytes."
PATIENCE_S = 20


def unread(conn):
    n = array.array("i", [0])
    fcntl.ioctl(conn, termios.FIONREAD, n)
    return n[0]


class Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


class Msghdr(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("namelen", ctypes.c_uint),
                ("iov", ctypes.POINTER(Iovec)), ("iovlen", ctypes.c_size_t),
                ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t),
                ("flags", ctypes.c_int)]


class Mmsghdr(ctypes.Structure):
    _fields_ = [("hdr", Msghdr), ("len", ctypes.c_uint)]


def recvmmsg(conn, each):
    """Return: the lengths of the messages, of two."""
    bufs = [ctypes.create_string_buffer(each) for _ in range(2)]
    iovs = [Iovec(ctypes.addressof(buf), each) for buf in bufs]
    msgs = (Mmsghdr * 2)(*(Mmsghdr(Msghdr(iov=ctypes.pointer(iov), iovlen=1))
                           for iov in iovs))
    n = ctypes.CDLL(None, use_errno=True).recvmmsg(conn.fileno(), msgs, 2,
                                                   socket.MSG_DONTWAIT, None)
    if n < 0:
        sys.exit("recvmmsg(): " + os.strerror(ctypes.get_errno()))
    return [msg.len for msg in msgs[:n]]


def read_reset(conn):
    lens = recvmmsg(conn, len(FEW))
    if lens != [len(FEW)]:
        sys.exit("recvmmsg() says %r" % lens)
    try:
        sys.exit("after a reset, recv() says %r" % conn.recv(1))
    except OSError as e:
        if e.errno != errno.ECONNRESET:
            raise


def server(port, way, proposed, accepted, sent):
    lsn = socket.create_server(("127.0.0.1", port))
    with open(proposed, "rb") as f:
        f.read()
    conn = lsn.accept()[0]
    with open(accepted, "wb"):
        pass
    with open(sent, "rb") as f:
        f.read()
    if way == "fionread":
        read_all(conn)
    else:
        read_reset(conn)


def read_all(conn):
    if not unread(conn):
        sys.exit("FIONREAD: nothing, after a send()")
    conn.setblocking(False)
    ep = select.epoll()
    ep.register(conn, select.EPOLLIN | select.EPOLLET)
    got = 0
    while got < BYTES:
        try:
            n = len(conn.recv(PIECE))
        except BlockingIOError:
            if not ep.poll(PATIENCE_S):
                sys.exit("%d of %d bytes, and no event" % (got, BYTES))
            continue
        if not n:
            sys.exit("%d of %d bytes, and the end" % (got, BYTES))
        got += n


def client(port, way, proposed, accepted, sent):
    with open(proposed, "wb"):  # opens once the server listens
        conn = socket.create_connection(("127.0.0.1", port))
        if way == "recvmmsg":
            conn.send(FEW)  # nobody has sent a segment yet
    with open(accepted, "rb") as f:
        f.read()
    if way == "recvmmsg":
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        conn.close()
    else:
        conn.send(b"x")
    with open(sent, "wb"):
        pass
    if way == "fionread":
        send_all(conn)


def send_all(conn):
    conn.sendall(bytes(BYTES - 1))
    conn.shutdown(socket.SHUT_WR)
    conn.recv(1)


def main():
    run = harness.Run(__file__, [])
    me = [sys.executable, os.path.abspath(__file__)]
    for way in "fionread", "recvmmsg":
        port = harness.free_port()
        fifos = [run.path(way + "." + name) for name in ("proposed", "accepted", "sent")]
        for fifo in fifos:
            os.mkfifo(fifo)
        child = run.start(me + ["server", port, way] + fifos, eager=True)
        run.check(me + ["client", port, way] + fifos, eager=True)
        run.wait(child)
    run.expect_offloaded(1, BYTES)
    run.done()


if sys.argv[1:2] == ["server"]:
    server(int(sys.argv[2]), *sys.argv[3:])
elif sys.argv[1:2] == ["client"]:
    client(int(sys.argv[2]), *sys.argv[3:])
else:
    main()
