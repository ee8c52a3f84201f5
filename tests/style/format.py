#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/style/format.py - the formatter has nothing to say

    format.py          checks
    format.py --fix    lets clang-format rewrite what differs

Versions of clang-format differ in details, so only the one that the tree is
formatted with judges; with another the test is skipped.
"""
import re
import shutil
import subprocess
import sys

import tree

VERSION = 14


def main():
    tool = shutil.which("clang-format-%d" % VERSION) or \
        shutil.which("clang-format")
    if not tool:
        tree.skip("no clang-format")
    said = subprocess.run([tool, "--version"], capture_output=True, text=True)
    found = re.search(r"version (\d+)", said.stdout)
    if not found or int(found.group(1)) != VERSION:
        tree.skip("clang-format is not of version %d" % VERSION)
    paths = tree.files(".c", ".h", under=["src/", "include/", "tools/",
                                          "tests/"])
    if "--fix" in sys.argv:
        subprocess.run([tool, "-i"] + paths, cwd=tree.ROOT, check=True)
        return
    got = subprocess.run([tool, "--dry-run"] + paths, cwd=tree.ROOT,
                         capture_output=True, text=True)
    bad = {}
    for line in got.stderr.split("\n"):
        at = re.match(r"(.*?):(\d+):\d+: (warning|error):", line)
        if at:
            bad.setdefault(at.group(1), int(at.group(2)))
    for path, line in sorted(bad.items()):
        tree.wrong("%s:%d" % (path, line), "clang-format would change it")
    if got.returncode and not bad:
        tree.wrong("clang-format", got.stderr.strip()[-500:])
    tree.verdict("format")


main()
