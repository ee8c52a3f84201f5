#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/vm/compare.py - compares what a device does with what soft-RoCE does

    compare.py [--keep FILE] GOLDEN PROGRAM DEVICE [COMMAND...]

Runs golden.c's PROGRAM (by COMMAND, such as `osf run --`) and compares each line with that
of GOLDEN; FILE gets what it says.  Lines in which osf0 differs on purpose are in differences.txt beside it, below
their reason; one that does not differ any more must go from there.
"""
import os
import subprocess
import sys


def lines_of(text):
    """Return: the outcome of each situation."""
    return dict(line.split(": ", 1) if ": " in line else (line.rstrip(":"), "") for line in text.splitlines()
                if line and line[0] != "#")


def read(path):
    with open(path) as f:
        return lines_of(f.read())


def main():
    args = sys.argv[1:]
    keep = args[1] if args[0] == "--keep" else None
    golden, program, device, *command = args[2 if keep else 0:]
    wanted = read(golden)
    listed = read(os.path.join(os.path.dirname(golden), "differences.txt")) if device == "osf0" else {}
    run = subprocess.run(command + [program, device], capture_output=True, text=True, timeout=600, check=False)
    if keep:
        with open(keep, "w") as f:
            f.write(run.stdout)
    got = lines_of(run.stdout)
    wrong = []
    for situation in list(wanted) + [s for s in got if s not in wanted]:
        want, have = wanted.get(situation, "nothing"), got.get(situation, "nothing")
        if listed.get(situation, want) != have:
            wrong.append("%s: %s\n    here: %s%s" % (situation, want, have, "\n    listed: " + listed[situation]
                                                     if situation in listed else ""))
        elif situation in listed and want == have:
            wrong.append("%s: listed as a difference, but is none" % situation)
    wrong += ["%s: listed, but no situation" % s for s in listed if s not in wanted]
    if run.returncode:
        wrong.append("status %d %s" % (run.returncode, run.stderr))
    print("\n".join(wrong + ["%d situations, %d listed differences, %d wrong" % (len(got), len(listed), len(wrong))]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
