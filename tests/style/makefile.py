#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/style/makefile.py - what the Makefile's targets pass on

    parts      `make vm' and `make hostile' run all their parts unless PARTS names some
    fuzzers    `make fuzz' runs each fuzzer
"""
import os
import re
import shutil
import subprocess

import tree

# The end of the line that runs the test.
RUNS = {"vm": "tests/vm/run.py build", "hostile": "--seconds 1500"}


def commands(target):
    env = {name: value for name, value in os.environ.items() if name not in ("PARTS", "SEED", "BUILD", "MAKEFLAGS", "MAKELEVEL")}
    got = subprocess.run(["make", "-n", target, "INSTALL=no"], cwd=tree.ROOT, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return [line.strip() for line in got.stdout.split("\n")]


def main():
    if not shutil.which("make"):
        tree.skip("no make")
    for target, end in RUNS.items():
        if not any(line.endswith(end) for line in commands(target)):
            tree.wrong("Makefile", "make %s runs some parts only" % target)
    listed = re.search(r"^TARGETS \?= ((?:.*\\\n)*.*)$", tree.read("Makefile"), re.M).group(1).replace("\\", " ").split()
    fuzzers = [re.sub(r".*/fuzz_|\.c$", "", path) for path in tree.files(".c", under=["tests/fuzz/fuzz_"])]
    for name in sorted(set(fuzzers) ^ set(listed)):
        tree.wrong("Makefile", "TARGETS of make fuzz and tests/fuzz differ by %s" % name)
    tree.verdict("makefile")


main()
