# SPDX-License-Identifier: MIT
"""
tests/app/timed.py - how long a call took that was not for want of a core

    calls = timed.Calls()
    data = calls(sock.recv, 100)     b"" for an error, None for EAGAIN
    calls.longest_s                  of all calls, and in calls.of which one
    str(calls)                       how many, and how many of them took longer than LONG_S

The clock on the wall, less the time in which the thread could run and had no core
(/proc/thread-self/schedstat).  What is left is time that the call ran, or slept.
"""
import os
import time


LONG_S = 0.005


class Calls:
    def __init__(self):
        self.schedstat = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        self.longest_s, self.of, self.n, self.n_long = 0.0, "", 0, 0

    def __str__(self):
        return "%d calls, %d of them over %d ms, the longest %s() %.1f ms" % (
            self.n, self.n_long, LONG_S * 1000, self.of, self.longest_s * 1000)

    def queued_ns(self):
        return int(os.pread(self.schedstat, 100, 0).split()[1])

    def __call__(self, call, *args):
        # In this order: what lies between the clocks counts as the call's.
        queued = self.queued_ns()
        start = time.monotonic_ns()
        try:
            return call(*args)
        except BlockingIOError:
            return None
        except OSError:
            return b""
        finally:
            took = time.monotonic_ns() - start
            took -= self.queued_ns() - queued
            self.n += 1
            self.n_long += took / 1e9 > LONG_S
            if took / 1e9 > self.longest_s:
                self.longest_s, self.of = took / 1e9, getattr(call, "__name__", "?")
