#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_late_bell.py - one end executes a program while the other one closes

    supervisor  <- calls that seccomp reports -  near end, far end: each a process

While the near end falls back to the kernel for exec(), osf may send a byte through the kernel's
connection: a doorbell.  The supervisor holds that call, and the far end's close(), until the
other end has done its part.  So the byte arrives at the worst moments: when the far end has
closed, and between its last look at the socket and close().  In each case the new program reads
all bytes, and then the end of the stream.

Or the far end reads, and finds no doorbell.  The supervisor holds the call in which it looks
whether the connection has ended, until the doorbell has come, and the new program's bytes and its
end.  Then the far end, or the program that it executes, reads these bytes and no others.
"""
import contextlib
import os
import socket
import sys

import harness
import held_calls

FAR_FD, NEAR_FD = 77, 78
UNREAD = b"unread" * 250
SAID = b"said" * 25
BELL_FLAGS = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL


# --- the two ends ---

def all_of(conn):
    n = 0
    try:
        while data := conn.recv(4096):
            n += len(data)
            if b"\0" in data:
                return "%d, a doorbell among them" % n
        return "%d, end" % n
    except OSError as e:
        return "%d, %s" % (n, e.strerror)


def far(ctl):
    listener = socket.create_server(("127.0.0.1", 0))
    ctl.send(b"%d" % listener.getsockname()[1])
    conn = held_calls.moved(listener.accept()[0], FAR_FD)
    held_calls.turns(conn, False)
    while word := ctl.recv(100).decode():
        if word == "send":
            conn.send(UNREAD)
        elif word == "shut":
            conn.shutdown(socket.SHUT_WR)
        elif word == "look":
            with contextlib.suppress(BlockingIOError):
                conn.recv(1, socket.MSG_DONTWAIT)
        elif word == "read":
            ctl.send(all_of(conn).encode())
            continue
        elif word == "exec":
            execute(ctl, FAR_FD)
        else:
            conn.close()
        ctl.send(b"done")


def near(ctl):
    conn = socket.create_connection(("127.0.0.1", int(ctl.recv(100))))
    conn = held_calls.moved(conn, NEAR_FD)
    held_calls.turns(conn, True)
    ctl.send(b"moved")
    while word := ctl.recv(100).decode():
        if word == "shut":
            conn.shutdown(socket.SHUT_WR)
            ctl.send(b"done")
        else:
            execute(ctl, NEAR_FD)


def execute(ctl, fd):
    os.execv(sys.executable, [sys.executable, os.path.abspath(__file__), "after",
                              str(ctl.fileno()), "fd=%d" % fd])


def after(ctl):
    conn = socket.socket(fileno=int(sys.argv[3][len("fd="):]))
    ctl.send(b"started")
    if ctl.recv(100) == b"read":
        ctl.send(all_of(conn).encode())
        return
    conn.send(SAID)
    conn.close()
    ctl.send(b"done")


# --- the order of things ---

def one(run, before, meanwhile, in_close):
    """@before: what the ends do first.  @meanwhile: what the far end does before it closes.
    @in_close: the doorbell comes while it is in close(); otherwise afterwards.
    Return: what the new program reads."""
    far_end = held_calls.End(run, __file__, "far", held_calls.SYS_CLOSE, {0: FAR_FD})
    near_end = held_calls.End(run, __file__, "near", held_calls.SYS_SENDTO,
                              {2: 1, 3: BELL_FLAGS})
    near_end.tell(far_end.answer())
    assert near_end.answer() == "moved"
    for who, word in before:
        assert (near_end if who == "near" else far_end).do(word) == "done"
    near_end.is_armed = True
    far_end.is_armed = in_close
    near_end.tell("exec")
    rings = near_end.is_held()
    for word in meanwhile:
        assert far_end.do(word) == "done"
    far_end.tell("close")
    if in_close:
        assert far_end.is_held()
    else:
        assert far_end.answer() == "done"
    near_end.release()
    assert near_end.answer() == "started"
    far_end.release()
    if in_close:
        assert far_end.answer() == "done"
    got = near_end.do("read")
    near_end.end()
    far_end.end()
    return got, rings


def read_late(run, how):
    """@how: what the far end does when the doorbell has been counted.
    Return: what is read there."""
    far_end = held_calls.End(run, __file__, "far", held_calls.SYS_POLL, {1: 1, 2: 0})
    near_end = held_calls.End(run, __file__, "near", held_calls.SYS_SENDTO,
                              {2: 1, 3: BELL_FLAGS})
    near_end.tell(far_end.answer())
    assert near_end.answer() == "moved"
    near_end.is_armed = True
    near_end.tell("exec")
    rings = near_end.is_held()
    far_end.is_armed = True
    far_end.tell(how)
    looks = not run.is_kernel and far_end.is_held()
    near_end.release()
    assert near_end.answer() == "started"
    assert near_end.do("say") == "done"
    far_end.release()
    got = far_end.answer()
    if how == "exec":
        assert got == "started"
        got = far_end.do("read")
    near_end.end()
    far_end.end()
    return got, rings and looks


# before, meanwhile, in_close
ORDERS = [([("near", "shut"), ("far", "send")], [], False),
          ([("near", "shut"), ("far", "send"), ("far", "shut")], [], True),
          ([("far", "send")], [], False),
          ([("far", "send")], ["look"], False),
          ([], [], True),
          ([], ["look"], True)]


def main():
    run = harness.Run(__file__)
    if not held_calls.can_report():
        harness.skip("seccomp that reports calls, on x86-64")
    for before, meanwhile, in_close in ORDERS:
        expected = "%d, end" % (len(UNREAD) if ("far", "send") in before else 0)
        got, rings = one(run, before, meanwhile, in_close)
        said = "%s; then %s%s: a doorbell %s, %s" % (before, meanwhile,
                                                     ", in close()" if in_close else "",
                                                     rings, got)
        print(said, flush=True)
        run.need(got == expected, "%s expected" % expected)
        if not run.is_kernel:  # or the test proves nothing
            run.need(rings != (("near", "shut") in before), said)
    for how in "read", "exec":
        got, is_late = read_late(run, how)
        print("%s: %s" % (how, got), flush=True)
        run.need(got == "%d, end" % len(SAID), "%d, end expected" % len(SAID))
        run.need(is_late != run.is_kernel, "no doorbell was late")
    if not run.is_kernel:
        total = harness.sum_stats(harness.read_stats(run.stats))
        run.need(total["n_fallbacks"] >= len(ORDERS), "too few fell back")
    run.done()


if sys.argv[1:2] and sys.argv[1] in ("far", "near", "after"):
    {"far": far, "near": near, "after": after}[sys.argv[1]](
        socket.socket(fileno=int(sys.argv[2])))
else:
    main()
