#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_stopped_holder.py - one of two processes that hold a connection is stopped,
sometimes in the middle of a call; the other makes calls that may not block

    test_stopped_holder.py [STOPS]

A parent connects and forks.  The child receives, or sends, as fast as it can, and is stopped at
random moments.  Meanwhile the parent receives and sends without blocking.  Each call returns
soon: with bytes, or with EAGAIN if the child has stopped inside the kernel's or osf's part of a
call.  Then the child goes on, and ends.  Nothing is lost, doubled or reset, however long the
child was stopped, and an edge-triggered epoll set of the parent tells of the rest.

While the child is stopped inside a call, the parent also sets options, of which one makes osf
give the connection back to the kernel, and shuts its direction down.  These calls return soon,
too, and take effect when the child goes on: the far end gets all bytes and then the end.

At last the parent passes the descriptor to somebody (SCM_RIGHTS) while the child is stopped
inside a call.  The kernel has to have the connection then, and nobody knows how far the child
has come: the connection is reset, at once.
"""
import array
import mmap
import os
import random
import select
import signal
import socket
import sys
import time

import harness
import timed
import warmed

STOPS = 15
PASSES = 3
LONG_S = 2.5  # once, for a child that has stopped inside a call
TRIES = 8
PIECE = 128 * 1024
LINES = 1000000  # more than a child sends
BLOCK = 8192  # numbers of eight bytes
MINE = b"\xff" * 100  # no digit
LATEST_S = 0.003
BOUND_S = 0.1  # of a call that may not block, less what it waited for a core
PATIENCE_S = 60  # of one call, on a busy machine
SO_TIMESTAMP = 29  # not in the module socket


def lines(start, n):
    return b"".join(b"%09d\n" % i for i in range(start, start + n))


# --- the far end ---

def numbers(start, n):
    part = array.array("Q", range(start, start + n))
    part.byteswap()
    return part.tobytes()


def send_stream(conn):
    at = 0
    while True:
        conn.sendall(numbers(at, BLOCK))
        at += BLOCK


def check_stream(conn):
    """Lines of digits without a gap, and the other process's bytes anywhere between."""
    got = b"".join(iter(lambda: conn.recv(1 << 20), b""))
    digits = got.translate(None, b"\xff")
    right = lines(0, len(digits) // 10 + 1).startswith(digits)
    conn.sendall(b"%s %d" % (b"right" if right else b"wrong", len(got) - len(digits)))


# --- the two holders ---

def place_of(data):
    """Where in the stream of numbers @data begins."""
    for skip in range(8):
        at = int.from_bytes(data[skip:skip + 8], "big") * 8 - skip
        if at >= 0 and numbers(at // 8, len(data) // 8 + 2)[at % 8:][:len(data)] == data:
            return at
    raise SystemExit("bytes that nobody has sent: %r" % data[:32])


class Parts:
    """What a process has received."""

    def __init__(self):
        self.parts = []

    def add(self, data):
        self.parts.append((place_of(data), len(data)))


def child(conn, way, some, is_over, out):
    """Until somebody sets @is_over, between two calls."""
    at, mine, got = 0, Parts(), []
    while not is_over[0]:
        if way == b"r":
            got.append(conn.recv(PIECE))
        elif at + PIECE < len(some):
            try:
                at += conn.send(some[at:at + PIECE])
            except BrokenPipeError:  # the parent has shut the connection down
                break
    for data in got:
        mine.add(data)
    with os.fdopen(out, "w") as f:
        f.write(repr(mine.parts) + "\n")
    os._exit(0)


def meanwhile(conn, way, calls, mine):
    """Return: has a call been refused?"""
    refused = False
    for _ in range(TRIES):
        if way == b"r":
            got = calls(conn.recv, PIECE, socket.MSG_DONTWAIT)
            if got == b"":
                raise SystemExit("the connection ended")
            if got:
                mine.add(got)
        else:
            got = calls(conn.send, MINE, socket.MSG_DONTWAIT)
            if got == b"":
                raise SystemExit("the connection was reset")
            mine.parts.append(got or 0)
        refused |= got is None
        calls(select.select, [conn], [conn], [], 0)
    return refused


def check_parts(parts):
    """No gap, and nothing twice."""
    parts.sort()
    for (at, n), (behind, _) in zip(parts, parts[1:]):
        if at + n != behind:
            raise SystemExit("%d bytes at %d, then %d" % (n, at, behind))


def change(conn, way, calls, mine, n):
    """The @n-th change of the connection, while the child may be inside a call."""
    if n % 3 == 1:
        done = [calls(conn.setsockopt, socket.SOL_SOCKET, socket.SO_SNDBUF, 300000),
                calls(conn.setsockopt, socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
        if way == b"s":
            done.append(calls(conn.shutdown, socket.SHUT_WR))
            if calls(conn.send, MINE, socket.MSG_DONTWAIT) != b"":
                raise SystemExit("a send after shutdown() was taken")
    elif n % 3 == 2:
        # Only the kernel knows when bytes came: the connection goes back to it.
        done = [calls(conn.setsockopt, socket.SOL_SOCKET, SO_TIMESTAMP, 1)]
        got = calls(conn.recvmsg, PIECE, 100, socket.MSG_DONTWAIT)
        if got is not None:
            mine.add(got[0])
        done.append(calls(conn.setsockopt, socket.SOL_SOCKET, SO_TIMESTAMP, 0))
    else:
        done = []
    if any(r is not None for r in done):
        raise SystemExit("a change failed: %s" % done)


def check_rest(conn, way, mine, theirs, refused, n):
    conn.settimeout(PATIENCE_S)  # which is O_NONBLOCK, for both
    if way == b"s":
        if not refused or n % 3 != 1:
            conn.shutdown(socket.SHUT_WR)
        return conn.recv(100).decode() == "right %d" % sum(mine.parts)
    with select.epoll() as edges:
        edges.register(conn, select.EPOLLIN | select.EPOLLET)
        if not edges.poll(PATIENCE_S):
            raise SystemExit("no edge, refused: %s" % refused)
    mine.add(conn.recv(PIECE))
    check_parts(mine.parts + theirs)
    return True


def one(port, way, some, rng, calls, n):
    """Return: was the child stopped inside a call?"""
    conn = warmed.connect(port, way)
    is_over = mmap.mmap(-1, 4096)
    their_out, their_in = os.pipe()
    pid = os.fork()
    if not pid:
        child(conn, way, some, is_over, their_in)
    os.close(their_in)
    mine = Parts()
    time.sleep(rng.uniform(0.0005, LATEST_S))  # the attack's moment, not a wait
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)
    refused = meanwhile(conn, way, calls, mine)
    until = time.monotonic() + LONG_S
    while refused and not n and time.monotonic() < until:
        meanwhile(conn, way, calls, mine)
    if refused:
        change(conn, way, calls, mine, n)
    is_over[0] = 1
    os.kill(pid, signal.SIGCONT)
    with os.fdopen(their_out) as f:
        theirs = eval(f.read())
    if os.waitpid(pid, 0)[1]:
        raise SystemExit("the child failed")
    if not check_rest(conn, way, mine, theirs, refused, n):
        raise SystemExit("the far end got other bytes")
    conn.close()
    return refused


def hand_over(conn, calls):
    """Pass the descriptor on: to nobody who reads it."""
    with_fd = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [conn.fileno()]))]
    here, there = socket.socketpair()
    with here, there:
        if calls(here.sendmsg, [b"x"], with_fd) != 1:
            raise SystemExit("the descriptor was not passed")


