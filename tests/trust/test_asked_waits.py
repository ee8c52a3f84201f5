#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_asked_waits.py - no call of a program that is attacked waits for longer than 5 ms

Each way of attack of peer_attacks.py is played against a server that makes calls of all kinds on
sockets that do not block, or against a program that passes its connection on.  waits.py counts
for how long each of these calls has asked the kernel to let it wait.  That does not depend on
what else the machine does, so the bound is the promised one: test_peer_costs.py measures times,
and allows more.
"""
import os
import subprocess
import sys

import attacker
import harness
import waits
from peer_attacks import bells, circle, drip, half, noise, start, stop

HERE = os.path.dirname(os.path.abspath(__file__))
VICTIM = os.path.join(HERE, "victim.py")
CONNS = 6
NOISY = 25
BOUND_MS = 5.0
TICK_MS = 1.0  # poll(2) waits for whole milliseconds
PACE_S = 0.02
# What passes a connection on: the program's call, and a relay that connects to itself.
PASSES = {"sendmsg", "connect", "accept4"}


def judge(run, how, said, own=()):
    """@own: calls on a socket that blocks, but not for the peer."""
    print("%s: %s" % (how, said), flush=True)
    run.need(said["calls"], how + ": no call was seen")
    run.need(said["worst_ms"] <= BOUND_MS + TICK_MS, "%s: a call waited for %s" % (how, said))
    run.need(set(said["blocking"]) <= set(own), "%s: waits without end: %s" % (how, said))


def watched(run, pid):
    try:
        watch = waits.Watch(pid)
    except OSError as why:
        harness.skip("may not trace: %s" % why)
    run.need(watch.is_on, "nothing is traced")
    return watch


def against_server(run, how, n):
    port = harness.free_port()
    server = subprocess.Popen([sys.executable, VICTIM, "any", str(port)], stdin=subprocess.PIPE,
                              env=run.env(eager=True), stdout=subprocess.DEVNULL)
    run.need(attacker.until(lambda: attacker.listens(port)), "nobody listens")
    watch = watched(run, server.pid)
    pid, _, _ = start(run, port, how, n, PACE_S)
    stop(pid)
    server.stdin.write(b"end")  # the tracer has this pipe, too: no end is seen
    server.stdin.flush()
    judge(run, how.__name__, watch.said())
    run.need(server.wait() == 0, "%s: the server has failed" % how.__name__)


def against_pass(run, how):
    port, path = harness.free_port(), run.path("file")
    victim = run.start([sys.executable, VICTIM, "pass", port, path], eager=True)
    run.need(attacker.until(lambda: attacker.listens(port)), "nobody listens")
    watch = watched(run, victim.popen.pid)
    pid, _, _ = start(run, port, how, 1)
    said = watch.said()
    stop(pid)
    judge(run, how.__name__ + ", passed on", said, PASSES)
    run.wait(victim)


def main():
    if not waits.WAITS:
        harness.skip("no numbers of system calls for this processor")
    run = harness.Run(__file__)
    for how, n in ((bells, CONNS), (half, CONNS), (drip, CONNS), (circle, CONNS),
                   (noise, NOISY)):
        against_server(run, how, n)
    against_pass(run, drip)
    run.done()


main()
