#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/style/exports.py - libosf.so exports the names in exports.txt, and no others

    exports.py LIBOSF          checks
    exports.py LIBOSF --fix    writes the list anew

A name too many would shadow some program's own; a name missing would let calls
pass us by.  Each is also looked up in the loaded library, and where libc has the
name too, the two must be different functions.
"""
import ctypes
import os
import subprocess
import sys

import tree

LIST = "tests/style/exports.txt"
HEAD = "# What libosf.so exports; tests/style/exports.py compares.\n"


def exported(lib):
    got = subprocess.run(["nm", "-D", "--defined-only", lib],
                         capture_output=True, text=True, check=True)
    return sorted(line.split()[-1].split("@")[0]
                  for line in got.stdout.split("\n") if line)


def address(lib, name):
    try:
        return ctypes.cast(getattr(lib, name), ctypes.c_void_p).value
    except AttributeError:
        return None


def main():
    path = os.path.abspath(sys.argv[1])
    have = exported(path)
    if "--fix" in sys.argv:
        with open(os.path.join(tree.ROOT, LIST), "w") as f:
            f.write(HEAD + "\n".join(have) + "\n")
        return
    want = [line for line in tree.read(LIST).split("\n")
            if line and not line.startswith("#")]
    for name in sorted(set(have) - set(want)):
        tree.wrong(name, "is exported and not in " + LIST)
    for name in sorted(set(want) - set(have)):
        tree.wrong(name, "is in %s and not exported" % LIST)
    if "asan" not in path and "tsan" not in path:
        os.environ["OSF_DISABLE"] = "1"
        ours, libc = ctypes.CDLL(path), ctypes.CDLL("libc.so.6")
        for name in want:
            at = address(ours, name)
            if not at:
                tree.wrong(name, "cannot be looked up")
            elif at == address(libc, name):
                tree.wrong(name, "leads to libc's own")
    tree.verdict("exports")


main()
