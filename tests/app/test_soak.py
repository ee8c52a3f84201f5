#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_soak.py - the long runs of soak.c, short enough for every day

    test_soak.py SOAK [SEED [MODE ...]]

Each run has its own folder of statistics, by which its connections were really
offloaded.  The first line prints the seed; without SEED it is OSF_TEST_SEED, which
`make check SEED=N` sets.  `soak MODE N SEED` repeats the choices of one mode.
"""
import concurrent.futures
import os
import shutil
import sys
import time

import harness

# mode, number, eager, connections that have to be offloaded, seconds at most
RUNS = [("kills", 50, True, 50, 100),
        ("kills", 50, False, 20, 100),
        ("conns", 20000, True, 19000, 150),
        ("many", 1000, True, 950, 100)]
# These run for a given time, side by side.  How many connections that are depends on what else
# the machine does: with a load of 80, 28 streams in 69 s.
TIMED = [("share", 10, True, 1, 100),
         ("mix", 25, True, 1, 250),
         ("mix", 25, False, 1, 250)]
# Its processes have threads and fork, and libasan's allocator (GCC 12) has no handlers
# for that: a child waits for ever for a lock that another thread held.
MIX_NOT_WITH = "address"


def soak(run, program, seed, mode, number, eager, n_conns, seconds):
    stats = os.path.join(run.stats, str(next(run.serial)))
    os.mkdir(stats)
    extra = {} if run.is_kernel else {"OSF_STATS_DIR": stats}
    print(run.check([program, mode, number, seed], eager=eager,
                    extra=extra, timeout=seconds).strip(), flush=True)
    if not run.is_kernel:
        total = harness.sum_stats(harness.read_stats(stats))
        got = total["n_upgraded"] // 2
        print("  %soffloaded: %d connections, %.1f MB; %d fell back" %
              ("eager, " if eager else "", got, total["rx_bytes_shm"] / 1e6,
               total["n_fallbacks"]), flush=True)
        run.need(total["n_broken"] == 0, "%d segments broken" %
                 total["n_broken"])
        run.need(got >= n_conns, "%s: %d connections offloaded, %d expected" %
                 (mode, got, n_conns))
    shutil.rmtree(stats)


def main():
    harness.LIMIT_S = 900
    run = harness.Run(__file__)
    if len(sys.argv) < 2:
        harness.skip("which soak program? see the top of this file")
    program = os.path.abspath(sys.argv[1])
    seed = int(sys.argv[2] if len(sys.argv) > 2 else
               os.environ.get("OSF_TEST_SEED") or time.time_ns() >> 10)
    print("seed %d" % seed, flush=True)
    modes = sys.argv[3:]
    has_mix = MIX_NOT_WITH not in run.sanitizer.names
    if not has_mix and (not modes or "mix" in modes):
        print("not with the sanitizer %s: mix: children wait for a lock of its "
              "allocator" % MIX_NOT_WITH)
    for i, (mode, *more) in enumerate(RUNS):
        if not modes or mode in modes:
            soak(run, program, seed + i, mode, *more)
    with concurrent.futures.ThreadPoolExecutor(len(TIMED)) as pool:
        ended = [pool.submit(soak, run, program, seed + len(RUNS) + i, mode, *more)
                 for i, (mode, *more) in enumerate(TIMED)
                 if (has_mix or mode != "mix") and (not modes or mode in modes)]
    for end in ended:
        end.result()
    run.done()


main()
