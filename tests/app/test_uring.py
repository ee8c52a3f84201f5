#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_uring.py - a program with an io_uring for its files keeps its
connections in shared memory; calls_uring.c holds what is given to a ring

    test_uring.py CALLS
"""
import os
import sys

import harness


def run_beside(run, calls, args, extra=None):
    out = run.check([calls, "--only", "uring_beside"] + args, extra=extra)
    if "uring_beside" not in out or "no-io_uring" in out:
        harness.skip("no io_uring, or no liburing")
    run.need(out.startswith("uring_beside: w10000=10000 "), out)


def main():
    run = harness.Run(__file__)
    calls = os.path.abspath(sys.argv[1])
    run_beside(run, calls, ["--no-warm"])
    run.expect_offloaded(1, 20000)
    run_beside(run, calls, [])
    run.expect_offloaded(2, 40000)
    # Whoever asks for it keeps all of them on the kernel: nothing is added.
    before = harness.sum_stats(harness.read_stats(run.stats))
    run_beside(run, calls, ["--no-warm"], {"OSF_IO_URING": "all"})
    after = harness.sum_stats(harness.read_stats(run.stats))
    run.need(run.is_kernel or before["n_upgraded"] == after["n_upgraded"],
             "moved in spite of OSF_IO_URING=all")
    run.done()


main()
