#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/sim/test_sim.py SIM - what the simulator reports about a seed that fails

With --strict an aborted connection is a failure, so some seeds fail.  The report about one must
have the commit, fewer faults than the seed has, a command that fails again, and a capture that
tshark can read.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

SIM = os.path.abspath(sys.argv[1])
BREAKERS = {"abort", "early", "kill", "late", "mask", "hole", "burst", "nth", "steal",
            "jump", "loss", "corrupt", "truncate", "reboot", "unlisten", "keepalive", "patience",
            "unreach"}


def run(*args):
    got = subprocess.run([SIM, *args], capture_output=True, text=True, timeout=150)
    return got.returncode, got.stdout + got.stderr


def faults(text, head):
    return set(re.search(r"^%s(.*)$" % head, text, re.M).group(1).split())


def reads_without_complaint():
    """A run that does not fail has a capture, too.  What one end sends goes out, and comes in."""
    assert run("--pcap", "good.pcapng", "--bytes", "20000", "1")[0] == 0
    read = subprocess.run(["tshark", "-r", "good.pcapng", "-T", "fields", "-e",
                           "frame.packet_flags_direction"], capture_output=True, text=True, timeout=60)
    said = [line for line in read.stderr.split("\n") if line and "Running as user" not in line]
    assert read.returncode == 0 and not said, said
    seen = set(read.stdout.split())
    assert seen == {"0x00000001", "0x00000002"}, seen


def main():
    os.chdir(tempfile.mkdtemp())
    status, said = run("--strict", "--jobs", "2", "--bytes", "100000", "1", "100")
    assert status == 1, said
    print(said)
    assert re.search(r"seed \d+ fails at commit [0-9a-f]{7,}|at commit unknown", said)
    before, after = faults(said, "with:"), faults(said, "still with:")
    assert after < before, (before, after)
    assert after & BREAKERS, after
    command = re.search(r"^minimal: sim (.*)$", said, re.M).group(1)
    status, again = run(*command.split())
    assert status == 1, again
    capture = re.search(r"^capture: (\S+)$", said, re.M).group(1)
    assert os.path.getsize(capture) > 200
    status, said = run("--transitions", "--bytes", "10000", "1", "20")
    assert status == 0 and "20 seeds" in said, said
    assert re.search(r"SYN_SENT +-> ESTABLISHED +[1-9]", said), said
    assert run("--off", "nonsense")[0] == 1
    if not shutil.which("tshark"):
        print("skip: tshark is not there, which reads the capture")
        return 77
    read = subprocess.run(["tshark", "-r", capture, "-T", "fields", "-e", "frame.time_epoch",
                           "-e", "frame.interface_name", "-e", "tcp.flags.syn"],
                          capture_output=True, text=True, timeout=60)
    assert read.returncode == 0, read.stderr
    lines = [line.split("\t") for line in read.stdout.split("\n") if line]
    assert len(lines) > 2 and lines[0][1] == "0 sends" and lines[0][2] == "1", lines[:3]
    assert float(lines[0][0]) < 1, lines[0]  # virtual time begins at 1 ms
    print("capture: %d packets" % len(lines))
    reads_without_complaint()
    return 0


sys.exit(main())
