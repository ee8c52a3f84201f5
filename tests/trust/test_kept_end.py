#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_kept_end.py - a stranger keeps the lock of its own end of a connection

A thread of the stranger is inside a send() that never ends (busy.py), so every call on that
socket waits, and no signal ends the wait.  The kernel takes the same lock when somebody asks
sock_diag for all that it knows of the socket.  The victim wonders meanwhile whether the connection
may move: it is to go on with its other connections.
"""
import os
import signal
import socket
import sys

import attacker
import harness
from busy import Busy, skip_without, userfaultfd

HERE = os.path.dirname(os.path.abspath(__file__))
VICTIM = os.path.join(HERE, "victim.py")
MOVES = ({"OSF_UPGRADE_TURNS": "0"}, {"OSF_UPGRADE_PINGPONGS": "2"})
QUESTIONS = 20


def stranger(port, told):
    fault_fd = userfaultfd()
    os.setgid(attacker.NOBODY)
    os.setuid(attacker.NOBODY)
    conn = socket.socket()
    conn.connect(("127.0.0.1", port))
    for _ in range(QUESTIONS):
        conn.sendall(b"x")
    Busy(conn.fileno(), fault_fd)
    os.write(told, b"kept")
    signal.pause()


def attack(run, moves):
    port = harness.free_port()
    server = run.start([sys.executable, VICTIM, "echo", port], extra=moves)
    run.need(attacker.until(lambda: attacker.listens(port)), "nobody listens")
    # It accepts the connection when the lock is kept, and not before.
    os.kill(server.popen.pid, signal.SIGSTOP)
    ready, told = os.pipe()
    pid = attacker.as_user(0, lambda: stranger(port, told))
    os.close(told)
    is_kept = os.read(ready, 9) == b"kept"
    os.kill(server.popen.pid, signal.SIGCONT)
    asks = run.start([sys.executable, VICTIM, "ask", port, QUESTIONS], extra=moves)
    is_answered = attacker.until(lambda: "answered" in asks.text(), 20)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    run.need(is_kept, "the lock is not kept")
    run.need(is_answered, "the server hangs: " + asks.text())
    run.wait(asks)
    run.stop(server)


def main():
    run = harness.Run(__file__)
    skip_without()
    for moves in MOVES:
        attack(run, moves)
    total = harness.sum_stats(harness.read_stats(run.stats))
    run.need(run.is_kernel or total["n_upgraded"] >= 2 * len(MOVES),
             "%d ends of the other connections moved" % total["n_upgraded"])
    run.done()


main()
