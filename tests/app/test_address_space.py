#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_address_space.py - a program that limits its own address space

    at rest            osf takes a few MB of it, not hundreds
    limited, server    its connections work, and the rest is the program's to map
    limited, client    the same, at the other end
"""
import mmap
import os
import re
import resource
import socket
import sys

import harness

MB = 1 << 20
AT_REST_MAX = 3 * MB
SPARE = 256 * MB   # above what the program has when it sets the limit
WANTED = 200 * MB  # which it maps when its connections are there
CONNS = 20
TURNS = 30


def vm_bytes():
    with open("/proc/self/status") as f:
        return int(re.search(r"VmSize:\s+(\d+) kB", f.read())[1]) * 1024


def limit():
    most = vm_bytes() + SPARE
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def take_the_rest():
    mmap.mmap(-1, WANTED, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()


def receive(conn, n):
    got = b""
    while len(got) < n:
        part = conn.recv(n - len(got))
        if not part:
            raise EOFError
        got += part
    return got


def server(port, is_limited):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(100)
    if is_limited:
        limit()
    print("ready", flush=True)
    conns = [listener.accept()[0] for _ in range(CONNS)]
    for conn in conns:
        for i in range(TURNS):
            conn.sendall(receive(conn, 1000))
    if is_limited:
        take_the_rest()
    for conn in conns:
        conn.sendall(b"end")


def client(port, is_limited):
    if is_limited:
        limit()
    conns = [socket.create_connection(("127.0.0.1", port))
             for _ in range(CONNS)]
    for conn in conns:
        for i in range(TURNS):
            data = bytes([i]) * 1000
            conn.sendall(data)
            if receive(conn, 1000) != data:
                sys.exit("wrong bytes")
    if is_limited:
        take_the_rest()
    for conn in conns:
        if receive(conn, 3) != b"end":
            sys.exit("no end")


def at_rest(run):
    sizes = [int(run.python(__file__, "size", osf=osf))
             for osf in (False, True)]
    more = sizes[1] - sizes[0]
    run.need(more <= AT_REST_MAX, "osf takes %d KB of address space" %
             (more // 1024))


def pair(run, server_limited, client_limited):
    port = harness.free_port()
    proc = run.start([sys.executable, __file__, "server", port,
                      int(server_limited)], eager=True)
    run.until(lambda: "ready" in proc.text(), "the server is not ready")
    run.python(__file__, "client", port, int(client_limited), eager=True)
    run.wait(proc)


def main():
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    if what == "size":
        print(vm_bytes())
        return
    if what in ("server", "client"):
        {"server": server, "client": client}[what](
            int(sys.argv[2]), sys.argv[3] == "1")
        return
    run = harness.Run(__file__, not_with={
        "address": "its runtime reserves 20 TB of address space",
        "thread": "its runtime reserves 100 TB of address space"})
    at_rest(run)
    pair(run, True, False)
    run.expect_offloaded(2)
    pair(run, False, True)
    pair(run, True, True)
    run.done()


if __name__ == "__main__":
    main()
