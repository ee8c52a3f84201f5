#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_wrong_descriptors.py - a trusted peer sends descriptors of the wrong kind

A process of the same user, which has the other end, answers with what is no memory: a
socket that lingers, a file that the victim has locked, a terminal, an epoll set, a pipe,
more descriptors than the protocol knows.  No call of the victim waits, its lock stays,
and the connection goes on over TCP or is reset.
"""
import os
import select
import sys
import time

import attacker
import harness

HERE = os.path.dirname(os.path.abspath(__file__))
VICTIM = os.path.join(HERE, "victim.py")
LINGER_S = 60


def a_lingering_one(path):
    out, far_end = attacker.lingering(LINGER_S)
    return [out.detach()], far_end


def many_lingering(path):
    pairs = [attacker.lingering(LINGER_S) for _ in range(5)]
    return [out.detach() for out, _ in pairs], [far_end for _, far_end in pairs]


def a_file(path):
    return [os.open(path, os.O_RDWR)], None


def a_terminal(path):
    master, slave = os.openpty()
    return [master, slave], None


def an_epoll_set(path):
    ends = os.pipe()
    poller = select.epoll()
    poller.register(ends[0], select.EPOLLIN)
    return [os.dup(poller.fileno()), ends[0]], ends[1]


def a_process(path):
    return [os.pidfd_open(os.getpid())], None


WRONG = [a_lingering_one, many_lingering, a_file, a_terminal, an_epoll_set, a_process]


def attack(port, path, make, done):
    peer = attacker.Opener(port)
    fds, keep = make(path)
    channel = peer.meet()
    if not channel:
        raise RuntimeError("the victim never came")
    peer.take(channel)
    attacker.hello(channel, fds)
    for fd in fds:
        attacker.close_aside(fd)
    peer.ready(os.getpid(), peer.tcp.fileno())
    try:
        peer.tcp.send(b"B")
        peer.u32(attacker.SIDE_AT + attacker.SIDE_BYTES + 16, 1)
        peer.record(0, b"END__")
        peer.tcp.send(b"B")
        peer.u32(attacker.SIDE_AT + attacker.SIDE_BYTES + 16, 2)
    except ConnectionError:
        pass  # the victim has seen what it got, and has reset the connection
    with open(done, "w") as f:
        f.write("sent")
    time.sleep(LINGER_S)  # the test ends it before
    del keep


def main():
    run = harness.Run(__file__)
    path = run.path("file")
    for make in WRONG:
        port = harness.free_port()
        victim = run.start([sys.executable, VICTIM, "pass", port, path], eager=True)
        run.need(attacker.until(lambda: "file" in victim.text()), "no victim")
        run.need(attacker.until(lambda: attacker.listens(port)), "nobody listens")
        done = run.path("done." + make.__name__)
        started = time.monotonic()
        pid = attacker.as_user(0, lambda: attack(port, path, make, done))
        run.wait(victim)
        took = time.monotonic() - started
        run.need("slow" not in victim.text() and "\nlocked" in victim.text(),
                 "%s: %s" % (make.__name__, victim.text()))
        run.need(os.path.exists(done), "%s: the attack did not take place" % make.__name__)
        print("%s: %.1f s" % (make.__name__, took))
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    run.done()


main()
