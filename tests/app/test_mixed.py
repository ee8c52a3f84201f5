#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_mixed.py - one end under osf, the other on the kernel: both
directions of that must work as if osf were not there
"""
import os
import sys

import harness


def redis(run, server_osf, client_osf):
    port = harness.free_port()
    server = run.start(["redis-server", "--port", port, "--bind", "127.0.0.1",
                        "--dir", run.tmp, "--save", ""], osf=server_osf,
                       eager=True)
    run.wait_port(port)
    for args in (["-t", "set,get", "-n", "5000"],
                 ["-t", "get", "-n", "30000", "-P", "16"]):
        text = run.check(["redis-benchmark", "-p", port, "-q"] + args,
                         osf=client_osf, eager=True)
        run.need("requests per second" in text and "rror" not in text, text)
    run.python(os.path.join(harness.HERE, "test_redis.py"), "client", port, 7,
               osf=client_osf, eager=True)
    run.stop(server)


def iperf3(run, server_osf, client_osf):
    port = harness.free_port()
    server = run.start(["iperf3", "-s", "-B", "127.0.0.1", "-p", port],
                       osf=server_osf, eager=True)
    run.wait_listening(port)
    for args in ([], ["-R"], ["-P", "3"]):
        run.check(["iperf3", "-c", "127.0.0.1", "-p", port, "-t", "1"] + args,
                  osf=client_osf, eager=True)
    run.stop(server)


def sockperf(run, server_osf, client_osf):
    port = harness.free_port()
    where = ["--tcp", "-i", "127.0.0.1", "-p", port]
    server = run.start(["sockperf", "server"] + where, osf=server_osf,
                       eager=True)
    run.wait_port(port)
    run.check(["sockperf", "ping-pong", "--data-integrity", "-t", "1"] +
              where, osf=client_osf, eager=True)
    run.stop(server, harness.signal.SIGINT)


def stress(run, server_osf, client_osf, program):
    first, other = harness.free_port(), harness.free_port()
    ports = "%d,%d,%d" % (first, first, other)
    server = run.start([program, "server", "--ports", ports], osf=server_osf,
                       eager=True)
    for port in (first, other):
        run.wait_listening(port)
    print(run.check([program, "client", "--ports", ports, "--seconds", "2"],
                    osf=client_osf, eager=True).strip())
    run.wait(server)


def main():
    run = harness.Run(__file__)
    for ends in ((True, False), (False, True)):
        for program, test in (("redis-server", redis), ("iperf3", iperf3),
                              ("sockperf", sockperf)):
            if harness.find(program):
                test(run, *ends)
            else:
                print("left out:", program)
        if len(sys.argv) > 1:
            stress(run, *ends, os.path.abspath(sys.argv[1]))
    run.expect_on_kernel()
    run.done()


main()
