#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_kept_pages.py - a child that keeps the locks of all sockets it shares with
its parent, or says that it is moving them for ever, does not make the parent wait for each

The parent has CONNS connections in shared memory, none of which blocks, and forks a child.
The child writes into the page of each socket: a lock's owner (itself, or a process that has
no such page), the mode of a socket that is being moved, or anything into the other words.
It goes on writing, so that nothing the parent does ends the attack.  Meanwhile each call of
the parent, on one socket or on all of them, takes LONGEST_MS at most, less what it waited
for a core (tests/app/timed.py).  One wait takes 5 ms; the limit is for a busy machine, and far from CONNS waits.
"""
import ctypes
import fcntl
import os
import random
import re
import select
import socket
import struct
import sys
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
import harness  # noqa: E402
import timed as timing  # noqa: E402

CONNS = 100
TURNS = 20
ROUNDS = 3
LONGEST_MS = 100
GIVE_UP_S = 30
PAGE = 4096
# struct shared_page (src/sock/shared.h)
RX, TX, MODE, MOVER = 0, 576, 1160, 1164
WORDS = range(1220, 1408, 4)  # struct sock_words, but for its first
ANYTHING = -1
UPGRADING = 1
INIT = 1  # has no such page
# They wait for a process of our user that may be moving the connection (docs/trust.md).
PATIENT = ("TCP_NODELAY", "SO_SNDBUF", "shutdown")
WAYS = {"own": ((RX, None), (TX, None)), "strangers": ((RX, INIT), (TX, INIT)),
        "receiving": ((RX, None),), "sending": ((TX, None),), "moving": ((MODE, UPGRADING),),
        "mover": ((MODE, UPGRADING), (MOVER, None)),
        "words": tuple((at, ANYTHING) for at in WORDS)}


# --- under osf ---

LOST = timing.LostTime()

def pages():
    """Addresses of memory that this process and its parent share, without a file."""
    with open("/proc/self/maps") as f:
        for line in f:
            low, high, flags = re.match(r"(\w+)-(\w+) (\S+)", line).groups()
            if flags == "rw-s" and "/dev/zero" in line:
                yield from range(int(low, 16), int(high, 16), PAGE)


def keep(way, ready, parent):
    words = [(ctypes.c_uint32.from_address(page + at), value or os.getpid())
             for page in pages() for at, value in WAYS[way]]
    rng = random.Random(int(os.environ.get("OSF_TEST_SEED") or 1))
    while os.getppid() == parent:
        for word, value in words:
            word.value = value if value != ANYTHING else rng.getrandbits(32)
        if ready:
            os.write(ready, b"x")
            ready = None
        time.sleep(0.001)  # the attack's pace


def timed(name, call):
    start = time.monotonic_ns() - LOST.ns()
    try:
        said = call()
    except OSError as why:  # reset, or nothing there: its right
        said = why
    took_ms = (time.monotonic_ns() - LOST.ns() - start) / 1e6
    assert took_ms < LONGEST_MS, "%s took %.1f ms: %.100r" % (name, took_ms, said)
    return said


def pair(listener):
    a = socket.create_connection(listener.getsockname())
    b = listener.accept()[0]
    for _ in range(TURNS):
        for out, back in ((a, b), (b, a)):
            out.send(b"x")
            assert back.recv(9) == b"x"
    return a, b


def call_all(socks):
    poll = select.poll()
    with select.epoll() as epoll:
        for sock in socks:
            poll.register(sock, select.POLLIN | select.POLLOUT)
            epoll.register(sock, select.EPOLLIN | select.EPOLLOUT)
        timed("poll", lambda: poll.poll(0))
        timed("epoll_wait", lambda: epoll.poll(0))
        timed("select", lambda: select.select(socks, socks, [], 0))


def call_each(socks, way):
    tcp = socket.IPPROTO_TCP
    of = iter(socks)
    for name, call in (
            ("send", lambda: next(of).send(b"x")), ("recv", lambda: next(of).recv(9)),
            ("MSG_OOB", lambda: next(of).send(b"x", socket.MSG_OOB)),
            ("FIONREAD", lambda: fcntl.ioctl(next(of), termios.FIONREAD, bytes(4))),
            ("TCP_NODELAY", lambda: next(of).setsockopt(tcp, socket.TCP_NODELAY, 1)),
            ("SO_SNDBUF", lambda: next(of).setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 99999)),
            ("shutdown", lambda: next(of).shutdown(socket.SHUT_RDWR)),
            ("close", lambda: next(of).close())):
        if way != "mover" or name not in PATIENT:
            timed(name, call)


def is_kept(socks):
    """Has the attack an effect?  On the kernel, there is room to send."""
    said = timed("send", lambda: socks[-1].send(b"x"))
    return said != 1


def serve(way):
    with socket.create_server(("127.0.0.1", 0), backlog=CONNS) as listener:
        socks = [end for _ in range(CONNS // 2) for end in pair(listener)]
    for sock in socks:
        sock.setblocking(False)
    wait, ready = os.pipe()
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        keep(way, ready, parent)
        os._exit(0)
    os.read(wait, 1)
    give_up = time.monotonic() + GIVE_UP_S
    for _ in range(ROUNDS):
        call_all(socks)
    if way in ("own", "sending"):
        while not is_kept(socks):  # the child needs a core to write again
            assert time.monotonic() < give_up, "the child keeps nothing"
    call_each(socks, way)
    call_all([sock for sock in socks if sock.fileno() >= 0])
    for sock in socks:
        timed("close", sock.close)
    os.kill(pid, 9)
    os.waitpid(pid, 0)


# --- outside ---

def main():
    run = harness.Run(__file__)
    if run.is_kernel:
        harness.skip("the memory is osf's")
    for way in WAYS:
        run.check([sys.executable, os.path.abspath(__file__), "serve", way], eager=True)
    run.done()


if sys.argv[1:2] == ["serve"]:
    serve(sys.argv[2])
else:
    main()
