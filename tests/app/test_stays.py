#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_stays.py - what does not keep a connection on the kernel: an io_uring
for files, SO_ZEROCOPY and MSG_ZEROCOPY, SO_TIMESTAMP that nobody asks about, SO_OOBINLINE
that is set to 0

    test_stays.py CALLS

What is answered meanwhile is compared with the kernel's answers by test_calls.py.
"""
import os
import sys

import harness

SCENARIOS = ["uring_beside", "errq_beside", "times_beside", "inline_beside"]
MOVED = "w10000=10000 f10000=10000 r10000=10000"  # how each of them ends


def run_one(run, calls, name, args, extra=None):
    """Return: whether there is such a scenario, and what it wants."""
    out = run.check([calls, "--only", name] + args, extra=extra)
    if not out or "no-io_uring" in out:
        return False
    run.need(out.startswith(name) and out.endswith(MOVED + "\n"), out)
    return True


def main():
    run = harness.Run(__file__)
    calls = os.path.abspath(sys.argv[1])
    n = 0
    for name in SCENARIOS:
        for args in [], ["--no-warm"]:
            n += run_one(run, calls, name, args)
            run.expect_offloaded(n, 20000 * n)
    # Whoever asks for it keeps all of them on the kernel: nothing is added.
    before = harness.sum_stats(harness.read_stats(run.stats))
    run_one(run, calls, "uring_beside", ["--no-warm"],
            {"OSF_IO_URING": "all"})
    after = harness.sum_stats(harness.read_stats(run.stats))
    run.need(run.is_kernel or before["n_upgraded"] == after["n_upgraded"],
             "moved in spite of OSF_IO_URING=all")
    run.done()


main()
