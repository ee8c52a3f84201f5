#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_strangers_descriptors.py - a stranger's descriptors cost nobody time

Another user offers memory as the peer of a root server, which does not come for it.  It sends
a socket that lingers for a minute over the unix connection on which memory is shared, and closes
its own copy, as somebody who has no end of a root client's connection.  Who lets go of such a
socket last sleeps in close().
"""
import os
import signal
import sys
import time

import attacker
import harness

HERE = os.path.dirname(os.path.abspath(__file__))
VICTIM = os.path.join(HERE, "victim.py")
LINGER_S = 60
ANSWER_S = 30  # generous: the machine is busy
ATTACK_S = 5
TURNS = 50


def done_sending(path):
    """The attacker stays, because its end would end the lingering too."""
    with open(path, "w") as f:
        f.write("sent")
    time.sleep(60)


def as_peer(port):
    peer = attacker.Opener(port)
    for _ in range(TURNS):
        peer.tcp.sendall(b"x")
        if not peer.tcp.recv(1):
            raise ConnectionError("the server has closed the connection")
    try:
        peer.offer.accept()
    except BlockingIOError:
        return
    raise RuntimeError("the server came to a stranger")


def start_attack(run, work):
    folder = run.path("attack")
    os.makedirs(folder, exist_ok=True)
    os.chmod(folder, 0o777)
    path = os.path.join(folder, "sent")
    pid = attacker.as_user(attacker.NOBODY, lambda: work(path))
    is_done = attacker.until(lambda: os.path.exists(path))
    run.need(is_done, "the attack did not take place")
    os.unlink(path)
    return pid


def end_attack(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def attack_server(run):
    port = harness.free_port()
    server = run.start([sys.executable, VICTIM, "echo", port], eager=True)
    run.wait_port(port)
    pid = attacker.as_user(attacker.NOBODY, lambda: as_peer(port))
    run.need(attacker.ended(pid), "see what the attacker says")
    run.stop(server)
    run.need("slow" not in server.text(), "the server: " + server.text())


def reach_client(local, port, path):
    """The client turns a stranger away at its next look, so be quick, and come again."""
    sockets = [attacker.lingering(LINGER_S) for _ in range(4)]
    number = attacker.until(lambda: attacker.number_of(local, port))
    n_sent, start = 0, time.monotonic()
    while n_sent < len(sockets) and \
            time.monotonic() - start < (ATTACK_S if n_sent else ANSWER_S):
        try:
            channel = attacker.reach(number)
            attacker.hello(channel, [sockets[n_sent][0].fileno()])
            attacker.close_aside(sockets[n_sent][0].detach())
            n_sent += 1
        except OSError:
            pass
    if not n_sent:
        raise RuntimeError("the client offers nothing")
    done_sending(path)


def attack_client(run):
    port = harness.free_port()
    server = run.start([sys.executable, VICTIM, "echo", port], osf=False)
    run.wait_port(port)
    client = run.start([sys.executable, VICTIM, "ask", port, 60], eager=True)
    run.need(attacker.until(lambda: "port" in client.text()), "the client did not connect")
    local = int(client.text().split()[1])
    pid = start_attack(run, lambda path: reach_client(local, port, path))
    run.wait(client)
    end_attack(pid)
    run.need("slow" not in client.text(), "the client: " + client.text())
    run.stop(server)


def main():
    run = harness.Run(__file__)
    attack_server(run)
    attack_client(run)
    run.done()


main()
