#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/style/missing.py - what is missing is said: no test vanishes from Meson's list

    missing.py BUILD

Meson sets the tree up once more where it finds no clang, cmocka, cJSON, libmnl, libbpf,
libibverbs and so on.  Each test of BUILD must be there, and those that need these things
must be skips with a reason (tests/skip.sh).
"""
import json
import os
import subprocess
import sys
import tempfile

import tree

# What the build cannot do without; all else is hidden.
NEEDED = ("ar", "as", "cc", "gcc", "gcc-ar", "ld", "ninja", "python3", "sh", "env", "git",
          "nm", "ranlib", "strip", "uname", "c++", "g++", "objcopy", "ld.bfd", "meson")


def where(name):
    return next((os.path.join(folder, name) for folder in
                 os.environ["PATH"].split(":") + ["/usr/bin", "/bin"]
                 if os.access(os.path.join(folder, name), os.X_OK)), None)


def introspect(build):
    got = subprocess.run(["meson", "introspect", "--tests", build], check=True,
                         capture_output=True, text=True)
    return json.loads(got.stdout)


def bare_setup(folder):
    """Return: the tests of a build folder made where nothing optional is found."""
    path, build = os.path.join(folder, "bin"), os.path.join(folder, "build")
    os.mkdir(path)
    for name in NEEDED:
        if where(name):
            os.symlink(where(name), os.path.join(path, name))
    got = subprocess.run([where("meson"), "setup", build, tree.ROOT],
                         env={"PATH": path, "HOME": folder, "LC_ALL": "C.UTF-8"},
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if got.returncode:
        tree.wrong("meson setup", "fails where nothing optional is there:\n" +
                   got.stdout[-2000:])
        tree.verdict("missing")
    return introspect(build)


def main():
    whole = {test["name"] for test in introspect(sys.argv[1])}
    with tempfile.TemporaryDirectory() as folder:
        bare = bare_setup(folder)
    skips = [test for test in bare if test["cmd"][0].endswith("skip.sh")]
    for name in sorted(whole - {test["name"] for test in bare}):
        tree.wrong(name, "vanishes from Meson's list where something is missing")
    for test in skips:
        if len(test["cmd"]) < 2 or not test["cmd"][1]:
            tree.wrong(test["name"], "is skipped without a reason")
    if not skips:
        tree.wrong("meson setup", "has found all; this tests nothing")
    print("%d tests, %d of them skipped with a reason" % (len(bare), len(skips)))
    tree.verdict("missing")


main()
