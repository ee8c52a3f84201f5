#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/run.py - runs attacks: what a stranger, a peer or a child can do to a program

    run.py --list                  the names of the tests, one a line
    run.py --complete NAME ...     fails if a test is missing from the list
    run.py NAME                    runs tests/trust/test_NAME.py

Each file tests/trust/test_NAME.py is one test.  Meson asks for the list when it is
configured, so a new file needs no line in meson.build, but `meson setup --reconfigure
BUILD`; the test `trust_complete` fails until then.  The attackers are other users, so a
test runs as root, and is skipped otherwise.
"""
import glob
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def names():
    return sorted(re.fullmatch(r"test_(\w+)\.py", os.path.basename(path))[1]
                  for path in glob.glob(os.path.join(HERE, "test_*.py")))


def check_complete(known):
    missing = sorted(set(names()) ^ set(known))
    if missing:
        print("not in step with the build folder (meson setup --reconfigure): %s" %
              " ".join(missing))
    sys.exit(1 if missing else 0)


def run(name):
    if os.geteuid() != 0:
        print("skip: needs root, who can become another user")
        sys.exit(77)
    path = os.path.join(HERE, "test_%s.py" % name)
    env = dict(os.environ)
    env["PYTHONPATH"] = os.pathsep.join([HERE, os.path.join(HERE, "..", "app")])
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    os.execve(sys.executable, [sys.executable, path] + sys.argv[2:], env)


if sys.argv[1:] == ["--list"]:
    print("\n".join(names()))
elif sys.argv[1:2] == ["--complete"]:
    check_complete(sys.argv[2:])
else:
    run(sys.argv[1])
