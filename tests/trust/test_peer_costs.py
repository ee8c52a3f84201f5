#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_peer_costs.py - a peer that begins something and does not end it costs a
bounded time and memory

The peer is of the victim's user: no other comes so far.  Each way of attack is played against
a server that makes calls of all kinds on sockets that do not block, or against a program that
passes its connection on.  These say how long their calls took on the wall, less what they
waited for a core.  An honest client is answered meanwhile.  Who passes a connection on also
waits for a short-lived process of osf's own, which may wait for a core itself.

The ways of attack are in peer_attacks.py.
"""
import os
import re
import socket
import subprocess
import sys

import attacker
import harness
from peer_attacks import bells, circle, drip, half, noise, start, stop

HERE = os.path.dirname(os.path.abspath(__file__))
VICTIM = os.path.join(HERE, "victim.py")
CONNS = 6
NOISY = 25
LONGEST_MS = 100  # 5 and what a call may sleep for in the kernel on a busy machine
LONGEST_PASS_MS = 1500
MEMORY_KIB = 16 << 10  # what Python needs, beside the segments
PACE_S = 0.02  # of bytes that some of the victim's calls throw away
QUESTIONS = 20


def judge(run, how, said, longest_ms):
    got = re.search(r"the longest \S+ ([\d.]+) ms", said)
    run.need(got, "%s: the victim said %r" % (how.__name__, said))
    run.need(float(got[1]) < longest_ms, "%s: %s" % (how.__name__, said))


def memory_kib(pid):
    with open("/proc/%d/status" % pid) as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1])


def is_answered(port):
    """Some of the server's calls throw a question away, or shut its connection."""
    with socket.create_connection(("127.0.0.1", port), 2) as client:
        try:
            client.send(b"question" * 100)
            return bool(client.recv(1))
        except OSError:
            return False


def against_server(run, how, n):
    port = harness.free_port()
    server = subprocess.Popen([sys.executable, VICTIM, "any", str(port)], text=True,
                              env=run.env(eager=True), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)
    run.need(attacker.until(lambda: attacker.listens(port)), "nobody listens")
    before = memory_kib(server.pid)
    pid, n_done, segments = start(run, port, how, n, PACE_S)
    run.need(any(is_answered(port) for _ in range(QUESTIONS)), "an honest client got no answer")
    more = memory_kib(server.pid) - before
    stop(pid)
    said = server.communicate(timeout=30)[0].strip()
    print("%s, %d connections: %s; %d KiB more" % (how.__name__, n_done, said, more), flush=True)
    run.need(more < MEMORY_KIB + segments, "%s: %d KiB more, where segments are %d" %
             (how.__name__, more, segments))
    run.need(server.returncode == 0, "the victim ended with %d" % server.returncode)
    judge(run, how, said, LONGEST_MS)


def against_pass(run, how):
    port, path = harness.free_port(), run.path("file")
    victim = run.start([sys.executable, VICTIM, "pass", port, path], eager=True)
    run.need(attacker.until(lambda: attacker.listens(port)), "nobody listens")
    pid, _, _ = start(run, port, how, 1)
    run.wait(victim)
    stop(pid)
    said = victim.text()
    print("%s, passed on: %s" % (how.__name__, said.split("\n")[-3]), flush=True)
    judge(run, how, said, LONGEST_PASS_MS)
    more = int(re.search(r"(-?\d+) KiB more", said)[1])
    run.need(more < MEMORY_KIB, "%s: %d KiB more" % (how.__name__, more))


def main():
    run = harness.Run(__file__)
    for how, n in ((bells, CONNS), (half, CONNS), (drip, CONNS), (circle, CONNS),
                   (noise, NOISY)):
        against_server(run, how, n)
    for how in (drip, circle):
        against_pass(run, how)
    run.done()


main()
