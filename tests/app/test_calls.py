#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_calls.py - calls (calls.c) on the kernel and under osf: both must
print the same

    test_calls.py CALLS [CALLS-FORTIFIED ...] [--only PATTERN]

On the kernel (OSF_TEST_KERNEL=1) each variant runs twice and is compared with
itself, which shows that the scenarios themselves are steady.
"""
import os
import subprocess
import sys

import harness

VARIANTS = [[], ["--role", "server"], ["--same"],
            ["--same", "--role", "server"], ["--family", "6"],
            ["--family", "m", "--role", "server"], ["--no-warm"],
            ["--no-warm", "--role", "server"]]
EAGER = [["--no-warm"]]  # upgraded from the first byte on
# The time that scenarios take is spent asleep, so variants run side by side.
SIDE_BY_SIDE = 4
PATIENCE_S = 400


def differences(expected, got):
    """Lines of either that are not in the other, by scenario."""
    def split(text):
        parts = {}
        for line in text.split("\n"):
            if line.startswith("  "):
                parts[name] += "\n" + line
            elif line:
                name = line.split(":")[0]
                parts[name] = line
        return parts
    a, b = split(expected), split(got)
    return ["kernel: %s\n   osf: %s" % (a.get(name), b.get(name))
            for name in sorted(set(a) | set(b)) if a.get(name) != b.get(name)]


def known_differences():
    """Names of scenarios whose difference is documented."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                        "known_differences.txt")
    with open(path) as f:
        return {line.split()[0] for line in f
                if line.strip() and not line.startswith("#")}


def start(run, program, variant, osf, eager):
    return subprocess.Popen(run.command([program] + variant, osf),
                            env=run.env(osf, eager), cwd=run.tmp,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def outputs(run, jobs):
    """Runs all jobs, some at a time.  Return: what each printed."""
    printed = []
    for first in range(0, len(jobs), SIDE_BY_SIDE):
        procs = [start(run, *job) for job in jobs[first:first + SIDE_BY_SIDE]]
        for proc in procs:
            try:
                text = proc.communicate(timeout=PATIENCE_S)[0]
            except subprocess.TimeoutExpired:
                proc.kill()
                text = proc.communicate()[0] + \
                    b"no end in %d s\n" % PATIENCE_S
            printed.append(text.decode("utf-8", "replace"))
    return printed


def main():
    harness.LIMIT_S = 1200
    run = harness.Run(__file__)
    args, only = sys.argv[1:], []
    if "--only" in args:
        args, only = args[:args.index("--only")], args[args.index("--only"):]
    if not args:
        harness.skip("which calls program? see the top of this file")
    programs = [os.path.abspath(path) for path in args]
    cases = [(programs[0], variant) for variant in VARIANTS]
    cases += [(program, []) for program in programs[1:]]
    jobs = [(program, variant + only, False, False)
            for program, variant in cases]
    jobs += [(program, variant + only, True, variant in EAGER)
             for program, variant in cases]
    printed = outputs(run, jobs)
    n_bad = 0
    documented = set() if run.is_kernel else known_differences()
    for i, (program, variant) in enumerate(cases):
        diff = differences(printed[i], printed[i + len(cases)])
        known = [d for d in diff if d.split()[1].rstrip(":") in documented]
        diff = [d for d in diff if d not in known]
        if known:
            print("documented in known_differences.txt: %s" %
                  " ".join(d.split()[1] for d in known))
        print("%s %s: %d lines, %d scenarios differ" %
              (os.path.basename(program), " ".join(variant),
               printed[i].count("\n"), len(diff)))
        if diff:
            print("\n".join(diff))
        n_bad += len(diff)
    run.need(n_bad == 0, "%d scenarios differ" % n_bad)
    # Not every connection is: some scenarios end before it is worth it.
    run.expect_offloaded(0 if only else 100 * len(cases))
    run.done()


main()
