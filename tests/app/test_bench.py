#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_bench.py - "osf bench" measures the idle connections where it says it does

    test_bench.py OSF

Connections that move and then sleep teach the default policy to move no more of them.
The benchmarks of idle connections are about those that have moved.
"""
import json
import subprocess
import sys

import harness

CONNECTIONS = 100  # more than the default policy moves before it stops
PRELOADS = "osf bench loads the library itself, without the sanitizer's runtime before it"


def main(osf):
    run = harness.Run(__file__, not_with={"address": PRELOADS, "thread": PRELOADS})
    if run.is_kernel:
        harness.skip("the kernel moves no connection")
    got = subprocess.run([osf, "bench", "--json", "--lib", run.lib, "-n", "1", "-t", "0.1",
                          "--connections", str(CONNECTIONS), "idle-memory"],
                         text=True, capture_output=True, timeout=run.left())
    run.need(got.stdout, got.stderr)
    bench = json.loads(got.stdout)["benches"][0]
    run.need(bench["result"] in ("ok", "NOT REACHED") and bench["n_upgraded"] == 2 * CONNECTIONS,
             "not both ends of each connection moved: %s\n%s" % (bench, got.stderr))
    print("%d ends of %d connections moved" % (bench["n_upgraded"], CONNECTIONS))
    run.done()


main(sys.argv[1])
