#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_uncounted_bytes.py - a peer sends by TCP what is neither stream nor doorbell

Its bytes go through shared memory, and a byte by TCP is a doorbell, which it counts first.
This peer sends one that it has not counted.  A victim that sleeps for the connection, in
whatever call, must not turn in circles for ever: the connection is reset, at once, and
counted.  Three victims: recv(), poll() and epoll_wait().
"""
import os
import select
import socket
import sys
import time

import attacker
import harness

ENDS_S = 60


def wait_by_poll(conn):
    poll = select.poll()
    poll.register(conn, select.POLLIN)
    poll.poll()


def wait_by_epoll(conn):
    with select.epoll() as poll:
        poll.register(conn, select.EPOLLIN)
        poll.poll()


WAYS = {"recv": lambda conn: None, "poll": wait_by_poll, "epoll": wait_by_epoll}


def victim(way):
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)
    print(listener.getsockname()[1], flush=True)
    conn = listener.accept()[0]
    try:
        while True:
            WAYS[way](conn)
            data = conn.recv(100)
            if not data:
                break
            conn.send(data)
    except ConnectionError:
        pass
    print("ended", flush=True)
    time.sleep(3600)  # the statistics are read while it lives


def attack(port):
    peer = attacker.Opener(port)
    channel = peer.meet()
    if not channel:
        raise RuntimeError("the victim never came")
    peer.take(channel)
    attacker.hello(channel, [peer.fds[1]])
    other = attacker.SIDE_AT + attacker.SIDE_BYTES
    peer.u32(other + 56, 1)  # keeps the victim's bell: it may sleep on that
    peer.ready(os.getpid(), peer.tcp.fileno())
    peer.record(0, b"hello")
    peer.tcp.send(b"B")
    peer.u32(other + 16, 1)
    if not attacker.until(lambda: peer.seg[attacker.PAGE + 8:attacker.PAGE + 13] == b"hello"):
        raise RuntimeError("the connection did not move")
    print("moved", flush=True)
    peer.tcp.send(b"?")  # not counted
    time.sleep(3600)


def main():
    run = harness.Run(__file__)
    pids = []
    try:
        for way in WAYS:
            prog = run.start([sys.executable, os.path.abspath(__file__), "victim", way], eager=True)
            run.need(attacker.until(lambda: "\n" in prog.text(), ENDS_S), "no victim")
            port = int(prog.text())
            pids.append(attacker.as_user(0, lambda: attack(port)))
            run.need(attacker.until(lambda: "ended" in prog.text(), ENDS_S),
                     "%s: the victim turns in circles" % way)
        total = harness.sum_stats(harness.read_stats(run.stats))
        run.need(total["n_broken"] == len(WAYS), "%d were reset" % total["n_broken"])
    finally:
        for pid in pids:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
    run.done()


if sys.argv[1:2] == ["victim"]:
    victim(sys.argv[2])
else:
    main()
