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
has come: a process waits for the child, and the connection is lost by nobody.  The child goes
on, or is killed; sometimes the far end is stopped meanwhile, too.  Only if it is killed in the
middle of a change, the connection may be reset.
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
SURE = 24  # bytes
PASSES = 2  # of each kind
PASSES_MAX = 30
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

def part_of(data):
    """Where in the stream of numbers @data begins, and how much of it is of one piece."""
    for skip in range(8):
        at = int.from_bytes(data[skip:skip + 8], "big") * 8 - skip
        if at < 0:
            continue
        right = numbers(at // 8, len(data) // 8 + 2)[at % 8:][:len(data)]
        n = len(data) if right == data else len(os.path.commonprefix((right, data)))
        if n >= min(len(data), SURE):
            return at, n
    raise SystemExit("bytes that nobody has sent: %r" % data[:32])


class Parts:
    """What a process has received."""

    def __init__(self):
        self.parts = []

    def add(self, data):
        """One piece, or, where a relay reads beside others, more."""
        while data:
            self.parts.append(part_of(data))
            data = data[self.parts[-1][1]:]


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
    """No gap, and nothing twice.  The first bytes of most numbers are equal: so where in a number
    one piece ends and another begins, part_of() may not know; but nothing is counted twice."""
    parts.sort()
    for (at, n), (behind, _) in zip(parts, parts[1:]):
        if abs(at + n - behind) > 7:
            raise SystemExit("%d bytes at %d, then %d" % (n, at, behind))
    n, whole = sum(n for _, n in parts), sum(parts[-1]) - parts[0][0] if parts else 0
    if n != whole:
        raise SystemExit("%d bytes, not %d" % (n, whole))


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


def stopped(port, way, some, rng):
    """A connection, and a child that holds it, too, and is stopped at some moment."""
    conn = warmed.connect(port, way)
    is_over = mmap.mmap(-1, 4096)
    their_out, their_in = os.pipe()
    pid = os.fork()
    if not pid:
        child(conn, way, some, is_over, their_in)
    os.close(their_in)
    time.sleep(rng.uniform(0.0005, LATEST_S))  # the attack's moment, not a wait
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)
    return conn, pid, is_over, their_out


def one(port, way, some, rng, calls, n):
    """Return: was the child stopped inside a call?"""
    conn, pid, is_over, their_out = stopped(port, way, some, rng)
    mine = Parts()
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


def hand_over(conn):
    """Pass the descriptor on.  Return: the connection as a program that knows nothing of rings
    would get it."""
    with_fd = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [conn.fileno()]))]
    here, there = socket.socketpair()
    with here, there:
        here.sendmsg([b"x"], with_fd)  # which may start a process, and that needs a core
        return socket.socket(fileno=socket.recv_fds(there, 1, 1)[1][0])


def pid_of_far(conn):
    """The process at the other end, which has its connection from one accept()."""
    mine = b"%d %d" % (conn.getsockname()[1], conn.getpeername()[1])
    with open("/proc/net/tcp") as f:
        rows = [line.split() for line in f]
    inode = [row[9] for row in rows[1:]
             if b"%d %d" % (int(row[2][-4:], 16), int(row[1][-4:], 16)) == mine][0]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if any(os.readlink("/proc/%s/fd/%s" % (pid, fd)) == "socket:[%s]" % inode
                   for fd in os.listdir("/proc/%s/fd" % pid)):
                return int(pid)
        except OSError:  # it has ended
            pass
    raise SystemExit("nobody at the other end")


def read_up_to(conn, mine, end, may_be_lost=False):
    """O_NONBLOCK would be for all holders: so it waits without a limit of its own.
    Return: False if the connection was reset, which the kernel tells one of the descriptors."""
    at = -1
    while at < end:
        try:
            got = conn.recv(PIECE)
        except ConnectionResetError:
            if may_be_lost:
                return False
            raise
        if not got:
            raise SystemExit("the connection ended")
        mine.add(got)
        at = sum(mine.parts[-1])
    return True


def pass_on(conn, way, pid, calls, mine, how):
    """The child is stopped inside a call: somebody else uses the connection, too."""
    far = pid_of_far(conn) if how == "far" else 0
    if far:
        os.kill(far, signal.SIGSTOP)
    passed = hand_over(conn)
    if way == b"s":
        for sender in conn, passed:
            got = calls(sender.send, MINE, socket.MSG_DONTWAIT)
            if got == b"":
                raise SystemExit("the connection was reset")
            mine.parts.append(got or 0)
    else:
        got = calls(passed.recv, PIECE, socket.MSG_DONTWAIT)
        if got == b"":
            raise SystemExit("the connection was reset")
        mine.add(got or b"")
    if far:
        os.kill(far, signal.SIGCONT)
    os.kill(pid, signal.SIGKILL if how == "killed" else signal.SIGCONT)
    return passed


def one_passed(port, way, some, rng, calls, how):
    """Return: does a relay carry what was passed on?"""
    conn, pid, is_over, their_out = stopped(port, way, some, rng)
    mine = Parts()
    both = [conn]
    if meanwhile(conn, way, calls, mine):
        both.append(pass_on(conn, way, pid, calls, mine, how))
        if way == b"r" and not all(read_up_to(one_of, mine, 0, how == "killed")
                                   for one_of in both):
            os.waitpid(pid, 0)
            os.close(their_out)
            for one_of in both:
                one_of.close()
            return True
    is_relayed = both[-1].getpeername()[1] != port
    is_over[0] = 1
    os.kill(pid, signal.SIGCONT)
    was_killed = os.waitpid(pid, 0)[1] == signal.SIGKILL
    with os.fdopen(their_out) as f:
        theirs = eval(f.read() or "[]")
    if way == b"r" and not was_killed:
        read_up_to(both[-1], mine, max(map(sum, theirs + [(0, 0)])))
        check_parts(mine.parts + theirs)
    elif way == b"s" and not was_killed:
        conn.shutdown(socket.SHUT_WR)
        said = both[-1].recv(100).decode()
        if said != "right %d" % sum(mine.parts):
            raise SystemExit("the far end got other bytes: %s, not %d" % (said, sum(mine.parts)))
    for one_of in both:
        one_of.close()
    return is_relayed


def passed(port, way, some, rng, calls):
    for how in "goes on", "far", "killed":
        n = 0
        for _ in range(PASSES_MAX):
            if n == PASSES:
                break
            n += one_passed(port, way, some, rng, calls, how)
        print("%s, passed, %s: %d" % (way.decode(), how, n), flush=True)


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
    for way in (b"r", b"s"):
        passed(port, way, some, rng, calls)
    if calls.longest_s > BOUND_S:
        raise SystemExit("too long: " + calls.longest())


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
        run.need(total["n_upgraded"] and total["n_broken"] <= 2 * PASSES,
                 "%d upgraded, %d broken" % (total["n_upgraded"], total["n_broken"]))
    run.done()


if sys.argv[1:2] == ["far"]:
    warmed.serve(int(sys.argv[2]), {b"s": check_stream, b"r": send_stream})
elif sys.argv[1:2] == ["holders"]:
    holders(int(sys.argv[2]), int(sys.argv[3]))
else:
    main()
