#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_busy_midway.py - a peer makes its socket busy in the middle of a hand-over

    the victim has unread bytes, and becomes another program
        -> a process of osf's has the peer's socket, and is about to write these bytes there
        -> the peer makes the socket busy: the write sleeps for as long as the peer likes

The victim becomes that program nevertheless, which reads and answers the bytes at once, by way of
a relay.  When the peer's socket is free, the write takes place.  The peer hears only then that it
may send by TCP, and the stream goes on, each byte once.  The same with the end of the stream
behind the bytes, and with the end alone: the program sees it, and so does the peer.
"""
import os
import struct
import sys

import attacker
import harness
import traced
from busy import UNREAD, Busy, skip_without, unread

HERE = os.path.dirname(os.path.abspath(__file__))
VICTIM = os.path.join(HERE, "victim.py")
SETTLED = 256
MORE = b"more bytes"


def has_settled(peer):
    return struct.unpack_from("=I", peer.seg, attacker.SIDE_AT)[0] & SETTLED


def receive(peer, what):
    """All that the peer gets by TCP, until @what or, for b"", the end; doorbells come first."""
    got = b""
    while True:
        part = peer.tcp.recv(100)
        got += part
        if not part and what:
            raise RuntimeError("the end after %r" % got)
        if not part or (what and got.endswith(what)):
            return got


def attack(port, fifo, what, ends, orders, done):
    """@orders, @done: pipes, a byte for each step."""
    peer = unread(port, what, ends)
    os.close(os.open(fifo, os.O_WRONLY))
    os.read(orders, 1)
    busy = Busy(peer.tcp.fileno())
    os.write(done, b"b")
    os.read(orders, 1)
    if what and has_settled(peer):
        raise RuntimeError("told too early that nothing more comes")
    busy.end()
    if what:
        receive(peer, what)
    if ends:
        receive(peer, b"")
    if not attacker.until(lambda: has_settled(peer)):
        raise RuntimeError("never told that nothing more comes")
    if not ends:
        peer.tcp.send(MORE)
        if receive(peer, MORE) != MORE:
            raise RuntimeError("a byte twice")
    os.write(done, b"e")


def is_another(victim):
    with open("/proc/%d/comm" % victim.popen.pid) as f:
        return f.read() == "cat\n"


def has_ended(victim):
    """It reads to the end of its input."""
    return victim.popen.poll() is not None


def hand_over(run, what, ends, number):
    port, fifo = harness.free_port(), run.path("fifo.%d" % next(run.serial))
    os.mkfifo(fifo)
    victim = run.start([sys.executable, VICTIM, "become", port, fifo], eager=True)
    run.need(attacker.until(lambda: attacker.listens(port)), "nobody listens")
    orders, order = os.pipe()
    done_r, done = os.pipe()
    try:
        children = traced.Children(victim.popen.pid)
    except OSError as why:
        harness.skip("may not trace: %s" % why)
    pid = attacker.as_user(0, lambda: attack(port, fifo, what, ends, orders, done))
    os.close(done)
    children.stopped_at(number)
    os.write(order, b"b")
    run.need(os.read(done_r, 1), "the peer has ended: " + victim.text())
    children.let_go()
    run.until(lambda: (has_ended if ends else is_another)(victim),
              lambda: "the victim hangs: " + victim.text())
    os.write(order, b"e")
    run.need(os.read(done_r, 1), "%r, ends %s: the connection is lost" % (what, ends))
    run.need(attacker.ended(pid), "the peer has failed")
    run.wait(victim)


def main():
    run = harness.Run(__file__)
    skip_without()
    hand_over(run, UNREAD, False, traced.SENDTO)
    hand_over(run, UNREAD, True, traced.SENDTO)
    hand_over(run, b"", True, traced.SHUTDOWN)
    run.done()


main()
