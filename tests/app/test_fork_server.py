#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_fork_server.py - a server that forks while the upgrade of its connection
is between its two steps

    client: connects and proposes; then the server may accept
    server: accepts, which sends a segment; forks, which takes it back
    client: finds the channel of the segment closed
        -> both try again: the child's connection moves to shared memory
"""
import os
import socket
import sys

import harness

TURNS = 40
LENGTH = 20000


def serve(conn):
    conn.sendall(b"!")
    while True:
        data = conn.recv(LENGTH, socket.MSG_WAITALL)
        if not data:
            return
        conn.sendall(data)


def server(port, proposed):
    lsn = socket.create_server(("127.0.0.1", port))
    with open(proposed, "rb") as f:
        f.read()
    conn = lsn.accept()[0]
    read, write = os.pipe()
    if not os.fork():
        os.close(write)
        os.read(read, 1)  # ends when the child is the only holder
        serve(conn)
        os._exit(0)
    conn.close()
    os.close(write)
    os.close(read)
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))


def client(port, proposed):
    with open(proposed, "wb"):  # opens once the server listens
        conn = socket.create_connection(("127.0.0.1", port))
    if conn.recv(1) != b"!":
        sys.exit("no answer")
    data = os.urandom(LENGTH)
    for _ in range(TURNS):
        conn.sendall(data)
        if conn.recv(LENGTH, socket.MSG_WAITALL) != data:
            sys.exit("the answer differs")
    conn.close()


def main():
    run = harness.Run(__file__, [])
    port = harness.free_port()
    proposed = run.path("proposed")
    os.mkfifo(proposed)
    me = [sys.executable, os.path.abspath(__file__)]
    child = run.start(me + ["server", port, proposed], eager=True)
    run.check(me + ["client", port, proposed], eager=True)
    run.wait(child)
    run.expect_offloaded(1, TURNS * LENGTH)
    run.done()


if sys.argv[1:2] == ["server"]:
    server(int(sys.argv[2]), sys.argv[3])
elif sys.argv[1:2] == ["client"]:
    client(int(sys.argv[2]), sys.argv[3])
else:
    main()
