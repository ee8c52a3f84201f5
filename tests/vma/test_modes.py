#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/vma/test_modes.py - what sockperf does with VMA's extra API, in each of its ways

    test_modes.py BUILD MODES

sockperf's source is not to be had from the package mirrors, and their binary is built
without the API.  So MODES (modes.c) makes the same calls in the same order: ping-pong by
callback, zero copy and SocketXtreme, with and without dummy sends, over TCP and UDP, each
against each, and against a peer on the kernel.
"""
import os
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
from ports import free_port  # noqa: E402
from sanitizer import Sanitizer  # noqa: E402

LIMIT_S = 60
SERVERS = ["plain", "filter", "zcopy", "xtreme"]
CLIENTS = ["plain", "zcopy", "xtreme"]
ANSWER = "3001 messages\n"


def play(modes, protocol, server, client, envs, dummies):
    port = str(free_port(socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM))
    s = subprocess.Popen([modes, "server", server, protocol, port], env=envs[0], text=True,
                         stdout=subprocess.PIPE)
    try:
        if s.stdout.readline() != "ready\n":
            return "the server is not ready"
        c = subprocess.run([modes, "client", client, protocol, port, str(dummies)],
                           env=envs[1], text=True, stdout=subprocess.PIPE, timeout=LIMIT_S)
        said = s.communicate(timeout=LIMIT_S)[0]
        return "" if c.stdout == said == ANSWER and not c.returncode and not s.returncode \
            else "client %d %r, server %r %r" % (c.returncode, c.stdout, s.returncode, said)
    except subprocess.TimeoutExpired as e:
        return str(e)
    finally:
        s.kill()
        s.wait()


def main():
    build, modes = sys.argv[1:3]
    bad = 0
    with tempfile.TemporaryDirectory() as tmp:
        sanitizer = Sanitizer(build, os.path.join(tmp, "reports"))
        plain = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        lib = os.path.join(os.path.abspath(build), "src", "vma", "libvma.so")
        ours = dict(plain, LD_PRELOAD=sanitizer.preload(lib), OSF_UPGRADE_TURNS="2",
                    **sanitizer.env())
        runs = [(p, s, c, (ours, ours), 0) for p in ("tcp", "udp") for s in SERVERS
                for c in CLIENTS]
        runs += [(p, "xtreme", c, (ours, ours), 3) for p in ("tcp", "udp") for c in CLIENTS]
        runs += [(p, s, "plain", (ours, plain), 0) for p in ("tcp", "udp") for s in SERVERS]
        for run in runs:
            wrong = play(modes, *run)
            bad += wrong != ""
            if wrong:
                print("%s server %s, client %s, dummies %d: %s" %
                      (run[0], run[1], run[2], run[4], wrong))
        reports = sanitizer.reports()
        print("\n".join(reports[:3]))
        sys.exit(bad > 0 or bool(reports))


main()
