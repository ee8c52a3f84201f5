#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/style/words.py - what must not stand in the tree

Paths of somebody's machine, notes to oneself, keys, white space at the ends of
lines; and every source file names its licence in one line.
"""
import re

import tree

WORDS = [
    # The words themselves are put together here, or this file would be found.
    (r"\b(TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b", "a note to oneself"),
    (r"\bfor n" r"ow\b", "a promise without a date"),
    (r"(?<![\w.])/(wo" r"rk|ro" r"ot|ho" r"me)/", "a path of one machine"),
    (r"-----BEGIN [A-Z ]*PRIVATE" r" KEY", "a private key"),
    (r"[ \t]+$", "white space at the end of a line"),
]
BINARY = (".png", ".osf")
NO_LICENCE_LINE = (".def",)
ANY_TEXT = ("tests/fuzz/corpus/",)


def main():
    for path in tree.files():
        if path.endswith(BINARY) or path.startswith(ANY_TEXT):
            continue
        try:
            text = tree.read(path)
        except UnicodeDecodeError:
            tree.wrong(path, "is not text")
            continue
        for i, line in enumerate(text.split("\n"), 1):
            for pattern, what in WORDS:
                if re.search(pattern, line):
                    tree.wrong("%s:%d" % (path, i), what)
        if path.endswith((".c", ".h", ".py", ".sh")) and \
                "SPDX-License-Identifier: MIT" not in text[:200]:
            tree.wrong(path, "no licence line")
        if text and not text.endswith("\n"):
            tree.wrong(path, "no newline at the end")
    tree.verdict("words")


main()
