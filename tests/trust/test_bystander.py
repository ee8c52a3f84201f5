#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_bystander.py - while a peer attacks a server, calls on the server's other
connections cost what they cost before

    attacker  --- its own connections ---  server (victim.py cost)  --- one ---  bystander

The bystander asks and is answered, again and again, and each answer says how much CPU the server's
calls for the last one took.  Meanwhile a peer of the server's user attacks, in slices of SLICE_S
that take turns with slices in which it rests.  Each slice has a median.  For each way of attack,
the least median with attacks is at most MOST times the least one without: an attack that works
makes each of them dearer.  What others on the machine do is no part of it, nor what the server does
for the attacker; that no call of the server waits is victim.py's to say.
"""
import mmap
import os
import random
import signal
import socket
import statistics
import sys
import time

import attacker
import harness
import peer_attacks

VICTIM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "victim.py")
WAYS = ("bells", "half", "drip", "circle", "noise")
SLICE_S = 0.1
SLICES = 24
PACE_S = 0.01  # so long an attacker has its connection
REST_S = 0.05  # between two attacks: a peer that only floods is no matter of osf's
MOST = 1.2
TRIES = 3  # where others share the processor's caches
MESSAGE = b"x" * 64


def attack(port, way, is_on):
    """Counts the attacks in @is_on[1:]."""
    rng = random.Random(int(os.environ.get("OSF_TEST_SEED") or 1))
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    while True:
        while not is_on[0]:
            time.sleep(0.001)
        try:
            peer = getattr(peer_attacks, way)(port, rng, 0)
            is_on[1:9] = (int.from_bytes(is_on[1:9], "little") + 1).to_bytes(8, "little")
            time.sleep(PACE_S)
            peer.tcp.close()
            peer.seg.close()
            for fd in peer.fds:
                os.close(fd)
        except (OSError, RuntimeError, ValueError):
            pass  # reset by what we did: its right
        time.sleep(REST_S)


def answers_ns(conn, until):
    """How much CPU the server has used for each answer but the last."""
    took = []
    while time.monotonic() < until:
        conn.send(MESSAGE)
        took.append(int(conn.recv(100)))
    return took


def shared(path):
    """What attacker and bystander share: whether it attacks, and how often it did."""
    with open(path, "a+b") as f:
        f.truncate(4096)
        return mmap.mmap(f.fileno(), 4096)


def bystander(port, path):
    """Prints the least median of a slice without attacks and with them, in microseconds."""
    conn = socket.create_connection(("127.0.0.1", port))
    is_on = shared(path)
    answers_ns(conn, time.monotonic() + SLICE_S)
    took = ([], [])
    for i in range(SLICES):
        is_on[0] = i % 2
        took[i % 2].append(statistics.median(answers_ns(conn, time.monotonic() + SLICE_S)))
    is_on[0] = 0
    print(" ".join("%.1f" % (min(some) / 1000) for some in took))


def judge(run, port, way):
    path = run.path(way)
    is_on = shared(path)
    pid = attacker.as_user(0, lambda: attack(port, way, is_on))  # without osf
    for _ in range(TRIES):
        rested, attacked = map(float, run.python(__file__, "bystander", port, path,
                                                 eager=True).split())
        n = int.from_bytes(is_on[1:9], "little")
        print("%s: %d attacks; %.1f us with them, %.1f us without: %.2f" %
              (way, n, attacked, rested, attacked / rested), flush=True)
        run.need(n, "%s: the attack did not take place" % way)
        if attacked <= MOST * rested:
            break
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    if attacked > MOST * rested:
        run.fail("%s: a bystander costs %.2f times as much" % (way, attacked / rested))


def main():
    run = harness.Run(__file__, not_with={"thread": "it compares costs"})
    for way in WAYS:
        port = harness.free_port()
        server = run.start([sys.executable, VICTIM, "cost", port], eager=True)
        run.wait_port(port)
        judge(run, port, way)
        run.stop(server)
    if not run.is_kernel:
        total = harness.sum_stats(harness.read_stats(run.stats))
        run.need(total["n_upgraded"] >= 2 * len(WAYS), "%d upgraded" % total["n_upgraded"])
    run.done()


if sys.argv[1:2] == ["bystander"]:
    bystander(int(sys.argv[2]), sys.argv[3])
else:
    main()
