#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/xlio/test_old_tables.py - programs compiled with the tables of three versions

    test_old_tables.py OLD_TABLE BUILD

Each loads the library by one of the names that libosf.so answers to.  Versions between
have the table of one of the three; what is no version is refused.
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
    for said, version in (("3.30", "3.50"), ("3.51", "3.50"), ("3.51.1", "3.50"),
                          ("3.60.4", "3.60"), ("3.61.2", "3.61"), ("3.70.2", "3.61"),
                          ("", "3.61")):
        got = subprocess.run([program, "libxlio.so", version], timeout=30,
                             env=dict(env, OSF_XLIO_ABI=said))
        if got.returncode:
            sys.exit("OSF_XLIO_ABI=%s is not %s" % (said, version))
    for said in ("3.5", "3.52", "3.71", "3.", "3.60x", "4.0", "new"):
        got = subprocess.run([program, "libxlio.so", "3.61"], timeout=30, text=True,
                             env=dict(env, OSF_XLIO_ABI=said), stderr=subprocess.PIPE)
        if not got.returncode or "3.61 to 3.70" not in got.stderr:
            sys.exit("OSF_XLIO_ABI=%s is not refused: %s" % (said, got.stderr))


main()
