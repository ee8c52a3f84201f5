#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/suites/run.py - all suites whole, and a table of how they went

    run.py [--quick] [NAME ...]      or: make suites [NAMES="redis nginx"]

What each suite prints is in OSF_BUILD/suites/logs/NAME/suite.log, and shown when it
fails.  Exit 1: a suite has differences.
"""
import glob
import os
import re
import subprocess
import sys
import time

import suites

LIMIT_S = 3600  # of one suite


def names():
    """Of all suites, from the names of their files."""
    paths = glob.glob(os.path.join(suites.HERE, "suite_*.py"))
    return sorted(os.path.basename(path)[6:-3] for path in paths)


def run(name, options):
    """Return: exit status, output, seconds."""
    began = time.monotonic()
    cmd = [sys.executable, os.path.join(suites.HERE, "suite_%s.py" % name)]
    popen = subprocess.Popen(cmd + options, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
    try:
        text = popen.communicate(timeout=LIMIT_S)[0]
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as e:
        popen.terminate()
        text = popen.communicate()[0] + b"run: %s\n" % type(e).__name__.encode()
    text = text.decode("utf-8", "replace")
    log_dir = os.path.join(suites.KEPT, "logs", name)
    os.makedirs(log_dir, exist_ok=True)
    with open(os.path.join(log_dir, "suite.log"), "w") as f:
        f.write(text)
    return popen.returncode, text, time.monotonic() - began


def row(name, status, text, seconds):
    """A line of the table."""
    found = re.search(r"(\d+) of (\d+) that pass on the kernel, (\d+) conn",
                      text)
    passed, of, moved = found.groups() if found else ("-", "-", "-")
    words = {0: "ok", 77: "skipped"}
    return "%-12s %7s %7s %9s %7.0f  %s" % (name, of, passed, moved, seconds,
                                           words.get(status, "FAILED"))


def main():
    options = [word for word in sys.argv[1:] if word.startswith("-")]
    wanted = [word for word in sys.argv[1:] if word not in options] or names()
    rows, n_bad = [], 0
    for name in wanted:
        status, text, seconds = run(name, options)
        lines = [line for line in text.strip().split("\n")
                 if line.startswith((name + ":", "skip:", "FAIL:"))]
        suites.say(text if status not in (0, 77) else
                   "\n".join(lines or ["%s: says nothing" % name]))
        rows.append(row(name, status, text, seconds))
        n_bad += status not in (0, 77)
    suites.say("\n%-12s %7s %7s %9s %7s" %
               ("suite", "kernel", "osf", "offloaded", "s"))
    suites.say("\n".join(rows))
    sys.exit(1 if n_bad else 0)


main()
