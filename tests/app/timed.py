# SPDX-License-Identifier: MIT
"""
tests/app/timed.py - how long a call took that was not for want of a core

    calls = timed.Calls()
    data = calls(sock.recv, 100)     b"" for an error, None for EAGAIN
    calls.longest_s                  of all calls, since calls.forget()
    calls.longest()                  which one, and how it passed
    str(calls)                       how many, and how many of them took longer than LONG_S

The clock on the wall, less the time in which the thread could run and had no core
(/proc/thread-self/schedstat), and less the time in which the machine had none: a virtual
machine stands still while its host runs others (steal, /proc/stat).  What is left is time
that the call ran, or slept.
"""
import os
import resource
import time


LONG_S = 0.005
NS_PER_TICK = 10**9 // os.sysconf("SC_CLK_TCK")


class LostTime:
    """Of the thread that makes this object."""

    def __init__(self):
        self.schedstat = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        self.stat = os.open("/proc/stat", os.O_RDONLY)

    def ns(self):
        """So far; any difference of two counts."""
        steal = os.pread(self.stat, 200, 0).split(b"\n")[0].split()[8]
        return int(os.pread(self.schedstat, 100, 0).split()[1]) + int(steal) * NS_PER_TICK


def how(before, after):
    cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return "%.1f ms of a core, %d sleeps" % (cpu_s * 1000, after.ru_nvcsw - before.ru_nvcsw)


class Calls:
    def __init__(self, is_marked=False):
        """@is_marked: tests/trust/waits.py sees where each call begins and ends."""
        self.is_marked = is_marked
        self.lost = LostTime()
        self.n, self.n_long = 0, 0
        self.forget()

    def forget(self):
        self.longest_s, self.of, self.how = 0.0, "", ""

    def longest(self):
        return "%s() %.1f ms (%s)" % (self.of, self.longest_s * 1000, self.how)

    def __str__(self):
        return "%d calls, %d of them over %d ms, the longest %s" % (
            self.n, self.n_long, LONG_S * 1000, self.longest())

    def mark(self):
        if self.is_marked:
            os.getppid()

    def __call__(self, call, *args):
        # In this order: what lies between the clocks counts as the call's.
        used = resource.getrusage(resource.RUSAGE_THREAD)
        lost = self.lost.ns()
        start = time.monotonic_ns()
        try:
            self.mark()
            return call(*args)
        except BlockingIOError:
            return None
        except OSError:
            return b""
        finally:
            self.mark()
            took = time.monotonic_ns() - start
            took -= self.lost.ns() - lost
            self.n += 1
            self.n_long += took / 1e9 > LONG_S
            if took / 1e9 > self.longest_s:
                self.longest_s, self.of = took / 1e9, getattr(call, "__name__", "?")
                self.how = how(used, resource.getrusage(resource.RUSAGE_THREAD))
