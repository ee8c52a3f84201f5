#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_hostile_child.py - a forked child that dropped its privileges writes
anything into what it shares with its parent: hostile_child.c, with several seeds

    test_hostile_child.py PROGRAM [SEED]

The parent's connections were really offloaded, by the statistics.  As root the child
takes another user; otherwise it keeps its own, which can do no less.
"""
import os
import sys

import harness

ROUNDS = 30
SEEDS = 3


def main():
    run = harness.Run(__file__)
    if len(sys.argv) < 2:
        harness.skip("which program? see the top of this file")
    program = os.path.abspath(sys.argv[1])
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    for seed in range(first, first + SEEDS):
        stats = run.path("stats.%d" % seed)
        os.mkdir(stats)
        extra = {} if run.is_kernel else {"OSF_STATS_DIR": stats}
        print(run.check([program, ROUNDS, seed], extra=extra).strip(), flush=True)
        if not run.is_kernel:
            got = harness.sum_stats(harness.read_stats(stats))["n_upgraded"]
            run.need(got >= 2 * ROUNDS, "%d upgraded" % got)
    run.done()


main()
