#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/port/test_storm.py - thousands of connections that move to and fro

    test_storm.py OSF [CONNECTIONS]

The world is test_turns.py's.  Four programs under osf open CONNECTIONS together to one server
of the kernel's.  Each round takes a turn on every connection and compares its bytes.  At one
moment all have moved.  Then a third of them goes back to the kernel in each round, for an
option, and moves again.  A connection that is back has no filter.  At the end three programs
close and one is killed.  No turn may fail, and nothing is left (test_ends.py).
"""
import collections
import json
import os
import subprocess
import sys
import time

from test_ends import PYTHON, close_cleanly, expect, osfd_of, ports, say, sh, wait_until
from test_turns import World, fail, number, skip

PROGRAMS = 4
MOVE_ROUNDS = 60
STORM_ROUNDS = 12
PORT = 7700

SERVER = """
import resource, select, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE,
                   (int(sys.argv[3]) + 100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
l = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=4096)
e = select.epoll()
e.register(l, select.EPOLLIN)
e.register(0, select.EPOLLIN)
conns = {}
print("listens", flush=True)
while True:
    for fd, _ in e.poll():
        if fd == 0:
            print("%d open" % len(conns), flush=True)
            sys.exit()
        if fd == l.fileno():
            c = l.accept()[0]
            c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            conns[c.fileno()] = c
            e.register(c, select.EPOLLIN)
            continue
        try:
            got = conns[fd].recv(64)
        except OSError:
            got = b""
        if got:
            conns[fd].sendall(got)
        else:
            conns.pop(fd).close()
"""
CLIENT = """
import os, resource, socket, sys
SO_GET_FILTER = 26
host, port, n, seed = sys.argv[1], *(int(w) for w in sys.argv[2:])
resource.setrlimit(resource.RLIMIT_NOFILE,
                   (n + 200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
conns = []
for i in range(n):
    c = socket.create_connection((host, port))
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    conns.append(c)
n_round = 0
def turns(goes_back):
    global n_round
    n_round += 1
    for i, c in enumerate(conns):
        c.sendall(b"%08d %08d %08d" % (seed, i, n_round))
    for i, c in enumerate(conns):
        if goes_back and (i + n_round) % 3 == 0:
            c.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 0)
            assert not c.getsockopt(socket.SOL_SOCKET, SO_GET_FILTER, 64), "a filter is left"
        got = b""
        while len(got) < 26:
            part = c.recv(26 - len(got))
            assert part, "an end of stream"
            got += part
        assert got == b"%08d %08d %08d" % (seed, i, n_round), got
for line in sys.stdin:
    if line == "die\\n":
        os.kill(os.getpid(), 9)
    for _ in range(int(line)):
        turns(int(line) > 1)
    print("done", flush=True)
for c in conns:
    c.close()
"""


def n_fds(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


def all_say(procs, line):
    for proc in procs:
        say(proc, line)
    for proc in procs:
        expect(proc, "done")


def reasons(world):
    """Return: why connections are where they are, and how many."""
    got = json.loads(sh(world, "b", world.osf + " stat --json"))
    return collections.Counter(sock.get("reason") for proc in got["processes"]
                               for sock in proc["sockets"])


def move_all(world, procs, n):
    """Each program takes a turn on each connection until all have moved."""
    for n_round in range(MOVE_ROUNDS):
        all_say(procs, b"1\n")
        if ports(world, "b")["vb"] == n:
            return n_round + 1
    fail("%d of %d have moved after %d rounds: %s" %
         (ports(world, "b")["vb"], n, MOVE_ROUNDS, reasons(world)))


def storm(world, n):
    osfd = osfd_of(world, "b")
    fds = n_fds(osfd)
    each = n // PROGRAMS
    server = world.start("a", [PYTHON, "-c", SERVER, "10.9.0.1", str(PORT), str(n)], False,
                         stdin=subprocess.PIPE)
    expect(server, "listens")
    procs = [world.start("b", [PYTHON, "-c", CLIENT, "10.9.0.1", str(PORT), str(each), str(i)],
                         True, stdin=subprocess.PIPE) for i in range(PROGRAMS)]
    began = time.monotonic()
    rounds = move_all(world, procs, each * PROGRAMS)
    print("%d connections at a time, after %d rounds, %.1f s" %
          (each * PROGRAMS, rounds, time.monotonic() - began))
    began = time.monotonic()
    all_say(procs, b"%d\n" % STORM_ROUNDS)
    took = time.monotonic() - began
    say(procs[0], b"die\n")
    said = [proc.communicate()[0].decode() for proc in procs]
    moved = sum(number(text, "upgraded") for text in said[1:])
    if any(proc.returncode for proc in procs[1:]):
        fail("%s" % said)
    print("%d rounds in %.1f s; three programs moved connections %d times" %
          (STORM_ROUNDS, took, moved))
    if moved < 2 * each * (PROGRAMS - 1):
        fail("too few have moved again: %s" % said)
    wait_until("nothing is steered", lambda: ports(world, "b")["vb"] == 0)
    wait_until("osfd holds nothing", lambda: n_fds(osfd) <= fds)
    server.communicate(b"\n")


def main():
    osf = os.path.abspath(sys.argv[1])
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    if os.geteuid():
        skip("needs root")
    world = World(osf)
    try:
        world.open()
        storm(world, n)
        close_cleanly(world)
    finally:
        world.close()


if __name__ == "__main__":
    main()
