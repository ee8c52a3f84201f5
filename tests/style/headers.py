#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/style/headers.py - every header compiles alone; installed ones for anybody

Headers of src/ compile as the tree is compiled; those of include/osf/ and
include/mellanox/ also as C11
and C++17, pedantically, because programs of others include them.
"""
import os
import shutil
import subprocess

import tree

FLAGS = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror",
         "-I" + os.path.join(tree.ROOT, "include")]
OURS = ["-std=gnu17", "-D_GNU_SOURCE", "-Wno-unused-parameter",
        "-Wno-unused-function", "-I" + os.path.join(tree.ROOT, "src")]


def compiler(*names):
    for name in names:
        if name and shutil.which(name.split()[0]):
            return name.split()
    return None


def check(path, command, how):
    name = path.split("/", 1)[1]
    got = subprocess.run(command + FLAGS + ["-"], input='#include "%s"\n' % name,
                         capture_output=True, text=True)
    if got.returncode:
        tree.wrong(path, "does not compile alone as %s:\n%s" %
                   (how, got.stderr.strip()))


def main():
    cc = compiler(os.environ.get("CC"), "cc", "gcc", "clang")
    cxx = compiler(os.environ.get("CXX"), "c++", "g++", "clang++")
    if not cc:
        tree.skip("no C compiler")
    for path in tree.files(".h", under=["src/", "include/"]):
        check(path, cc + OURS + ["-x", "c"], "gnu17")
    for path in tree.files(".h", under=["include/osf/", "include/mellanox/"]):
        check(path, cc + ["-std=c11", "-pedantic", "-x", "c"], "C11")
        if cxx:
            check(path, cxx + ["-std=c++17", "-pedantic", "-x", "c++"],
                  "C++17")
    tree.verdict("headers")


main()
