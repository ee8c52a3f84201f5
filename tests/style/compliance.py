#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/style/compliance.py [--fix] - which test stands for which requirement of TCP

    docs/compliance/tcp.txt, comments that name an RFC -> docs/compliance/tcp.md

A requirement names sections, and tests.  Where a comment in src/ names such a section,
or a part of it, the file is listed; where one in or above a test does, so is the test.
What no test stands for is listed last.  Without --fix: whether the file is as it would
be written.
"""
import fnmatch
import os
import re
import sys

import tree

SOURCE, TARGET = "docs/compliance/tcp.txt", "docs/compliance/tcp.md"
CITED = re.compile(r"RFC (\d+)(?:,? section ([\d.]*\d))?")
TEST = re.compile(r"^static void (\w+)\(void \*\*state\)$", re.M)
SHOWN = 6  # tests of a requirement; of the others the number is said


def cited(text):
    """Return: the sections that a text names, as ("9293", "3.4") or ("9293", "")."""
    text = re.sub(r"\s*\n[ \t]*[*#]?[ \t]*", " ", text)
    return set(CITED.findall(text))


def is_part(section, of):
    """Whether naming @section stands for @of.  An RFC alone stands for itself alone."""
    if section[0] != of[0]:
        return False
    return not of[1] or section[1] == of[1] or section[1].startswith(of[1] + ".")


def requirements():
    found = []
    for block in re.split(r"\n\s*\n", tree.read(SOURCE)):
        lines = [line for line in block.split("\n") if line and line[0] != "#"]
        if not lines:
            continue
        level, words = lines[0].split(" ", 1)
        one = {"level": level, "words": words, "spec": [], "by": []}
        for line in lines[1:]:
            key, rest = line.strip().split(":", 1)
            one[key] = [part.strip() for part in rest.split(",")]
        found.append(one)
    return found


def c_tests(path):
    """Yield: a test's name, and what it says of RFCs, in it and in front of it."""
    text = tree.read(path)
    ends = [0]
    for match in TEST.finditer(text):
        end = text.find("\n}\n", match.end())
        yield match.group(1), cited(text[ends[-1]:end])
        ends.append(end)


def all_tests():
    """Return: name -> (file, sections)."""
    tests = {}
    for path in tree.files(".c", under=("tests/unit/", "tests/sim/")):
        for name, sections in c_tests(path):
            tests[name] = (path, sections)
    for path in tree.files(".pkt", under=("tests/script/",)):
        name = path[len("tests/script/"):-len(".pkt")]
        comments = "\n".join(line for line in tree.read(path).split("\n")
                             if line.startswith("#"))
        tests[name] = (path, cited(comments))
    return tests


def code_files():
    """Return: file -> sections."""
    return {path: cited(tree.read(path))
            for path in tree.files(".c", ".h", ".def",
                                   under=("src/tcp/", "src/ip/", "src/base/"))}


def named(one, tests):
    names = set()
    for pattern in one["by"]:
        got = fnmatch.filter(tests, pattern)
        if not got:
            tree.wrong(SOURCE, "no test is called %s" % pattern)
        names.update(got)
    return names


def spec_of(text):
    match = CITED.match(text)
    return match.group(1), match.group(2) or ""


def shown(names):
    names = sorted(names)
    more = len(names) - SHOWN
    return ", ".join("`%s`" % name for name in names[:SHOWN]) + \
        (", and %d more" % more if more > 0 else "")


def write():
    tests, code = all_tests(), code_files()
    out = ["# TCP: what is asked, where it is, who proves it", "",
           "Made by `tests/style/compliance.py --fix` of `tcp.txt` and of the comments "
           "in code and tests", "that name a section.  R is required, S should be, O may "
           "be.", "", "| | requirement | source | files | tests |", "|---|---|---|---|---|"]
    unclaimed = []
    for one in requirements():
        specs = [spec_of(text) for text in one["spec"]]
        files = sorted(path for path, sections in code.items()
                       if any(is_part(s, of) for s in sections for of in specs))
        names = named(one, tests)
        names |= {name for name, (_, sections) in tests.items()
                  if any(is_part(s, of) for s in sections for of in specs)}
        out.append("| %s | %s | %s | %s | %s |" % (
            one["level"], one["words"], ", ".join(one["spec"]).replace(" section", ""),
            ", ".join("`%s`" % path[4:] for path in files), shown(names)))
        if not names:
            unclaimed.append("- %s (%s)%s" % (one["words"], one["level"],
                                              ": no code names it either"
                                              if not files else ""))
    out += ["", "## What no test claims", ""] + (unclaimed or ["Nothing."])
    return "\n".join(out) + "\n"


def main():
    text = write()
    if "--fix" in sys.argv:
        with open(os.path.join(tree.ROOT, TARGET), "w") as out:
            out.write(text)
    elif tree.read(TARGET) != text:
        tree.wrong(TARGET, "not what tests/style/compliance.py --fix would write: run it")
    tree.verdict("compliance")


main()