def passed(port, stops, rng, calls):
    """Return: how many connections were reset."""
    n_reset = 0
    for _ in range(2 * stops):
        conn = warmed.connect(port, b"r")
        pid = os.fork()
        if not pid:
            while True:
                conn.recv(PIECE)
        time.sleep(rng.uniform(0.0005, LATEST_S))  # the attack's moment, not a wait
        os.kill(pid, signal.SIGSTOP)
        os.waitpid(pid, os.WUNTRACED)
        if meanwhile(conn, b"r", calls, Parts()):
            hand_over(conn, calls)
            n_reset += calls(conn.recv, 1, socket.MSG_DONTWAIT) == b""
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        conn.close()
        if n_reset == PASSES:
            break
    return n_reset


def holders(port, stops):
    rng = random.Random(int(os.environ.get("OSF_TEST_SEED") or 1))
    calls = timed.Calls()
    some = memoryview(lines(0, LINES))
    for way in (b"r", b"s"):
        n_inside = 0
        for _ in range(stops):
            n_inside += one(port, way, some, rng, calls, n_inside)
        print("%s: %d stops, %d calls refused; the longest call %.1f ms" %
              (way.decode(), stops, n_inside, calls.longest_s * 1000), flush=True)
    n_reset = passed(port, stops, rng, calls)
    print("passed: %d" % n_reset)
    if calls.longest_s > BOUND_S:
        raise SystemExit("%s took too long" % calls.of)


def main():
    run = harness.Run(__file__)
    port = harness.free_port()
    stops = sys.argv[1] if len(sys.argv) > 1 else STOPS
    script = os.path.abspath(__file__)
    run.start([sys.executable, script, "far", port], eager=True)
    run.wait_port(port)
    said = run.python(script, "holders", port, stops, eager=True)
    print(said, end="")
    if not run.is_kernel:
        total = harness.sum_stats(harness.read_stats(run.stats))
        n_reset = int(said.split()[-1])
        run.need(total["n_upgraded"] and total["n_broken"] == n_reset,
                 "%d upgraded, %d broken" % (total["n_upgraded"], total["n_broken"]))
    run.done()


if sys.argv[1:2] == ["far"]:
    warmed.serve(int(sys.argv[2]), {b"s": check_stream, b"r": send_stream})
elif sys.argv[1:2] == ["holders"]:
    holders(int(sys.argv[2]), int(sys.argv[3]))
else:
    main()
