# SPDX-License-Identifier: MIT
"""
tests/trust/traced.py - stops a process that osf makes, at the system call that it is about to make

    t = traced.Children(pid)       of this process
    child = t.stopped_at(nr)       a descendant has taken another process's descriptor, and is
                                   about to make the system call nr on it
    t.let_go()                     all run on

The caller is the thread that traces: ptrace(2).
"""
import ctypes
import os
import signal
import struct

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
CONT, DETACH, SYSCALL, SEIZE, INTERRUPT, GET_SYSCALL_INFO = 7, 17, 24, 0x4206, 0x4207, 0x420e
TRACE_SYSCALLS, TRACE_FORK, TRACE_VFORK, TRACE_CLONE = 1, 2, 4, 8
AT_ENTRY, AT_EXIT = 1, 2
WALL = 0x40000000
PIDFD_GETFD = 438
SENDTO, SHUTDOWN = {"x86_64": (44, 48), "aarch64": (206, 210)}.get(os.uname().machine, (0, 0))


def ptrace(what, pid, arg=0, data=0):
    if libc.ptrace(what, pid, ctypes.c_void_p(arg), ctypes.c_void_p(data)) < 0:
        raise OSError(ctypes.get_errno(), "ptrace %d of %d" % (what, pid))


def syscall_of(pid):
    """Return: (AT_ENTRY, number, first argument) or (AT_EXIT, what it returns, 0)."""
    info = ctypes.create_string_buffer(88)
    ptrace(GET_SYSCALL_INFO, pid, len(info), ctypes.addressof(info))
    kind, first, second = struct.unpack_from("=B23xqq", info)
    return kind, first, second if kind == AT_ENTRY else 0


class Children:
    def __init__(self, pid):
        self.pid, self.stopped = pid, None
        ptrace(SEIZE, pid, 0, TRACE_SYSCALLS | TRACE_FORK | TRACE_VFORK | TRACE_CLONE)

    def stopped_at(self, number):
        calls, taken = {}, {}
        while not self.stopped:
            pid, status = os.waitpid(-1, WALL)
            if not os.WIFSTOPPED(status):
                if pid == self.pid:
                    raise RuntimeError("the traced process has ended")
                continue
            if os.WSTOPSIG(status) != signal.SIGTRAP | 0x80:
                event, signo = status >> 16, os.WSTOPSIG(status)
                ptrace(CONT if pid == self.pid else SYSCALL, pid, 0, 0 if event else signo)
                continue
            kind, value, fd = syscall_of(pid)
            if kind == AT_ENTRY:
                calls[pid] = value
            elif calls.get(pid) == PIDFD_GETFD:
                taken[pid] = value
            if kind == AT_ENTRY and value == number and taken.get(pid, -1) == fd:
                self.stopped = pid
            else:
                ptrace(SYSCALL, pid)
        return self.stopped

    def let_go(self):
        ptrace(INTERRUPT, self.pid)
        os.waitpid(self.pid, WALL)
        ptrace(DETACH, self.pid)
        ptrace(DETACH, self.stopped)
