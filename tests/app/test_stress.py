#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_stress.py - the stress test (stress.c) in its three places, and
with both halves started apart

    test_stress.py STRESS [SEED [SECONDS]]
"""
import os
import sys
import time

import harness


def main():
    run = harness.Run(__file__)
    if len(sys.argv) < 2:
        harness.skip("which stress program? see the top of this file")
    program = os.path.abspath(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns() >> 10
    seconds = sys.argv[3] if len(sys.argv) > 3 else "4"
    args = ["--seconds", seconds, "--hang", "45"]
    print("seed", seed)
    for i, more in enumerate((["--place", "fork"], ["--place", "exec"],
                              ["--place", "same"],
                              ["--place", "exec", "--conns", "100",
                               "--threads", "4"],
                              # streams that fill every buffer
                              ["--place", "fork", "--conns", "4",
                               "--bytes", "67108864"],
                              ["--place", "same", "--conns", "4",
                               "--bytes", "67108864"])):
        for eager in (False, True):
            print(run.check([program, "--seed", seed + i] + args + more,
                            eager=eager).strip())
    first, other = harness.free_port(), harness.free_port()
    ports = "%d,%d,%d" % (first, first, other)
    server = run.start([program, "server", "--ports", ports])
    for port in (first, other):
        run.wait_listening(port)
    run.check([program, "client", "--ports", ports, "--seed", seed] + args)
    run.wait(server)
    run.expect_offloaded(50, 10 << 20)
    run.done()


main()
