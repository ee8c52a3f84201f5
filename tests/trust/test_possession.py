#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_possession.py - who owns no end of a connection gets nothing of it

A third process of the same user reads the number that a client's socket shows, and
comes to the offer without a name, and with names of its own, and passes memory.  It must
not be let in.  Others who come to all offers first must not keep connections from moving.
"""
import os
import secrets
import sys
import threading
import time

import attacker
import harness

HERE = os.path.dirname(os.path.abspath(__file__))
VICTIM = os.path.join(HERE, "victim.py")


def reach_all(local, port):
    number = attacker.until(lambda: attacker.number_of(local, port))
    if not number:
        raise RuntimeError("the client offers nothing")
    names = [None, attacker.name_of(secrets.randbits(60)), "\0osf8/attacker"]
    channels = []
    for name in names:
        try:
            channels.append(attacker.reach(number, name))
            memory = [attacker.sealed_memory(1 << 20) for _ in range(2)]
            attacker.hello(channels[-1], memory)
        except OSError:
            pass
    try:
        attacker.reach(number, attacker.name_of(number))
        raise RuntimeError("two sockets have one name")
    except OSError:
        pass
    print("came %d times" % len(channels), flush=True)
    if not channels:
        raise RuntimeError("the attack did not take place")
    time.sleep(0.5)


def main():
    run = harness.Run(__file__)
    port = harness.free_port()
    # A server without osf leaves the offer open to the attacker for as long as it likes.
    plain = run.start([sys.executable, VICTIM, "echo", port], osf=False)
    run.wait_port(port)
    client = run.start([sys.executable, VICTIM, "ask", port, 80], eager=True)
    run.need(attacker.until(lambda: "port" in client.text()), "the client did not connect")
    local = int(client.text().split()[1])
    pid = attacker.as_user(0, lambda: reach_all(local, port))
    run.need(attacker.ended(pid), "see above")
    run.wait(client)
    run.need("slow" not in client.text(), "the client: " + client.text())
    run.stop(plain)
    run.expect_on_kernel()
    # Memory of somebody who was let in would have been looked at, and is none.
    reasons = harness.reasons_table(harness.read_stats(run.stats))
    run.need("BROKEN" not in reasons, "who owns no end was let in:\n" + reasons)
    moved_beside_attackers(run)
    run.done()


def crowd(stop, server_port, ports):
    """Comes to each client's offer as soon as it is there, and stays."""
    kept = []
    while not stop.is_set():
        for local in list(ports):
            number = attacker.number_of(local, server_port)
            try:
                if number:
                    kept.append(attacker.reach(number))
                    ports.remove(local)
            except OSError:
                pass


def moved_beside_attackers(run):
    port = harness.free_port()
    server = run.start([sys.executable, VICTIM, "echo", port], eager=True)
    run.wait_port(port)
    stop, ports = threading.Event(), []
    thread = threading.Thread(target=crowd, args=(stop, port, ports))
    thread.start()
    clients = []
    for _ in range(8):
        client = run.start([sys.executable, VICTIM, "ask", port, 20], eager=True)
        attacker.until(lambda: "port" in client.text())
        ports.append(int(client.text().split()[1]))
        clients.append(client)
    for client in clients:
        run.wait(client)
    stop.set()
    thread.join()
    run.stop(server)
    run.expect_offloaded(len(clients))


main()
