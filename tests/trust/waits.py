# SPDX-License-Identifier: MIT
"""
tests/trust/waits.py - for how long a program has asked the kernel to let it wait

    w = waits.Watch(pid)     a process that traces all system calls of the program
    w.said()                 after the program's end: its worst call, as a dictionary

The program calls getppid() before and after each call that is to be judged.  In between, each
system call that waits for a time counts with that time, if nothing ended it early.  So a busy
machine changes nothing: neither a wait for a core nor one for a lock of the kernel counts.
A system call that may wait for ever, or on a socket for somebody else, is named.
"""
import ctypes
import json
import os
import signal
import struct
import time

from traced import (AT_ENTRY, GET_SYSCALL_INFO, INTERRUPT, SEIZE, SYSCALL, TRACE_SYSCALLS,
                    WALL, ptrace)

MS, TS, TIMEVAL, FUTEX = "milliseconds", "timespec", "timeval", "futex"
# Number: (name, which argument says for how long, how).
X86_64 = {7: ("poll", 2, MS), 271: ("ppoll", 2, TS), 23: ("select", 4, TIMEVAL),
          270: ("pselect6", 4, TS), 232: ("epoll_wait", 3, MS), 281: ("epoll_pwait", 3, MS),
          441: ("epoll_pwait2", 3, TS), 35: ("nanosleep", 0, TS),
          230: ("clock_nanosleep", 2, TS), 202: ("futex", 3, FUTEX)}
AARCH64 = {73: ("ppoll", 2, TS), 72: ("pselect6", 4, TS), 22: ("epoll_pwait", 3, MS),
           441: ("epoll_pwait2", 3, TS), 101: ("nanosleep", 0, TS),
           115: ("clock_nanosleep", 2, TS), 98: ("futex", 3, FUTEX)}
# Number: (name, which argument has MSG_DONTWAIT or is no flag).
X86_64_SOCKETS = {44: ("sendto", 3), 45: ("recvfrom", 3), 46: ("sendmsg", 2), 47: ("recvmsg", 2),
                  42: ("connect", None), 43: ("accept", None), 288: ("accept4", None),
                  0: ("read", None), 1: ("write", None)}
AARCH64_SOCKETS = {206: ("sendto", 3), 207: ("recvfrom", 3), 211: ("sendmsg", 2),
                   212: ("recvmsg", 2), 203: ("connect", None), 202: ("accept", None),
                   242: ("accept4", None), 63: ("read", None), 64: ("write", None)}
WAITS, SOCKETS, MARK = {"x86_64": (X86_64, X86_64_SOCKETS, 110),
                        "aarch64": (AARCH64, AARCH64_SOCKETS, 173)}.get(
                            os.uname().machine, ({}, {}, -1))
FUTEX_WAIT, FUTEX_WAIT_BITSET, FUTEX_REALTIME = 0, 9, 256
TIMED_OUT = -110
FOR_EVER = float("inf")


def entry_of(pid):
    """Return: is it an entry?, number or result, arguments."""
    info = ctypes.create_string_buffer(88)
    ptrace(GET_SYSCALL_INFO, pid, len(info), ctypes.addressof(info))
    kind, value, *args = struct.unpack_from("=B23xq6Q", info)
    return kind == AT_ENTRY, value, args


def time_at(pid, address, unit_s):
    if not address:
        return FOR_EVER
    with open("/proc/%d/mem" % pid, "rb", 0) as f:
        f.seek(address)
        seconds, part = struct.unpack("=qq", f.read(16))
    return seconds + part * unit_s


def futex_s(pid, args):
    """For how long; 0 if it does not wait."""
    op = args[1] & 127
    if op not in (FUTEX_WAIT, FUTEX_WAIT_BITSET):
        return 0
    at = time_at(pid, args[3], 1e-9)
    if op == FUTEX_WAIT or at == FOR_EVER:
        return at
    clock = time.CLOCK_REALTIME if args[1] & FUTEX_REALTIME else time.CLOCK_MONOTONIC
    return max(0, at - time.clock_gettime(clock))


def asked_s(pid, number, args):
    _, which, how = WAITS[number]
    if how == FUTEX:
        return futex_s(pid, args)
    if how == MS:
        ms = ctypes.c_int(args[which] & 0xffffffff).value
        return FOR_EVER if ms < 0 else ms / 1000
    return time_at(pid, args[which], 1e-6 if how == TIMEVAL else 1e-9)


def may_block(pid, number, args):
    """A call on a socket that would wait for somebody else."""
    flags_at = SOCKETS[number][1]
    if flags_at is not None and args[flags_at] & 0x40:  # MSG_DONTWAIT
        return False
    try:
        if not os.readlink("/proc/%d/fd/%d" % (pid, args[0])).startswith("socket:"):
            return False
        with open("/proc/%d/fdinfo/%d" % (pid, args[0])) as f:
            flags = next(int(line.split()[1], 8) for line in f if line.startswith("flags:"))
    except OSError:
        return False
    return not flags & os.O_NONBLOCK


class Judge:
    def __init__(self, pid):
        self.pid = pid
        self.is_inside = False
        self.n_calls, self.worst_s, self.worst = 0, 0.0, []
        self.blocking = {}
        self.now, self.name = None, ""

    def mark(self):
        self.is_inside = not self.is_inside
        if self.is_inside:
            self.n_calls += 1
            self.call_s, self.steps = 0.0, []

    def enters(self, number, args):
        self.now = None
        if number == MARK:
            self.mark()
        elif self.is_inside and number in WAITS:
            self.name = WAITS[number][0]
            self.now = asked_s(self.pid, number, args)
            if self.now == FOR_EVER:
                self.blocking[self.name] = self.blocking.get(self.name, 0) + 1
        elif self.is_inside and number in SOCKETS and may_block(self.pid, number, args):
            name = SOCKETS[number][0]
            self.blocking[name] = self.blocking.get(name, 0) + 1

    def returns(self, result):
        is_over = result == TIMED_OUT if self.name == "futex" else result == 0
        if not self.now or self.now == FOR_EVER or not is_over:
            return
        self.call_s += self.now
        self.steps.append("%s %.2f ms" % (self.name, self.now * 1000))
        if self.call_s > self.worst_s:
            self.worst_s, self.worst = self.call_s, list(self.steps)


def trace(pid, ready):
    judge = Judge(pid)
    ptrace(SEIZE, pid, 0, TRACE_SYSCALLS)
    ptrace(INTERRUPT, pid)  # from here on each system call stops
    os.write(ready, b"r")
    while True:
        _, status = os.waitpid(pid, WALL)
        if not os.WIFSTOPPED(status):
            break
        signo, event = os.WSTOPSIG(status), status >> 16
        if signo == signal.SIGTRAP | 0x80:
            is_entry, value, args = entry_of(pid)
            (judge.enters(value, args) if is_entry else judge.returns(value))
            signo = 0
        ptrace(SYSCALL, pid, 0, 0 if event else signo)
    os.write(ready, json.dumps({"calls": judge.n_calls, "worst_ms": judge.worst_s * 1000,
                                "steps": judge.worst, "blocking": judge.blocking}).encode())


class Watch:
    def __init__(self, pid):
        self.out, inner = os.pipe()
        self.tracer = os.fork()
        if not self.tracer:
            try:
                trace(pid, inner)
            finally:
                os._exit(0)
        os.close(inner)
        self.is_on = os.read(self.out, 1) == b"r"

    def said(self):
        text = b""
        while part := os.read(self.out, 65536):
            text += part
        os.waitpid(self.tracer, 0)
        return json.loads(text)
