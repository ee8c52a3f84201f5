#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/style/trust.py - docs/trust.md quotes checks that are there

Each row of its tables ends in `file`: `code`.  The code must stand in the file.
"""
import os
import re

import tree

QUOTE = re.compile(r"`([\w/.]+)`: `(.+)` \|$")
ROWS_LEAST = 20


def flat(text):
    return re.sub(r"\s+", " ", text)


def main():
    rows = 0
    for i, line in enumerate(tree.read("docs/trust.md").split("\n"), 1):
        if not line.startswith("| ") or line.startswith("| piece"):
            continue
        where = "docs/trust.md:%d" % i
        got = QUOTE.search(line)
        if not got:
            tree.wrong(where, "the row quotes no check")
            continue
        rows += 1
        path, code = got.groups()
        if not os.path.isfile(os.path.join(tree.ROOT, path)):
            tree.wrong(where, "%s is no file" % path)
        elif flat(code) not in flat(tree.read(path)):
            tree.wrong(where, "%s has no: %s" % (path, code))
    if rows < ROWS_LEAST:
        tree.wrong("docs/trust.md", "has %d rows that quote a check" % rows)
    tree.verdict("trust")


main()
