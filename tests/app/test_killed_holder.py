#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_killed_holder.py - one of two processes that hold a connection is killed
in the middle of a call; the other goes on

    test_killed_holder.py [KILLS]

A parent connects and forks; the child sends, or receives, as fast as it can, and is killed
at a random moment.  Then the parent goes on with the connection.  What has arrived by then is
a part of the stream without a gap.  On the kernel the connection is never lost.  Under osf it
is, if the child was killed between what its peer can see of a record and the note that says so,
which is some ten instructions: how often is printed, and bounded.
"""
import os
import random
import signal
import socket
import sys
import time

import harness
import warmed

KILLS = 40
PIECE = 48 * 1024
PATTERN = b"".join(i.to_bytes(4, "big") for i in range(1 << 18))
END = b"\xff" * 16 + b"END"
READ_ON = 256 * 1024
LATEST_S = 0.004
PATIENCE_S = 60  # of one call, on a busy machine
LOST_MAX = 0.05


# --- the far end ---

def check_stream(conn):
    """The start of the pattern, again and again, cut somewhere; then END."""
    got = b""
    while True:
        data = conn.recv(1 << 16)
        if not data:
            break
        got += data
    n = len(got) - len(END)
    right = n >= 0 and got[n:] == END and got[:n] == (PATTERN * (n // len(PATTERN) + 1))[:n]
    conn.send(b"right" if right else b"wrong")


def send_stream(conn):
    at = 0
    while True:
        conn.send(PATTERN[at:at + PIECE])
        at = (at + PIECE) % len(PATTERN) if at + PIECE < len(PATTERN) else 0


# --- the two holders ---

def child(conn, way):
    at = 0
    while True:
        if way == b"r":
            conn.recv(PIECE)
        else:
            piece = PATTERN[at:at + PIECE]
            conn.sendall(piece)
            at = (at + len(piece)) % len(PATTERN)


def read_on(conn):
    got = b""
    while len(got) < READ_ON:
        data = conn.recv(1 << 16)
        if not data:
            return "ended"
        got += data
    at = (PATTERN + PATTERN).find(got[:64])
    at = at if at >= 0 else PATTERN.find(got[:64])
    whole = PATTERN[at:] + PATTERN
    return "right" if at >= 0 and got[:READ_ON] == whole[:READ_ON] else "wrong"


def send_on(conn):
    conn.sendall(END)
    conn.shutdown(socket.SHUT_WR)
    return conn.recv(10).decode()


def one(port, way, rng):
    """Return: right, wrong, or reset."""
    conn = warmed.connect(port, way)
    pid = os.fork()
    if not pid:
        child(conn, way)
    time.sleep(rng.uniform(0.0005, LATEST_S))  # the attack's moment, not a wait
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    conn.settimeout(PATIENCE_S)
    try:
        return read_on(conn) if way == b"r" else send_on(conn)
    except ConnectionError:
        return "reset"
    finally:
        conn.close()


def holders(port, kills):
    rng = random.Random(int(os.environ.get("OSF_TEST_SEED") or 1))
    for way in (b"s", b"r"):
        counts = {}
        for _ in range(kills):
            result = one(port, way, rng)
            counts[result] = counts.get(result, 0) + 1
        print(way.decode(), counts, flush=True)
        if set(counts) - {"right", "reset"} or counts.get("reset", 0) > kills * LOST_MAX:
            sys.exit(1)


def main():
    run = harness.Run(__file__)
    port = harness.free_port()
    kills = sys.argv[1] if len(sys.argv) > 1 else KILLS
    script = os.path.abspath(__file__)
    run.start([sys.executable, script, "far", port], eager=True)
    run.wait_port(port)
    print(run.python(script, "holders", port, kills, eager=True), end="")
    run.done()


if sys.argv[1:2] == ["far"]:
    warmed.serve(int(sys.argv[2]), {b"s": check_stream, b"r": send_stream})
elif sys.argv[1:2] == ["holders"]:
    holders(int(sys.argv[2]), int(sys.argv[3]))
else:
    main()
