#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_short.py - connections that end before a move to shared memory has paid
stay with the kernel, and those that last move

    test_short.py                            the test
    test_short.py server PORT CONNECTIONS    answers, one connection after another
    test_short.py client PORT N,EXCHANGES... N connections of so many questions, and so on

What is counted is in the statistics of each program, so that no time decides.
"""
import socket
import sys

import harness

MESSAGE = b"q" * 64
SHORT = 5  # questions of a connection that moves, if nothing is known, and ends
LONG = 100


def server(port, n):
    with socket.create_server(("127.0.0.1", port)) as lsn:
        for _ in range(n):
            conn = lsn.accept()[0]
            with conn:
                while data := conn.recv(len(MESSAGE)):
                    conn.sendall(data)


def client(port, *phases):
    for phase in phases:
        n, exchanges = map(int, phase.split(","))
        for _ in range(n):
            with socket.create_connection(("127.0.0.1", port)) as conn:
                for _ in range(exchanges):
                    conn.sendall(MESSAGE)
                    if len(conn.recv(len(MESSAGE), socket.MSG_WAITALL)) != len(MESSAGE):
                        sys.exit("the server has ended")


def both(run, phases, **extra):
    """Return: for client and server together, how many ends moved, and how many were
    left to the kernel because others had been short."""
    before = {seg.pid for seg in harness.read_stats(run.stats)}
    port = harness.free_port()
    n = sum(int(phase.split(",")[0]) for phase in phases)
    one = run.start([sys.executable, __file__, "server", str(port), str(n + 1)], extra=extra)
    run.wait_port(port)  # connects once, without osf and without a question
    run.check([sys.executable, __file__, "client", str(port), *phases], extra=extra)
    run.wait(one)
    segments = [seg for seg in harness.read_stats(run.stats) if seg.pid not in before]
    short = harness.reason_names().index("SHORT_LIVED")
    total = harness.sum_stats(segments)
    run.need(run.is_kernel or total["n_connected"] == total["n_accepted"] - 1 == n,
             "%d connected, %d accepted" % (total["n_connected"], total["n_accepted"]))
    return total["n_upgraded"], sum(seg.reasons[short] for seg in segments)


def main():
    run = harness.Run(__file__)
    moved, short = both(run, ["40,%d" % SHORT])
    run.need(run.is_kernel or moved <= 4 and short >= 70,
             "40 short ones: %d ends moved, %d stayed because of the others" % (moved, short))
    print("short: %d of 80 ends moved, %d stayed because of the others" % (moved, short))

    moved, short = both(run, ["20,%d" % SHORT, "10,%d" % LONG])
    run.need(run.is_kernel or moved >= 20, "10 long ones: %d ends moved" % moved)
    print("short, then long: %d ends moved" % moved)

    # Whoever says when a connection is to move gets that.
    moved, short = both(run, ["20,%d" % SHORT], OSF_UPGRADE_TURNS="5")
    run.need(run.is_kernel or moved >= 20 and short == 0,
             "by the setting: %d ends moved, %d stayed because of the others" % (moved, short))
    print("short, by the setting: %d of 40 ends moved" % moved)
    run.done()


if len(sys.argv) > 1:
    {"server": server, "client": client}[sys.argv[1]](
        *[int(arg) if arg.isdigit() else arg for arg in sys.argv[2:]])
else:
    main()
