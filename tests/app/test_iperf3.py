#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_iperf3.py - iperf3 forward, reverse, parallel and both ways: no
errors, and both ends count the same bytes
"""
import json

import harness

RUNS = {"forward": [], "reverse": ["-R"], "parallel": ["-P", "4"],
        "both ways": ["--bidir"], "blocks": ["-l", "1K"],
        "bounded": ["-n", "100M"], "file sizes": ["-n", "64M", "-Z"]}
# At the end what is in flight is dropped, and counted as sent only: a ring, or the
# kernel's buffers, of each stream.
FLIGHT = 17 << 20


def agree(run, name, sent, received):
    run.need(received > 0, "%s: nothing received" % name)
    run.need(0 <= sent - received <= FLIGHT * (4 if name == "parallel" else 1) or sent == received,
             "%s: %d bytes sent, %d received" % (name, sent, received))


def test_one(run, name, args):
    port = harness.free_port()
    server = run.start(["iperf3", "-s", "-1", "-B", "127.0.0.1", "-p", port,
                        "-J"])
    cmd = ["iperf3", "-c", "127.0.0.1", "-p", port, "-J", "-i", "0"] + args
    if "-n" not in args:
        cmd += ["-t", "1"]
    run.wait_listening(port)  # a connection of ours would be the one that it serves
    report = json.loads(run.check(cmd))
    run.need("error" not in report, "%s: %s" % (name, report.get("error")))
    run.wait(server)
    theirs = json.loads(server.text())
    run.need("error" not in theirs, "%s: server: %s" %
             (name, theirs.get("error")))
    end = report["end"]
    agree(run, name, end["sum_sent"]["bytes"], end["sum_received"]["bytes"])
    if "sum_sent_bidir_reverse" in end:
        agree(run, name + " back", end["sum_sent_bidir_reverse"]["bytes"],
              end["sum_received_bidir_reverse"]["bytes"])
    print("%s: %.1f Gb/s" % (name,
                             end["sum_received"]["bits_per_second"] / 1e9))


def main():
    run = harness.Run(__file__, ["iperf3"])
    for name, args in RUNS.items():
        test_one(run, name, args)
    run.expect_offloaded(8, 100 << 20)
    run.done()


main()
