#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_child_fds.py - living children do not use up the program's descriptors

A program with a limit of 100 descriptors, soft and hard, has a connection and forks 120
children, which live on.  It can still open as many descriptors as without osf, but for a
part: the limit divided by four.
"""
import os
import resource
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
import harness  # noqa: E402

LIMIT, CHILDREN = 100, 120


def program():
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
    listener = socket.create_server(("127.0.0.1", 0))
    ours = socket.create_connection(listener.getsockname())
    theirs = listener.accept()[0]
    wait, end = os.pipe()
    children = []
    for _ in range(CHILDREN):
        pid = os.fork()
        if pid == 0:
            os.close(end)
            os.read(wait, 1)
            os._exit(0)
        children.append(pid)
    opened = []
    try:
        while True:
            opened.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    print("opened", len(opened))
    for fd in opened:
        os.close(fd)
    ours.sendall(b"x")
    assert theirs.recv(1) == b"x"
    os.close(end)
    for pid in children:
        assert os.waitpid(pid, 0)[1] == 0
    for i in range(20):  # all children have ended
        ours.sendall(b"%d" % i)
        assert theirs.recv(9) == b"%d" % i
        theirs.sendall(b"y")
        assert ours.recv(9) == b"y"


def main():
    run = harness.Run(__file__)
    said = run.check([sys.executable, os.path.abspath(__file__), "program"])
    print(said.strip())
    run.need(int(said.split()[1]) >= LIMIT - LIMIT // 4 - 10, said)
    run.done()


if sys.argv[1:2] == ["program"]:
    program()
else:
    main()
