#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/suites/suite_verbs.py - programs of verbs, rdma_cm, UCX, libfabric, MPI and pyverbs, all of them

    suite_verbs.py [--quick]      or: make suites NAMES=verbs

Runs the scripts of tests/verbs, which start unmodified programs on the software RDMA device, on one
host and between two network namespaces.  A program passes only if the device's counters say
that the device has moved what the program asked for; so a run over a real device or over TCP fails.
At the end are the operations and bytes of all programs together, by script.
"""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

import suites

VERBS = os.path.join(suites.HERE, "..", "verbs")
# Script and arguments; True: left out with --quick.
SCRIPTS = [("test_devinfo.py", False), ("run_programs.py pingpong", False), ("run_programs.py perftest", False), ("run_programs.py sizes", True),
           ("run_cm.py", True), ("run_roce.py", False), ("run_roce.py sizes", True), ("run_mpi.py", True), ("run_ucx.py", True), ("run_pyverbs.py", True)]
NEEDED = ["tests/test_limits", "tests/far_states", "tests/far_windows", "tests/far_xrc", "tests/plain_stream"]
LIMIT_S = 3000 # of a script


def run(words, totals):
    """Return: its status, and what it has printed."""
    env = dict(os.environ, OSF_BUILD=os.path.abspath(suites.BUILD), OSF_VERBS_TOTALS=totals)
    got = subprocess.run([sys.executable, os.path.join(VERBS, words[0])] + words[1:], env=env, timeout=LIMIT_S,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return got.returncode, got.stdout


def moved(totals):
    """Return: what the device's counters said, added up."""
    total = collections.Counter()
    if os.path.exists(totals):
        with open(totals) as f:
            for line in f:
                total.update(json.loads(line))
    return total


def tell(name, status, text, total):
    passed = len(re.findall(r"^ok ", text, re.M)) + len(re.findall(r" ok$", text, re.M))
    failed = len(re.findall(r"^FAIL", text, re.M))
    words = " ".join("%s=%d" % item for item in sorted(total.items()) if item[1])
    suites.say("verbs: %-24s %3d ok %2d failed, status %s; %s" % (name, passed, failed, status, words or "no counters"))


def main():
    is_quick = "--quick" in sys.argv
    subprocess.run(["ninja", "-C", suites.BUILD] + NEEDED, check=True, stdout=subprocess.DEVNULL)
    bad = []
    for name, is_long in SCRIPTS:
        if is_quick and is_long:
            continue
        with tempfile.TemporaryDirectory() as folder:
            totals = os.path.join(folder, "totals")
            status, text = run(name.split(), totals)
            suites.say(text)
            tell(name, "skipped" if status == 77 else status, text, moved(totals))
        if status not in (0, 77):
            bad.append(name)
    for name in bad:
        suites.say("FAIL: " + name)
    sys.exit(1 if bad else 0)


main()
