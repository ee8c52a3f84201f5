#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/xlio/test_old_tables.py - programs compiled with the tables of three versions

    test_old_tables.py OLD_TABLE BUILD

Each loads the library by one of the names that libosf.so answers to.
"""
import os
import subprocess
import sys


def main():
    program, build = sys.argv[1:3]
    names = os.path.join(build, "src", "xlio")
    env = dict(os.environ, LD_LIBRARY_PATH=names)
    env.pop("LD_PRELOAD", None)
    for version in ("3.50", "3.60", "3.61"):
        for name in ("libxlio.so", "libxlio.so.3",
                     os.path.join(names, "libxlio.so.3")):
            got = subprocess.run([program, name, version], timeout=30,
                                 env=dict(env, OSF_XLIO_ABI=version))
            if got.returncode:
                sys.exit(1)


main()
