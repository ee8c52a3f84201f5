#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_busy_socket.py - a peer keeps its own end of the connection busy

To give unread bytes back, the victim has them written into the peer's socket.  A thread of
the peer keeps that socket busy (busy.py), and the victim passes the connection on meanwhile.
"""
import os
import sys
import threading

import attacker
import harness
from busy import Busy, skip_without, unread

HERE = os.path.dirname(os.path.abspath(__file__))
VICTIM = os.path.join(HERE, "victim.py")


def attack(port, fifo):
    peer = unread(port)
    Busy(peer.tcp.fileno())
    os.close(os.open(fifo, os.O_WRONLY))
    threading.Event().wait()


def main():
    run = harness.Run(__file__)
    skip_without()
    port, fifo = harness.free_port(), run.path("fifo")
    os.mkfifo(fifo)
    victim = run.start([sys.executable, VICTIM, "pass", port, run.path("file"), fifo],
                       eager=True)
    run.need(attacker.until(lambda: attacker.listens(port)), "nobody listens")
    pid = attacker.as_user(0, lambda: attack(port, fifo))
    is_done = attacker.until(lambda: "locked" in victim.text())
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    run.need(is_done, "the victim hangs: " + victim.text())
    run.wait(victim)
    print(victim.text())
    run.done()


main()
