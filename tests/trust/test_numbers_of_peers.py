#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_numbers_of_peers.py - a peer names a descriptor that is not its own

To give unread bytes back, the victim may use the peer's descriptor of the connection,
and the peer says which process has it under which number.  A peer of the same user says:
the victim itself, and the number of a file that the victim has locked.  Whoever closes
any descriptor of a file loses all POSIX locks on it.
"""
import os
import sys

import attacker
import harness

HERE = os.path.dirname(os.path.abspath(__file__))
VICTIM = os.path.join(HERE, "victim.py")


def attack(port, victim_pid, file_fd):
    peer = attacker.Opener(port)
    channel = peer.meet()
    if not channel:
        raise RuntimeError("the victim never came")
    peer.take(channel)
    attacker.hello(channel, [peer.fds[1]])
    peer.ready(victim_pid, file_fd)
    peer.record(0, b"hello")
    peer.tcp.send(b"B")  # a doorbell
    peer.u32(attacker.SIDE_AT + attacker.SIDE_BYTES + 16, 1)
    if not attacker.until(lambda: peer.seg[attacker.PAGE + 8:attacker.PAGE + 13] == b"hello"):
        raise RuntimeError("the connection did not move")
    peer.record(64, b"END__")
    peer.record(128, b"unread bytes")
    peer.tcp.send(b"B")
    peer.u32(attacker.SIDE_AT + attacker.SIDE_BYTES + 16, 2)
    print("moved", flush=True)
    try:
        peer.tcp.recv(1)
    except OSError:
        pass


def main():
    run = harness.Run(__file__)
    port = harness.free_port()
    victim = run.start([sys.executable, VICTIM, "pass", port, run.path("file")], eager=True)
    run.need(attacker.until(lambda: "file" in victim.text()), "no victim")
    run.need(attacker.until(lambda: attacker.listens(port)), "nobody listens")
    number = int(victim.text().split()[1])
    pid = attacker.as_user(0, lambda: attack(port, victim.popen.pid, number))
    run.wait(victim)
    print(victim.text())
    run.need("\nlocked" in victim.text(), "the victim lost its lock: " + victim.text())
    run.need(attacker.ended(pid), "the attack did not take place")
    run.done()


main()
