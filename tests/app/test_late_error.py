#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_late_error.py - the peer resets a connection while one thread reads and
another ends the upgrade that has begun: the reader is told of the reset

    test_late_error.py LIBRARY     (late_error.c)

    client: connects and proposes, and makes no other call until it resets
    server: accepts, which sends a segment
        reader: recv() sleeps in the kernel, which gives ECONNRESET away
        main:   shutdown() takes the segment back, so the kernel carries the connection
        reader: must not look for its end there, because the kernel says "end of stream"
"""
import ctypes
import errno
import os
import socket
import struct
import sys
import threading

import harness


def read(conn, answers):
    try:
        answers.append(conn.recv(1))
    except OSError as e:
        answers.append(errno.errorcode[e.errno])


def server(port, proposed, resets, library):
    late = ctypes.CDLL(library)
    lsn = socket.create_server(("127.0.0.1", port))
    with open(proposed, "rb") as f:
        f.read()
    conn = lsn.accept()[0]
    answers = []
    reader = threading.Thread(target=read, args=(conn, answers))
    reader.start()
    late.late_entered()
    with open(resets, "wb"):
        pass
    late.late_failed()
    try:
        conn.shutdown(socket.SHUT_WR)
    except OSError as e:
        if e.errno != errno.ENOTCONN:
            raise
    late.late_go_on()
    reader.join()
    if answers != ["ECONNRESET"]:
        sys.exit("after a reset, recv() says %r" % answers)


def client(port, proposed, resets):
    with open(proposed, "wb"):  # opens once the server listens
        conn = socket.socket()
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                        struct.pack("ii", 1, 0))
        conn.connect(("127.0.0.1", port))
    with open(resets, "rb") as f:
        f.read()
    conn.close()


def main():
    run = harness.Run(__file__, [])
    if len(sys.argv) < 2:
        harness.skip("which library? see the top of this file")
    library = os.path.abspath(sys.argv[1])
    port = harness.free_port()
    proposed, resets = run.path("proposed"), run.path("resets")
    os.mkfifo(proposed)
    os.mkfifo(resets)
    me = [sys.executable, os.path.abspath(__file__)]
    preload = [run.env().get("LD_PRELOAD"), library]
    child = run.start(me + ["server", port, proposed, resets, library], eager=True,
                      extra={"LD_PRELOAD": ":".join(filter(None, preload))})
    run.check(me + ["client", port, proposed, resets], eager=True)
    run.wait(child)
    run.done()


if sys.argv[1:2] == ["server"]:
    server(int(sys.argv[2]), *sys.argv[3:])
elif sys.argv[1:2] == ["client"]:
    client(int(sys.argv[2]), *sys.argv[3:])
else:
    main()
