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
"""
import array
import contextlib
import ctypes
import fcntl
import os
import platform
import queue
import select
import socket
import struct
import subprocess
import sys
import threading

import harness

TURNS = 40
FAR_FD, NEAR_FD = 77, 78
UNREAD = b"unread" * 250
PATIENCE_S = 60

# x86-64
SYS_CLOSE, SYS_SENDTO, SYS_SECCOMP = 3, 44, 317
BELL_FLAGS = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
PR_SET_NO_NEW_PRIVS, SECCOMP_SET_MODE_FILTER, NEW_LISTENER = 38, 1, 8
ALLOW, REPORT = 0x7fff0000, 0x7fc00000
NOTIF_RECV, NOTIF_SEND, NOTIF_BYTES, CONTINUE = 0xc0502100, 0xc0182101, 80, 1
ARG = 16  # in struct seccomp_data: the low words of the arguments


# --- system calls that wait for us ---

class Insn(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8),
                ("k", ctypes.c_uint32)]


class Program(ctypes.Structure):
    _fields_ = [("n", ctypes.c_uint16), ("insns", ctypes.POINTER(Insn))]


def can_report():
    with contextlib.suppress(OSError), open("/proc/sys/kernel/seccomp/actions_avail") as f:
        return platform.machine() == "x86_64" and "user_notif" in f.read()
    return False


def report_calls(to, number, args):
    """Before exec(): calls of @number with @args, {index: value}, go to a listener, which is
    passed to @to."""
    words = [(0, number)] + [(ARG + 8 * i, value) for i, value in args.items()]
    insns = []
    for i, (at, value) in enumerate(words):
        insns += [Insn(0x20, 0, 0, at), Insn(0x15, 0, 2 * (len(words) - i) - 1, value)]
    insns += [Insn(0x06, 0, 0, REPORT), Insn(0x06, 0, 0, ALLOW)]
    program = Program(len(insns), (Insn * len(insns))(*insns))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    fd = libc.syscall(SYS_SECCOMP, SECCOMP_SET_MODE_FILTER, NEW_LISTENER,
                      ctypes.byref(program))
    socket.send_fds(to, [b"fd"], [fd])
    os.close(fd)


class End:
    """A process with one end, whose reported calls wait while is_armed."""

    def __init__(self, run, role, number, args):
        self.ctl, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ctl.settimeout(PATIENCE_S)
        words = [sys.executable, os.path.abspath(__file__), role, theirs.fileno()]
        self.popen = subprocess.Popen(
            run.command(words, True), env=run.env(eager=True), pass_fds=[theirs.fileno()],
            preexec_fn=lambda: report_calls(theirs, number, args))
        theirs.close()
        self.listener = socket.recv_fds(self.ctl, 10, 1)[1][0]
        self.is_armed = False
        self.held = queue.Queue()
        self.seen, self.see = os.pipe()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        try:
            while True:
                notif = array.array("B", bytes(NOTIF_BYTES))
                fcntl.ioctl(self.listener, NOTIF_RECV, notif)
                ident = struct.unpack_from("Q", notif)[0]
                if not self.is_armed:
                    self.go_on(ident)
                    continue
                self.held.put(ident)
                os.write(self.see, b"x")
        except OSError:
            pass  # it has ended

    def go_on(self, ident):
        fcntl.ioctl(self.listener, NOTIF_SEND, struct.pack("QqiI", ident, 0, 0, CONTINUE))

    def release(self):
        """All calls that wait, and those to come."""
        self.is_armed = False
        while not self.held.empty():
            self.go_on(self.held.get())

    def is_held(self):
        """Waits until a call waits, or the process has answered."""
        ready = select.select([self.seen, self.ctl], [], [], PATIENCE_S)[0]
        assert ready, "neither a call nor an answer"
        return self.seen in ready

    def tell(self, word):
        self.ctl.send(word.encode())

    def answer(self):
        return self.ctl.recv(1000).decode()

    def do(self, word):
        self.tell(word)
        return self.answer()

    def end(self):
        self.release()
        self.ctl.close()
        self.popen.wait(PATIENCE_S)
        for fd in self.listener, self.seen, self.see:
            os.close(fd)


# --- the two ends ---

def moved(conn, fd):
    """@conn as @fd, which survives exec()."""
    os.dup2(conn.fileno(), fd)
    conn.close()
    return socket.socket(fileno=fd)


def turns(conn, mine):
    for _ in range(TURNS):
        if mine:
            conn.send(b"x")
        conn.recv(1)
        if not mine:
            conn.send(b"x")


def all_of(conn):
    n = 0
    try:
        while data := conn.recv(4096):
            n += len(data)
        return "%d, end" % n
    except OSError as e:
        return "%d, %s" % (n, e.strerror)


def far(ctl):
    listener = socket.create_server(("127.0.0.1", 0))
    ctl.send(b"%d" % listener.getsockname()[1])
    conn = moved(listener.accept()[0], FAR_FD)
    turns(conn, False)
    while word := ctl.recv(100).decode():
        if word == "send":
            conn.send(UNREAD)
        elif word == "shut":
            conn.shutdown(socket.SHUT_WR)
        elif word == "look":
            with contextlib.suppress(BlockingIOError):
                conn.recv(1, socket.MSG_DONTWAIT)
        else:
            conn.close()
        ctl.send(b"done")


def near(ctl):
    conn = socket.create_connection(("127.0.0.1", int(ctl.recv(100))))
    conn = moved(conn, NEAR_FD)
    turns(conn, True)
    ctl.send(b"moved")
    while word := ctl.recv(100).decode():
        if word == "shut":
            conn.shutdown(socket.SHUT_WR)
            ctl.send(b"done")
        else:
            os.execv(sys.executable, [sys.executable, os.path.abspath(__file__), "after",
                                      str(ctl.fileno()), "fd=%d" % NEAR_FD])


def after(ctl):
    ctl.send(b"started")
    ctl.recv(100)
    ctl.send(all_of(socket.socket(fileno=NEAR_FD)).encode())


# --- the order of things ---

def one(run, before, meanwhile, in_close):
    """@before: what the ends do first.  @meanwhile: what the far end does before it closes.
    @in_close: the doorbell comes while it is in close(); otherwise afterwards.
    Return: what the new program reads."""
    far_end = End(run, "far", SYS_CLOSE, {0: FAR_FD})
    near_end = End(run, "near", SYS_SENDTO, {2: 1, 3: BELL_FLAGS})
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


# before, meanwhile, in_close
ORDERS = [([("near", "shut"), ("far", "send")], [], False),
          ([("near", "shut"), ("far", "send"), ("far", "shut")], [], True),
          ([("far", "send")], [], False),
          ([("far", "send")], ["look"], False),
          ([], [], True),
          ([], ["look"], True)]


def main():
    run = harness.Run(__file__)
    if not can_report():
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
    if not run.is_kernel:
        total = harness.sum_stats(harness.read_stats(run.stats))
        run.need(total["n_fallbacks"] >= len(ORDERS), "too few fell back")
    run.done()


if sys.argv[1:2] and sys.argv[1] in ("far", "near", "after"):
    {"far": far, "near": near, "after": after}[sys.argv[1]](
        socket.socket(fileno=int(sys.argv[2])))
else:
    main()
