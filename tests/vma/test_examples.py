#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/vma/test_examples.py - the programs of examples/ for VMA's extra API

    test_examples.py FOLDER

This process, which knows nothing of osf, and the echo client of examples/ ask them.
"""
import os
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
from ports import free_port  # noqa: E402
from sanitizer import Sanitizer  # noqa: E402

LIMIT_S = 60
N = 20000


def start(folder, env, name, *args):
    return subprocess.Popen([os.path.join(folder, name)] + [str(a) for a in args],
                            env=env, stdout=subprocess.PIPE, text=True)


def connect(port):
    """The server may not listen yet."""
    end = time.monotonic() + LIMIT_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), LIMIT_S)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise


def output(p):
    out = p.communicate(timeout=LIMIT_S)[0]
    if p.returncode:
        sys.exit("%s: status %d" % (p.args[0], p.returncode))
    return out


def need(ok, what):
    if not ok:
        sys.exit("not so: " + what)


def xtreme_server(folder, env):
    port = free_port(socket.SOCK_STREAM)
    p = start(folder, env, "vma_xtreme_server", port, 3)
    data = bytes(i % 251 for i in range(N))
    socks = [connect(port) for _ in range(3)]
    for s in socks:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
    for s in socks:
        got = b""
        while part := s.recv(65536):
            got += part
        need(got == data, "%d bytes came back" % N)
        s.close()
    output(p)


def zero_copy(folder, env):
    port = free_port(socket.SOCK_STREAM)
    p = start(folder, env, "vma_zero_copy", port)
    data = bytes(i % 253 for i in range(N))
    with connect(port) as s:
        s.sendall(data)
    need(output(p) == "%d bytes, sum %d\n" % (N, sum(data)), "the sum")


def filters(folder, env, drops):
    port = free_port(socket.SOCK_DGRAM)
    p = start(folder, env, "vma_filter", port, "yes", 5)
    end = time.monotonic() + LIMIT_S
    # Nobody says when it is bound: the first ones may be lost.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        while time.monotonic() < end:
            s.sendto(b"no, not this", ("127.0.0.1", port))
            s.sendto(b"yes, this", ("127.0.0.1", port))
            try:
                p.wait(0.001)
                break
            except subprocess.TimeoutExpired:
                pass
    lines = output(p).split("\n")
    need(lines[:5] == ["yes, this"] * 5, "five datagrams, not %r" % lines)
    need(int(lines[5].split()[1]) >= drops, "dropped ones: " + lines[5])


def run_all(folder, lib, bare, sanitizer):
    env = dict(bare, **sanitizer.env())
    env["LD_PRELOAD"] = " ".join(filter(None, (env.get("LD_PRELOAD"), lib)))
    xtreme_server(folder, env)
    zero_copy(folder, env)
    filters(folder, env, 4)
    if not sanitizer.env():
        filters(folder, bare, 4)
    reports = sanitizer.reports()
    need(not reports, "\n".join(reports[:3]))


def main():
    folder = sys.argv[1]
    build = os.environ.get("OSF_BUILD", "build")
    lib = os.path.join(os.path.abspath(build), "src", "libosf.so")
    bare = dict(os.environ)
    with tempfile.TemporaryDirectory() as tmp:
        run_all(folder, lib, bare, Sanitizer(build, os.path.join(tmp, "reports")))


main()
