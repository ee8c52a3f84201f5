#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/style/order.py - each name in src/order.ld is a function's, and lies where it should

    order.py LIBOSF

The linker passes over a name that no function has any more, or has with other attributes,
in silence.  Compilers inline as they like: a function that the library lacks is right as long
as the sources have it.  Without optimization, as for the sanitizers, all sections have plain names.
"""
import os
import re
import subprocess
import sys

import tree

LIST = "src/order.ld"


def names():
    return re.findall(r"\.text\.(?:hot\.|unlikely\.)?(\w+)", tree.read(LIST).split("SECTIONS")[1])


def sources():
    for folder, _, files in os.walk(os.path.join(tree.ROOT, "src")):
        for name in files:
            if name.endswith((".c", ".h", ".def")):
                with open(os.path.join(folder, name)) as f:
                    yield f.read()


def first_section(lib):
    """Return: the addresses of what order.ld has put first; empty if the linker could not."""
    got = subprocess.run(["readelf", "-SW", lib], capture_output=True, text=True, check=True)
    found = re.search(r" \.text\.first +PROGBITS +([0-9a-f]+) +[0-9a-f]+ +([0-9a-f]+)", got.stdout)
    if not found:
        return range(0)
    at, size = (int(word, 16) for word in found.groups())
    return range(at, at + size)


def addresses(lib):
    """Return: function -> where its instances are, those of inlined parts not among them."""
    got = subprocess.run(["nm", "--defined-only", lib], capture_output=True, text=True, check=True)
    found = {}
    for at, kind, name in re.findall(r"^([0-9a-f]+) (\w) (\S+)$", got.stdout, re.M):
        if kind in "tT" and ".cold" not in name:
            found.setdefault(name.split(".")[0], []).append(int(at, 16))
    return found


def main():
    lib = os.path.abspath(sys.argv[1])
    text, found = "\n".join(sources()), addresses(lib)
    is_plain = "asan" in lib or "tsan" in lib
    first = range(0) if is_plain else first_section(lib)
    all_names = [name for name in names() if name != "first"]
    for name in all_names:
        if name not in found and not re.search(r"\b%s\(" % name, text):
            tree.wrong(name, "is in %s and no function" % LIST)
        elif first and name in found and not any(at in first for at in found[name]):
            tree.wrong(name, "is in %s, but its section has another name" % LIST)
    if len(set(all_names)) < 100:
        tree.wrong(LIST, "has hardly any names")
    tree.verdict("order")


main()
