#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/vma/test_headers.py - include/mellanox/vma_extra.h as programs see it

Layouts and values (abi.c), compiled as C11 and as C++17 with all warnings being errors.
"""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FLAGS = ["-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-fsyntax-only",
         "-I" + os.path.join(HERE, "..", "..", "include"),
         os.path.join(HERE, "abi.c")]


def main():
    n = n_wrong = 0
    for name, args in (("cc", ["-x", "c", "-std=c11"]),
                       ("clang", ["-x", "c", "-std=c11"]),
                       ("c++", ["-x", "c++", "-std=c++17"]),
                       ("clang++", ["-x", "c++", "-std=c++17"])):
        if not shutil.which(name):
            continue
        got = subprocess.run([name] + args + FLAGS, capture_output=True, text=True)
        n += 1
        if got.returncode:
            n_wrong += 1
            print(name, got.stderr, sep="\n")
    print("headers: %d compiled, %d wrong" % (n, n_wrong))
    sys.exit(1 if n_wrong else 0 if n else 77)


main()
