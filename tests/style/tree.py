# SPDX-License-Identifier: MIT
"""
tests/style/tree.py - what the style tests share: the tree's files, a verdict

The files are those that git knows or would take, so that leftovers of an editor
or a build are nobody's fault; without git, all that are there.
"""
import os
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
N_WRONG = 0


def listed():
    got = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached",
                          "--others", "--exclude-standard"],
                         capture_output=True, text=True)
    if got.returncode == 0 and got.stdout:
        return sorted(set(got.stdout.split("\0")[:-1]))
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders
                      if name not in (".git", "__pycache__") and
                      not name.startswith("build")]
        found += [os.path.relpath(os.path.join(folder, name), ROOT)
                  for name in names]
    return sorted(found)


def files(*ends, under=("",)):
    """Paths from the root of the tree, of files that end in one of @ends."""
    return [path for path in listed()
            if path.endswith(ends or ("",)) and path.startswith(tuple(under))
            and os.path.isfile(os.path.join(ROOT, path))]


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def wrong(where, what):
    global N_WRONG
    N_WRONG += 1
    print("%s: %s" % (where, what))


def skip(why):
    print("skip:", why)
    sys.exit(77)


def verdict(what):
    print("%s: %d wrong" % (what, N_WRONG))
    sys.exit(1 if N_WRONG else 0)
