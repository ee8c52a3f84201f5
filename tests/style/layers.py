#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/style/layers.py - includes point one way, as src/LAYERS says

A folder of src/ includes its own headers, those of the folders that its line in
src/LAYERS names, include/ and the system's; and only folders above it in the file
may be named, so that the list stays an order.  A line may name a folder in a folder.
Each folder that has a line exists, and each folder with a source file has a line.

A line "order FOLDER: ..." gives the files of a folder an order in the same way: a file
includes headers of its own folder only as far as they stand to its left, or are its own.
Every file of the folder has a place.
"""
import os
import re

import tree


def layers():
    allowed = {}
    for line in tree.read("src/LAYERS").split("\n"):
        line = line.split("#")[0].strip()
        if not line or line.startswith("order "):
            continue
        name, uses = line.split(":")
        allowed[name] = uses.split()
        if not os.path.isdir(os.path.join(tree.ROOT, "src", name)):
            tree.wrong("src/LAYERS", "there is no folder src/%s" % name)
        for use in uses.split():
            if use not in allowed or use == name:
                tree.wrong("src/LAYERS", "%s may not include %s, which does "
                           "not stand above it" % (name, use))
    return allowed


def orders():
    """Return: of each folder that has an order, the places of its files."""
    order = {}
    for line in tree.read("src/LAYERS").split("\n"):
        found = re.match(r"order (\S+):(.*)", line)
        if found:
            order.setdefault(found.group(1), []).extend(found.group(2).split())
    return order


def place(name, order):
    """Return: where file @name stands in @order, or None."""
    for wanted in (name, name.rsplit(".", 1)[0]):
        if wanted in order:
            return order.index(wanted)
    return None


def in_order(where, path, header, order):
    mine, other = place(os.path.basename(path), order), \
        place(os.path.basename(header), order)
    if mine is not None and other is not None and other > mine:
        tree.wrong(where, "%s stands above it" % header)


def folder_of(path, allowed):
    """Return: the longest folder of @path, from src/, that has a line, or None."""
    folder = os.path.dirname(path)
    while folder and folder not in allowed:
        folder = os.path.dirname(folder)
    return folder or None


def main():
    allowed, order = layers(), orders()
    for path in tree.files(".c", ".h", ".def", under=["src/"]):
        folder = folder_of(path[len("src/"):], allowed)
        if not folder:
            tree.wrong(path, "no line for its folder in src/LAYERS")
            continue
        files = order.get(folder)
        if files and place(os.path.basename(path), files) is None:
            tree.wrong(path, "has no place in the order of its folder")
        for i, line in enumerate(tree.read(path).split("\n"), 1):
            found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not found:
                continue
            header = found.group(1)
            target = folder_of(header, allowed)
            where = "%s:%d" % (path, i)
            if os.path.isfile(os.path.join(tree.ROOT, "include", header)):
                continue
            if not os.path.isfile(os.path.join(tree.ROOT, "src", header)):
                tree.wrong(where, '"%s" is not a path from src/' % header)
            elif target != folder and target not in allowed[folder]:
                tree.wrong(where, "%s may not include %s" % (folder, header))
            elif target == folder and files:
                in_order(where, path, header, files)
    tree.verdict("layers")


main()
