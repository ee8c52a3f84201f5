#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_late_fallback.py - one end executes a program while the other one is in send()

    supervisor  <- calls that seccomp reports -  writer, reader: each a process

send() looks whether the peer has left the ring, and sometimes whether the connection has ended,
which takes a call of poll().  The supervisor holds that call until the reader has given the
connection back to the kernel and executed a program.  So the message goes into a ring that
nobody reads any more, and send() has to take it back.  The program reads each message once.
"""
import contextlib
import os
import socket
import sys

import harness
import held_calls

WRITER_FD, READER_FD = 77, 78
# More than come between two looks at the connection; and what a kernel's buffer takes.
MESSAGES, MESSAGES_OF_KERNEL = 20000, 100
BYTES = 8


def message(i, n):
    return b"%*d" % (n, i)


def is_told(ctl):
    with contextlib.suppress(BlockingIOError):
        return bool(ctl.recv(100, socket.MSG_DONTWAIT))
    return False


def writer(ctl):
    conn = socket.create_connection(("127.0.0.1", int(ctl.recv(100))))
    conn = held_calls.moved(conn, WRITER_FD)
    held_calls.turns(conn, True)
    ctl.send(b"moved")
    most, n = (int(word) for word in ctl.recv(100).split())
    for i in range(most):
        assert conn.send(message(i, n)) == n
        if is_told(ctl):
            break
    conn.shutdown(socket.SHUT_WR)
    ctl.send(b"%d" % (i + 1))
    ctl.recv(100)


def reader(ctl):
    listener = socket.create_server(("127.0.0.1", 0))
    ctl.send(b"%d" % listener.getsockname()[1])
    conn = held_calls.moved(listener.accept()[0], READER_FD)
    held_calls.turns(conn, False)
    ctl.recv(100)
    os.execv(sys.executable, [sys.executable, os.path.abspath(__file__), "after",
                              str(ctl.fileno()), "fd=%d" % READER_FD])


def after(ctl):
    ctl.send(b"started")
    n = int(ctl.recv(100))
    conn = socket.socket(fileno=READER_FD)
    got = b""
    try:
        while data := conn.recv(1 << 16):
            got += data
        end = "end"
    except OSError as e:
        end = e.strerror
    all_n = len(got) // n
    is_whole = got == b"".join(message(i, n) for i in range(all_n))
    ctl.send(("%d, %s, %s" % (all_n, "whole" if is_whole else "garbled", end)).encode())


def one(run, n):
    """@n: bytes of a message."""
    writes = held_calls.End(run, __file__, "writer", held_calls.SYS_POLL, {1: 1, 2: 0})
    reads = held_calls.End(run, __file__, "reader", held_calls.SYS_CLOSE, {0: READER_FD})
    writes.tell(reads.answer())
    assert writes.answer() == "moved"
    writes.is_armed = True
    writes.tell("%d %d" % (MESSAGES_OF_KERNEL if run.is_kernel else MESSAGES, n))
    is_held = writes.is_held()
    reads.tell("exec")
    assert reads.answer() == "started"
    if is_held:
        writes.tell("enough")
    writes.release()
    sent = int(writes.answer())
    got = reads.do("%d" % n)
    print("%d messages of %d bytes: %s" % (sent, n, got), flush=True)
    run.need(got == "%d, whole, end" % sent, "%d messages were sent" % sent)
    run.need(is_held != run.is_kernel, "the wrong time")
    writes.end()
    reads.end()


def main():
    run = harness.Run(__file__)
    if not held_calls.can_report():
        harness.skip("seccomp that reports calls, on x86-64")
    for n in BYTES, 1000:
        one(run, n)
    if not run.is_kernel:
        total = harness.sum_stats(harness.read_stats(run.stats))
        run.need(total["n_fallbacks"] >= 2, "too few fell back")
    run.done()


if sys.argv[1:2] and sys.argv[1] in ("writer", "reader", "after"):
    {"writer": writer, "reader": reader, "after": after}[sys.argv[1]](
        socket.socket(fileno=int(sys.argv[2])))
else:
    main()
