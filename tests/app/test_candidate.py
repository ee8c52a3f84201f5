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
        server: recvmmsg() tells the reset, as the kernel's does first, then the bytes and the
                end
    waitall
        client: sends a few bytes
        server: a thread's recv() with MSG_WAITALL takes them, and waits for more; another's
                shutdown() takes the segment back, so the kernel carries the connection
        client: resets it
        server: the thread has its few bytes, and its next recv() the reset
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
import threading
import time

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
        raise OSError(ctypes.get_errno(), "recvmmsg()")
    return [msg.len for msg in msgs[:n]]


def read_messages(conn):
    read_reset(lambda: recvmmsg(conn, len(FEW)))
    lens = recvmmsg(conn, len(FEW))
    if [n for n in lens if n] != [len(FEW)] or conn.recv(1):
        sys.exit("after the reset, recvmmsg() says %r" % lens)


def read_reset(call):
    try:
        sys.exit("after a reset, the call says %r" % call())
    except OSError as e:
        if e.errno != errno.ECONNRESET:
            raise


def signal(fifo):
    with open(fifo, "wb"):
        pass


def await_signal(fifo):
    with open(fifo, "rb") as f:
        f.read()


def read_in_parts(conn, accepted, sent):
    """The connection goes to the kernel while a call has its first bytes."""
    got = []
    reader = threading.Thread(
        target=lambda: got.append(conn.recv(2 * len(FEW), socket.MSG_WAITALL)))
    while not unread(conn):
        time.sleep(0.001)
    reader.start()
    while unread(conn):
        time.sleep(0.001)
    conn.shutdown(socket.SHUT_WR)
    signal(accepted)
    await_signal(sent)
    reader.join()
    if got != [FEW]:
        sys.exit("recv() with MSG_WAITALL says %r" % got)


def server(port, way, proposed, accepted, sent):
    lsn = socket.create_server(("127.0.0.1", port))
    await_signal(proposed)
    conn = lsn.accept()[0]
    if way == "waitall":
        read_in_parts(conn, accepted, sent)
    else:
        signal(accepted)
        await_signal(sent)
    if way == "fionread":
        read_all(conn)
    elif way == "recvmmsg":
        read_messages(conn)
    else:
        read_reset(lambda: conn.recv(1))


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
        if way != "fionread":
            conn.send(FEW)  # nobody has sent a segment yet
    await_signal(accepted)
    if way != "fionread":
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        conn.close()
    else:
        conn.send(b"x")
    signal(sent)
    if way == "fionread":
        send_all(conn)


def send_all(conn):
    conn.sendall(bytes(BYTES - 1))
    conn.shutdown(socket.SHUT_WR)
    conn.recv(1)


def main():
    run = harness.Run(__file__, [])
    me = [sys.executable, os.path.abspath(__file__)]
    for way in "fionread", "recvmmsg", "waitall":
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
