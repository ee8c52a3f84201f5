# SPDX-License-Identifier: MIT
"""
tests/abi/guide.py - docs/extending.md quotes code that is there, and lists the table

Each block of C begins with the name of its file, and stands in that file.
"""
import os
import re

from parts import ROOT, Failed, need
from rows import TABLE

GUIDE = os.path.join("docs", "extending.md")
QUOTES_LEAST = 10


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def flat(text):
    return re.sub(r"\s+", " ", text).strip()


def check():
    text = read(GUIDE)
    quotes = re.findall(r"```c\n/\* (\S+) \*/\n(.*?)```", text, re.S)
    need(len(quotes) == text.count("```c\n") >= QUOTES_LEAST,
         "%d quotes that name their file" % len(quotes))
    for path, code in quotes:
        need(flat(code) in flat(read(path)), "%s has no: %s" % (path, code))
    for row in TABLE:
        need(" ".join(row) in flat(text), "no row %s" % " ".join(row))
    return "%d quotes" % len(quotes)


def show(parts):
    try:
        print("\n%s: %s" % (GUIDE, check()))
    except Failed as failure:
        print("\nWRONG: %s: %s" % (GUIDE, failure))
        return 1
    return 0
