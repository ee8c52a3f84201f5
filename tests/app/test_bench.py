#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_bench.py - "osf bench" measures where and what it says it does

    test_bench.py OSF

Connections that move and then sleep teach the default policy to move no more of them.
The benchmarks of idle connections are about those that have moved.

A ratio is the median of the ratios of the rounds.
"""
import json
import statistics
import subprocess
import sys

import harness

CONNECTIONS = 100  # more than the default policy moves before it stops
PRELOADS = "osf bench loads the library itself, without the sanitizer's runtime before it"


def bench(run, osf, *args):
    got = subprocess.run([osf, "bench", "--json", "--lib", run.lib, *args],
                         text=True, capture_output=True, timeout=run.left())
    run.need(got.stdout, got.stderr)
    return json.loads(got.stdout)["benches"][0]


def idle_connections_have_moved(run, osf):
    got = bench(run, osf, "-n", "1", "-t", "0.1", "--connections", str(CONNECTIONS), "idle-memory")
    run.need(got["result"] in ("ok", "NOT REACHED") and got["n_upgraded"] == 2 * CONNECTIONS,
             "not both ends of each connection moved: %s" % got)
    print("%d ends of %d connections moved" % (got["n_upgraded"], CONNECTIONS))


def ratio_is_the_median_of_the_rounds(run, osf):
    got = bench(run, osf, "-n", "3", "-t", "0.1", "oneshot")
    kernel, ours = got["kernel"]["samples"], got["osf"]["samples"]
    run.need(len(kernel) == len(ours) == 3, "not three rounds: %s" % got)
    want = statistics.median(o / k for k, o in zip(kernel, ours))
    run.need(abs(got["ratio"] / want - 1) < 1e-6, "ratio %s, not %s" % (got["ratio"], want))
    print("kernel %s a second, osf %s: ratio %.3f" % (kernel, ours, got["ratio"]))


def main(osf):
    run = harness.Run(__file__, not_with={"address": PRELOADS, "thread": PRELOADS})
    if run.is_kernel:
        harness.skip("the kernel moves no connection")
    idle_connections_have_moved(run, osf)
    ratio_is_the_median_of_the_rounds(run, osf)
    run.done()


main(sys.argv[1])
