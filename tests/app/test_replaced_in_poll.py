#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_replaced_in_poll.py - a number gets another file while a thread is in poll() on it

    supervisor  <- dup3(), which seccomp reports -  reader: poll()  <- bytes -  client

A thread of the reader sleeps in poll() on the connection.  Another one puts a pipe that can be
read under its number.  The supervisor holds that dup3() until the first thread, which has been
woken before, sleeps again: the number is the connection's still.  Then dup3() goes on, and the
client sends.  As on the kernel the bytes wake the thread, and what it gets is said of the pipe.
"""
import os
import queue
import select
import socket
import sys
import threading

import harness
import held_calls

CONN_FD, KEPT_FD = 77, 78
N = 100
ROUNDS = 5


class Reader:
    """Its first thread polls: the client has its bell, from the turns before."""

    def __init__(self, ctl):
        self.ctl = ctl
        listener = socket.create_server(("127.0.0.1", 0))
        ctl.send(b"%d" % listener.getsockname()[1])
        self.conn = held_calls.moved(listener.accept()[0], CONN_FD)
        held_calls.turns(self.conn, False)
        os.dup2(CONN_FD, KEPT_FD)
        self.pipe = os.pipe()
        os.write(self.pipe[1], b"x")
        self.polls = queue.Queue()
        ctl.send(b"moved")

    def poll(self):
        self.ctl.send(b"%d" % threading.get_native_id())
        waiter = select.poll()
        waiter.register(CONN_FD, select.POLLIN)
        self.ctl.send(repr(waiter.poll()).encode())

    def replace(self):
        os.dup2(self.pipe[0], CONN_FD, inheritable=False)
        self.ctl.send(b"replaced")

    def rest(self):
        """And puts the connection back under its number."""
        os.dup2(KEPT_FD, CONN_FD)
        self.ctl.send(b"%d" % len(self.conn.recv(2 * N, socket.MSG_DONTWAIT)))

    def hear(self):
        while word := self.ctl.recv(100).decode():
            if word == "poll":
                self.polls.put(True)
            else:
                getattr(self, word)()
        os._exit(0)

    def serve(self):
        threading.Thread(target=self.hear).start()
        while True:
            self.polls.get()
            self.poll()


def client(ctl):
    conn = socket.create_connection(("127.0.0.1", int(ctl.recv(100))))
    held_calls.turns(conn, True)
    while ctl.recv(100):
        conn.sendall(bytes(N))


def replace(run, reader, writer):
    tid = int(reader.do("poll"))
    reader.await_sleep(tid)
    n_sleeps = reader.n_sleeps(tid)
    reader.is_armed = True
    reader.tell("replace")
    run.need(reader.is_held(), "no dup3()")
    reader.await_sleep(tid, after=n_sleeps)
    reader.release()
    run.need(reader.answer() == "replaced", "not replaced")
    writer.tell("send")
    got = reader.answer()
    run.need(got == repr([(CONN_FD, select.POLLIN)]), "poll(): " + got)
    got = int(reader.do("rest"))
    run.need(got == N, "%d bytes of %d" % (got, N))


def main():
    run = harness.Run(__file__)
    if not held_calls.can_report():
        harness.skip("seccomp that reports calls, on x86-64")
    if run.is_kernel:
        harness.skip("the kernel does not wake who polls a number that is replaced")
    reader = held_calls.End(run, __file__, "reader", held_calls.SYS_DUP3, {1: CONN_FD})
    writer = held_calls.End(run, __file__, "client", held_calls.SYS_PIDFD_GETFD, {})
    writer.tell(reader.answer())
    assert reader.answer() == "moved"
    for _ in range(ROUNDS):
        replace(run, reader, writer)
    for end in writer, reader:
        end.end()
    run.expect_offloaded(1)
    run.done()


if sys.argv[1:2] == ["reader"]:
    Reader(socket.socket(fileno=int(sys.argv[2]))).serve()
elif sys.argv[1:2] == ["client"]:
    client(socket.socket(fileno=int(sys.argv[2])))
else:
    main()
