#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_former_peer.py - who was a peer once cannot hold up others' news

    server, one epoll set  <- was upgraded, has ended ->  former: still maps the inbox
                           <- asks and waits ->           client

The former peer keeps a mapping of the server's inbox, and writes zeroes there for as
long as the client asks: no news, nobody sleeps.  If the client's news were in the same
memory, the server would find most questions only when it looks around, ten times a
second.  Each is a process of its own, under osf.
"""
import os
import select
import socket
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
import harness  # noqa: E402

QUESTIONS = 60
SLOW_S = 0.03  # median; a server that looks around needs 0.05 s and more
WARM = 40
PATIENCE_S = 60


def server():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen(8)
    poll = select.epoll()
    poll.register(s, select.EPOLLIN)
    conns = {}
    print(s.getsockname()[1], flush=True)
    while True:
        for fd, _ in poll.poll():
            if fd == s.fileno():
                conn = s.accept()[0]
                conns[conn.fileno()] = conn
                poll.register(conn, select.EPOLLIN)
                continue
            data = conns[fd].recv(100)
            if data:
                conns[fd].send(data)
            else:
                poll.unregister(fd)
                conns.pop(fd).close()


def warm(port):
    conn = socket.create_connection(("127.0.0.1", port))
    for _ in range(WARM):
        conn.send(b"warm")
        conn.recv(100)
    return conn


def inboxes():
    """Mappings of this process's own, of all inboxes that it has mapped by now."""
    import mmap
    found = []
    with open("/proc/self/maps") as f:
        for line in f:
            if "osf-inbox" in line and "rw-s" in line:
                with open("/proc/self/map_files/" + line.split()[0], "r+b") as memory:
                    found.append(mmap.mmap(memory.fileno(), 0))
    return found


def former(port):
    conn = warm(port)
    maps = inboxes()
    conn.close()
    print(len(maps), flush=True)
    zeroes = b"\0" * 32768  # the first lanes
    while maps:
        for memory in maps:
            memory[4096:4096 + len(zeroes)] = zeroes


def client(port):
    conn = warm(port)
    took = []
    for _ in range(QUESTIONS):
        time.sleep(0.003)  # so that the server sleeps
        start = time.monotonic()
        conn.send(b"question")
        conn.recv(100)
        took.append(time.monotonic() - start)
    print(statistics.median(took), max(took))


def said(run, proc):
    """What a program prints once it is ready."""
    end = time.monotonic() + PATIENCE_S
    while "\n" not in proc.text() and time.monotonic() < end:
        time.sleep(0.01)
    run.need(proc.text().strip().isdigit(), "not ready:\n" + proc.text())
    return proc.text().strip()


def main():
    run = harness.Run(__file__)
    if run.is_kernel:
        harness.skip("there are no inboxes")
    if os.geteuid():
        harness.skip("needs root: /proc/self/map_files")
    me = [sys.executable, os.path.abspath(__file__)]
    serve = run.start(me + ["server"])
    port = said(run, serve)
    foe = run.start(me + ["former", port])
    run.need(said(run, foe) != "0", "the former peer has no inbox mapped")
    words = run.check(me + ["client", port]).split()
    run.stop(foe)
    run.stop(serve)
    print("beside a former peer: median %.1f ms, at most %.1f ms" %
          tuple(float(word) * 1000 for word in words))
    run.need(float(words[0]) < SLOW_S, "a former peer holds up others' news")
    run.done()


if len(sys.argv) > 1 and sys.argv[1] == "server":
    server()
elif len(sys.argv) > 1 and sys.argv[1] in ("former", "client"):
    {"former": former, "client": client}[sys.argv[1]](int(sys.argv[2]))
else:
    main()
