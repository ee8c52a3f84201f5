#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_passed_listener.py - a listener that comes by SCM_RIGHTS serves like any other

    old server:  listens, passes its listener on, ends       (HAProxy's reload does that)
    new server:  accepts at what it was passed
    client:      its connection moves to shared memory
"""
import os
import socket
import sys

import harness

TURNS = 40
LENGTH = 2000


def old_server(port, path):
    lsn = socket.create_server(("127.0.0.1", port))
    meet = socket.socket(socket.AF_UNIX)
    meet.connect(path)
    socket.send_fds(meet, [b"!"], [lsn.fileno()])


def new_server(path, listens):
    meet = socket.socket(socket.AF_UNIX)
    meet.bind(path)
    meet.listen()
    with open(listens, "wb"):  # opens once somebody waits for us
        pass
    peer = meet.accept()[0]
    _, fds, _, _ = socket.recv_fds(peer, 1, 1)
    if peer.recv(1):
        sys.exit("the old server does not end")
    conn = socket.socket(fileno=fds[0]).accept()[0]
    while data := conn.recv(LENGTH, socket.MSG_WAITALL):
        conn.sendall(data)


def client(port):
    conn = socket.create_connection(("127.0.0.1", port))
    data = os.urandom(LENGTH)
    for _ in range(TURNS):
        conn.sendall(data)
        if conn.recv(LENGTH, socket.MSG_WAITALL) != data:
            sys.exit("the answer differs")


def main():
    run = harness.Run(__file__, [])
    port, path, listens = harness.free_port(), run.path("meet"), run.path("listens")
    os.mkfifo(listens)
    me = [sys.executable, os.path.abspath(__file__)]
    new = run.start(me + ["new", path, listens], eager=True)
    with open(listens, "rb") as f:
        f.read()
    run.check(me + ["old", port, path], eager=True)
    run.check(me + ["client", port], eager=True)
    run.wait(new)
    run.expect_offloaded(1, TURNS * LENGTH)
    run.done()


if sys.argv[1:2] == ["old"]:
    old_server(int(sys.argv[2]), sys.argv[3])
elif sys.argv[1:2] == ["new"]:
    new_server(*sys.argv[2:])
elif sys.argv[1:2] == ["client"]:
    client(int(sys.argv[2]))
else:
    main()
