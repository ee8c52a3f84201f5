#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_candidate.py - a program asks how much there is to read (FIONREAD) before
its side of an upgrade is done: its side follows before it reads from memory

    test_candidate.py

    server: accepts, which sends a segment
    client: takes it, and sends more than the ring holds
    server: FIONREAD; then reads all, and waits in epoll when there is nothing.  It never
            sends, so nothing but these calls tells it that the client uses the ring
"""
import array
import fcntl
import os
import select
import socket
import sys
import termios

import harness

BYTES = 32 << 20  # more than a ring and both kernels' buffers
PIECE = 1 << 20
PATIENCE_S = 20


def unread(conn):
    n = array.array("i", [0])
    fcntl.ioctl(conn, termios.FIONREAD, n)
    return n[0]


def server(port, proposed, accepted, sent):
    lsn = socket.create_server(("127.0.0.1", port))
    with open(proposed, "rb") as f:
        f.read()
    conn = lsn.accept()[0]
    with open(accepted, "wb"):
        pass
    with open(sent, "rb") as f:
        f.read()
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


def client(port, proposed, accepted, sent):
    with open(proposed, "wb"):  # opens once the server listens
        conn = socket.create_connection(("127.0.0.1", port))
    with open(accepted, "rb") as f:
        f.read()
    conn.send(b"x")
    with open(sent, "wb"):
        pass
    conn.sendall(bytes(BYTES - 1))
    conn.shutdown(socket.SHUT_WR)
    conn.recv(1)


def main():
    run = harness.Run(__file__, [])
    port = harness.free_port()
    fifos = [run.path(name) for name in ("proposed", "accepted", "sent")]
    for fifo in fifos:
        os.mkfifo(fifo)
    me = [sys.executable, os.path.abspath(__file__)]
    child = run.start(me + ["server", port] + fifos, eager=True)
    run.check(me + ["client", port] + fifos, eager=True)
    run.wait(child)
    run.expect_offloaded(1, BYTES)
    run.done()


if sys.argv[1:2] == ["server"]:
    server(int(sys.argv[2]), *sys.argv[3:])
elif sys.argv[1:2] == ["client"]:
    client(int(sys.argv[2]), *sys.argv[3:])
else:
    main()
