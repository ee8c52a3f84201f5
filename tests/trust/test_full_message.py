#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_full_message.py - a trusted peer sends as many descriptors as a message can have

A process of the same user, which has the other end, answers as the protocol wants, and sends
a second message, which nobody has asked for: 253 descriptors, the last ones sockets that
linger for a minute.  The victim lets go of the unix connection in a call that may not wait.
If the victim asked for less than all of the message, the kernel would close the rest in that
call.
"""
import array
import os
import socket
import sys
import time

import attacker
import harness

HERE = os.path.dirname(os.path.abspath(__file__))
VICTIM = os.path.join(HERE, "victim.py")
SCM_MAX_FDS = 253
N_LINGERING = 12
LINGER_S = 60


def attack(port, done):
    peer = attacker.Opener(port)
    pairs = [attacker.lingering(LINGER_S) for _ in range(N_LINGERING)]
    channel = peer.meet()
    if not channel:
        raise RuntimeError("the victim never came")
    peer.take(channel)
    attacker.hello(channel, [attacker.sealed_memory(1 << 20)])
    memory = attacker.sealed_memory(4096)
    fds = [memory] * (SCM_MAX_FDS - N_LINGERING) + [out.fileno() for out, _ in pairs]
    channel.sendmsg([b"more"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
    for out, _ in pairs:
        attacker.close_aside(out.detach())
    peer.ready(os.getpid(), peer.tcp.fileno())
    try:
        peer.tcp.send(b"B")
        peer.u32(attacker.SIDE_AT + attacker.SIDE_BYTES + 16, 1)
        peer.record(0, b"END__")
    except ConnectionError:
        pass  # the victim has reset the connection
    with open(done, "w") as f:
        f.write("sent")
    time.sleep(LINGER_S)  # the test ends it before


def main():
    run = harness.Run(__file__)
    path, done = run.path("file"), run.path("done")
    port = harness.free_port()
    victim = run.start([sys.executable, VICTIM, "pass", port, path], eager=True)
    run.need(attacker.until(lambda: "file" in victim.text()), "no victim")
    run.need(attacker.until(lambda: attacker.listens(port)), "nobody listens")
    started = time.monotonic()
    pid = attacker.as_user(0, lambda: attack(port, done))
    run.wait(victim)
    print("%.1f s" % (time.monotonic() - started))
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    run.need(os.path.exists(done), "the attack did not take place")
    run.need("slow" not in victim.text(), victim.text())
    run.done()


main()
