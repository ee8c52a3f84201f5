#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/abi/run.py - programs, libraries and drivers of different ages, put together

    run.py BUILD [PART ...]        parts: rows, layout, proofs, faults, loading,
                                   real, verbs, guide

rows is the table of program, header and library (rows.py), layout the offsets of each
generation (layout.py), proofs shows that the checks are what makes the table hold
(proofs.py), faults runs the driver that fails on purpose, loading tries OSF_DRIVERS, real
is the same table over infiniband/verbs.h (real.py), verbs runs the driver over libibverbs
(verbs.py), guide holds docs/extending.md against the tree.  Without a part: all, as
`make abi` does.
"""
import sys

import guide
import layout
import loading
import parts as parts_of
import proofs
import real
import rows
import verbs

PAIRS = [(0, 1, "Old: before the scheme.  New: the scheme, generation 1"),
         (1, 2, "Old: generation 1.  New: generation 2, which adds time stamps"),
         (0, 2, "Old: before the scheme.  New: generation 2"),
         (1, "osf", "The same as the second, and libosf.so itself is the new library")]


def show_rows(parts):
    return sum(rows.show(parts, old, new, name) for old, new, name in PAIRS)


def show_faults(parts):
    n_wrong = 0
    print("\nThe second driver, osf-faults, with nothing to fail, under programs of each age")
    for app in parts_of.GENERATIONS:
        try:
            program = parts.program(app, app, parts_of.NEWEST)
            said = rows.run(parts, program, app, parts_of.NEWEST, "faults")
        except parts_of.Failed as failure:
            n_wrong += 1
            said = "WRONG: %s" % failure
        print("%-9s%s" % ("gen %d" % app, said))
    return n_wrong + proofs.show_faults(parts)


PARTS = {"rows": show_rows, "layout": layout.show, "proofs": proofs.show,
         "faults": show_faults,
         "loading": loading.show, "real": real.show, "verbs": verbs.show,
         "guide": guide.show}


def main():
    build, *names = sys.argv[1:]
    n_wrong, skipped = 0, []
    names = names or list(PARTS)
    for name in names:
        try:
            n_wrong += PARTS[name](parts_of.Parts(build))
        except parts_of.Missing as missing:
            skipped.append(name)
            print("skip: %s" % missing)
    print("\nabi: %d wrong" % n_wrong)
    sys.exit(1 if n_wrong else 77 if skipped == names else 0)


main()
