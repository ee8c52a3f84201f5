#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/xlio/test_headers.py - include/mellanox as programs see it

Layouts (abi.c), and a program by each set of names (names.c), compiled as C11 and as
C++17 with all warnings being errors.
"""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FLAGS = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-D_GNU_SOURCE", "-fsyntax-only",
         "-I" + os.path.join(HERE, "..", "..", "include")]


def compilers():
    for name, args in (("cc", ["-x", "c", "-std=c11"]),
                       ("clang", ["-x", "c", "-std=c11"]),
                       ("c++", ["-x", "c++", "-std=c++17"]),
                       ("clang++", ["-x", "c++", "-std=c++17"])):
        if shutil.which(name):
            yield [name] + args


def main():
    n_wrong = n = 0
    for command in compilers():
        for source, more in (("abi.c", []), ("names.c", []),
                             ("names.c", ["-DDOCUMENTS"])):
            got = subprocess.run(command + FLAGS + more +
                                 [os.path.join(HERE, source)],
                                 capture_output=True, text=True)
            n += 1
            if got.returncode:
                n_wrong += 1
                print(" ".join(command + more), source, got.stderr, sep="\n")
    print("headers: %d compiled, %d wrong" % (n, n_wrong))
    sys.exit(1 if n_wrong else 0 if n else 77)


main()
