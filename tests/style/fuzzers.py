#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/style/fuzzers.py BUILD - what others write is read by code that a fuzzer runs

The table of tests/fuzz/README.md has a row for each fuzzer, with files that it was built of.  Each
file that docs/trust.md quotes for the RDMA device, rdma_cm or taps is in one of them.
"""
import os
import re
import subprocess
import sys

import tree

PIECES = re.compile(r"\| (?:RDMA|rdma_cm|tap)\b.*`([\w/.]+)`: `")
ROW = re.compile(r"\| `(fuzz_\w+)\.c` \| .* \| ([^|]*) \|$")
TABLE = "tests/fuzz/README.md"
# Not a parser: `osf tap' stores an instant, and the program compares it with the time.
NO_PARSER = {"src/port/tap.c"}


def inputs(build, fuzzer):
    """Return: the files that it is made of; none where there is no clang with libFuzzer."""
    got = subprocess.run(["ninja", "-C", build, "-t", "inputs", "tests/" + fuzzer], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True, check=False)
    return {os.path.relpath(os.path.join(build, path), tree.ROOT) for path in got.stdout.split("\n") if path}


def main():
    rows = dict(found.groups() for found in map(ROW.match, tree.read(TABLE).split("\n")) if found)
    files = {fuzzer: re.findall(r"`([^`]+)`", row) for fuzzer, row in rows.items()}
    there = {os.path.basename(path)[:-2] for path in tree.files(".c", under=["tests/fuzz/fuzz_"])}
    for fuzzer in sorted(there ^ set(rows)):
        tree.wrong(TABLE, "the row or the fuzzer is missing: " + fuzzer)
    for fuzzer, paths in files.items():
        made_of = inputs(sys.argv[1], fuzzer)
        if not tree.files(under=["tests/fuzz/corpus/%s/" % fuzzer[len("fuzz_"):]]):
            tree.wrong(TABLE, "%s has no corpus" % fuzzer)
        for path in paths:
            if not os.path.exists(os.path.join(tree.ROOT, path)):
                tree.wrong(TABLE, "there is no " + path)
            elif made_of and path not in made_of and not path.endswith(".bpf.c"):
                tree.wrong(TABLE, "%s is not built of %s" % (fuzzer, path))
    covered = {path for paths in files.values() for path in paths} | NO_PARSER
    for path in sorted(set(PIECES.findall(tree.read("docs/trust.md"))) - covered):
        tree.wrong(TABLE, "no fuzzer reads what %s reads (docs/trust.md)" % path)
    tree.verdict("fuzzers")


main()
