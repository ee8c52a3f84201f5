#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_passed_in_call.py - a relay takes a connection over while threads are in calls

    supervisor  <- calls that seccomp reports -  writer, reader: each a process

The writer has passed its descriptor on (SCM_RIGHTS), so the connection is about to go back to
the kernel.  Then a thread of the reader passes its own on, and a relay has to take the reader's
place.  The supervisor holds the call with which that thread puts the relay under the descriptor's
number (dup3()).  Meanwhile another thread of the reader

    wait    is in recv(MSG_WAITALL), has a part, and finds nothing more
    poll    begins to sleep in poll()
    send    sends, while the writer is about to put back bytes that it has not read

and each byte has to arrive in its place.
"""
import array
import os
import select
import socket
import sys
import threading

import harness
import held_calls

WRITER_FD, READER_FD = 77, 78
PART = 30000


def pattern(at, n):
    return b"".join(b"%8d" % i for i in range(at // 8, (at + n) // 8 + 1))[at % 8:][:n]


class Process:
    """Does what the supervisor says."""

    def __init__(self, ctl, conn):
        self.ctl, self.conn = ctl, conn
        self.n_sent = self.n_got = 0
        self.threads = []

    def do_send(self, n):
        self.conn.sendall(pattern(self.n_sent, n))
        self.n_sent += n

    def do_recv(self, n):
        got = self.conn.recv(n, socket.MSG_WAITALL)
        if got != pattern(self.n_got, n):
            return "%d bytes, and not those from %d on" % (len(got), self.n_got)
        self.n_got += n

    def do_poll(self, n):
        waiter = select.poll()
        waiter.register(self.conn, select.POLLIN)
        waiter.poll()

    def do_pass(self, n):
        """To this process itself."""
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        fds = array.array("i", [self.conn.fileno()])
        pair[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        self.threads.append(pair)  # keeps it open

    def run_one(self, how, word, n):
        if how == "thread":
            self.ctl.send(b"%d" % threading.get_native_id())
        said = getattr(self, "do_" + word)(int(n))
        self.ctl.send((word + ": " + (said or "ok")).encode())

    def serve(self):
        while words := self.ctl.recv(100).decode().split():
            thread = threading.Thread(target=self.run_one, args=words)
            thread.start()
            if words[0] == "call":
                thread.join()


def begin(ctl, conn, fd, mine):
    os.dup2(conn.fileno(), fd, inheritable=False)
    conn.close()
    conn = socket.socket(fileno=fd)
    held_calls.turns(conn, mine)
    ctl.send(b"moved")
    Process(ctl, conn).serve()


def writer(ctl):
    begin(ctl, socket.create_connection(("127.0.0.1", int(ctl.recv(100)))), WRITER_FD, True)


def reader(ctl):
    listener = socket.create_server(("127.0.0.1", 0))
    ctl.send(b"%d" % listener.getsockname()[1])
    begin(ctl, listener.accept()[0], READER_FD, False)


class Ends:
    def __init__(self, run):
        self.run = run
        self.writes = held_calls.End(run, __file__, "writer", held_calls.SYS_PIDFD_GETFD, {})
        self.reads = held_calls.End(run, __file__, "reader", held_calls.SYS_DUP3,
                                    {1: READER_FD}, (held_calls.SYS_POLL, {1: 1, 2: 0}))
        self.writes.tell(self.reads.answer())
        assert self.writes.answer() == "moved"
        assert self.reads.answer() == "moved"

    def is_ok(self, end, word):
        said = end.answer()
        self.run.need(said == word + ": ok", "%s: %s" % (word, said))

    def call(self, end, word, n=0):
        end.tell("call %s %d" % (word, n))
        self.is_ok(end, word)

    def begin(self, end, word, n=0):
        """Return: the thread that is in the call."""
        end.tell("thread %s %d" % (word, n))
        return int(end.answer())

    def is_held(self, end):
        self.run.need(end.is_held() != self.run.is_kernel, "the wrong time")

    def reader_passes(self):
        """Until its thread holds a relay in its hands."""
        self.reads.waits[held_calls.SYS_DUP3] = held_calls.ANY
        self.begin(self.reads, "pass")
        self.is_held(self.reads)

    def end(self):
        for end in self.writes, self.reads:
            end.end()


def in_wait(ends):
    """The thread has a part, and is held when it wakes for the next one.  By the time when it
    looks for that, a relay has it."""
    ends.call(ends.writes, "send", PART)
    tid = ends.begin(ends.reads, "recv", 3 * PART)
    ends.reads.await_sleep(tid)
    if not ends.run.is_kernel:
        ends.reads.waits[held_calls.SYS_POLL] = tid
    ends.call(ends.writes, "send", PART)
    if not ends.run.is_kernel:
        ends.is_held(ends.reads)
    ends.call(ends.writes, "pass")
    ends.reader_passes()
    ends.reads.release(held_calls.SYS_POLL)
    ends.reads.await_sleep(tid, or_spins=True)
    ends.reads.release()
    ends.is_ok(ends.reads, "pass")
    ends.call(ends.writes, "send", PART)
    ends.is_ok(ends.reads, "recv")


def in_poll(ends):
    ends.call(ends.writes, "send", PART)
    ends.call(ends.writes, "pass")
    ends.reader_passes()
    tid = ends.begin(ends.reads, "poll")
    ends.reads.await_sleep(tid, or_spins=True)
    ends.reads.release()
    said = {ends.reads.answer(), ends.reads.answer()}
    ends.run.need(said == {"pass: ok", "poll: ok"}, str(said))
    ends.call(ends.reads, "recv", PART)


def in_send(ends):
    """The writer is first to fall back, and puts back what it has not read, when it gets a copy of
    the reader's descriptor."""
    ends.call(ends.reads, "send", PART)
    ends.writes.waits[held_calls.SYS_PIDFD_GETFD] = held_calls.ANY
    ends.begin(ends.writes, "pass")
    ends.is_held(ends.writes)
    ends.reader_passes()
    tid = ends.begin(ends.reads, "send", PART)
    ends.reads.await_sleep(tid, or_spins=True)
    ends.writes.release()
    ends.is_ok(ends.writes, "pass")
    ends.reads.release()
    said = {ends.reads.answer(), ends.reads.answer()}
    ends.run.need(said == {"pass: ok", "send: ok"}, str(said))
    ends.call(ends.writes, "recv", 2 * PART)


def main():
    run = harness.Run(__file__)
    if not held_calls.can_report():
        harness.skip("seccomp that reports calls, on x86-64")
    if run.is_kernel:
        harness.skip("the kernel makes no relays")
    for what in in_wait, in_poll, in_send:
        ends = Ends(run)
        what(ends)
        ends.end()
        print("%s: each byte in its place" % what.__name__[3:], flush=True)
    total = harness.sum_stats(harness.read_stats(run.stats))
    run.need(total["n_fallbacks"] == 6, "%d ends fell back" % total["n_fallbacks"])
    run.done()


if sys.argv[1:2] and sys.argv[1] in ("writer", "reader"):
    {"writer": writer, "reader": reader}[sys.argv[1]](socket.socket(fileno=int(sys.argv[2])))
else:
    main()
