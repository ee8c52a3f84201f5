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

CONNECTIONS = 100  # more than the default policy moves before it stops


def main(osf):
    got = subprocess.run([osf, "bench", "--json", "-n", "1", "-t", "0.1", "--connections",
                          str(CONNECTIONS), "idle-memory"],
                         text=True, capture_output=True, timeout=200)
    bench = json.loads(got.stdout)["benches"][0]
    if bench["result"] not in ("ok", "missed") or bench["n_upgraded"] != 2 * CONNECTIONS:
        sys.exit("not both ends of each connection moved: %s\n%s" % (bench, got.stderr))
    print("%d ends of %d connections moved" % (bench["n_upgraded"], CONNECTIONS))


main(sys.argv[1])
