#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_calls.py - calls (calls.c) on the kernel and under osf: both must
print the same

    test_calls.py CALLS [CALLS-FORTIFIED ...] [--only PATTERN]

A difference that known_differences.txt has for that scenario in that variant is
expected: the run fails when it is not there any more, too.  Some of them are of time
(a call that does not wait), and a busy machine may hide one: so a difference is gone
only when it does not show alone either, TRIES times.

On the kernel (OSF_TEST_KERNEL=1) each variant runs twice and is compared with
itself, which shows that the scenarios themselves are steady.
"""
import concurrent.futures
import os
import subprocess
import sys

import harness

# What the file of known differences calls them, and what calls is told.
VARIANTS = {"client": [],
            "server": ["--role", "server"],
            "same": ["--same"],
            "same_server": ["--same", "--role", "server"],
            "ipv6": ["--family", "6"],
            "mapped_server": ["--family", "m", "--role", "server"],
            "eager": ["--no-warm"],
            "cold_server": ["--no-warm", "--role", "server"],
            "module": ["--same"],
            "module_server": ["--same", "--role", "server"],
            "routes": []}
EAGER = ["eager"]  # upgraded from the first byte on
# Variants in which connections have moved before a scenario begins.
WARM = ["client", "server", "same", "same_server", "ipv6", "mapped_server",
        "fortified"]
# A module moves the bytes: tests/app/module_loop.c, which has both ends in one process.
MODULE = ["module", "module_server"]
# All stays with the kernel, while a module wants to hear of changes of its routes: who
# waits sleeps on both (sock/idle.h).
ROUTES = ["routes"]
GROUPS = {"warm": WARM, "all": WARM + ["eager", "cold_server"] + MODULE + ROUTES,
          "modules": MODULE}
# At least this share of the ends of all connections is on the module at its end.  The
# others have fallen back (scenarios fork, or pass a connection), or lead to other processes.
MODULE_SHARE = 0.3
# Scenarios that a sanitizer's runtime ends, and why that is no finding.
NOT_WITH = {"address": {
    "poll_bad": "poll() is told of more entries than there are",
    "process_system": "dd asks for aligned memory in a way that libasan refuses"}}
# Scenarios that mean nothing with a module, or fail there, and why.
NOT_WITH_MODULE = {
    "process_unload": "who loads osf for itself alone gives modules no names to link to"}
# The time that scenarios take is spent asleep, so all variants run side by side.
SIDE_BY_SIDE = 24
PATIENCE_S = 400
TRIES = 3  # of a scenario whose known difference has not shown


# --- comparing ---

def by_scenario(text):
    parts = {}
    for line in text.split("\n"):
        if line.startswith("  "):
            parts[name] += "\n" + line
        elif line:
            name = line.split(":")[0]
            parts[name] = line
    return parts


def differences(expected, got):
    """Return: {scenario: what both printed} where that is not the same."""
    return {name: "kernel: %s\n   osf: %s" % (expected.get(name), got.get(name))
            for name in sorted(set(expected) | set(got))
            if expected.get(name) != got.get(name)}


def known_differences():
    """Return: the (scenario, variant) whose difference is documented."""
    path = os.path.join(harness.HERE, "known_differences.txt")
    known = set()
    with open(path) as f:
        for line in f:
            if not line.strip() or line.startswith("#"):
                continue
            words = line.split(None, 2)
            if len(words) < 3:
                harness.fail("%s: no reason: %s" % (path, line.strip()))
            for word in words[1].split(","):
                for variant in GROUPS.get(word, [word]):
                    if variant not in GROUPS["all"]:
                        harness.fail("%s: no variant %s" % (path, variant))
                    known.add((words[0], variant))
    return known


# --- running ---

class Case:
    """A program in a variant, on the kernel or under osf."""

    def __init__(self, program, variant, more):
        self.program = program
        self.variant = variant
        self.words = [program] + VARIANTS.get(variant, []) + more

    def only(self, name):
        return Case(self.program, self.variant, ["--only", name])

    def printed(self, run, osf):
        env = run.env(osf, osf and self.variant in EAGER)
        if osf and self.variant in MODULE:
            env["OSF_MODULES"] = os.path.join(os.path.dirname(self.program),
                                              "module_loop.so")
            env["OSF_STATS_DIR"] = stats_dir(run, self.variant)
        if osf and self.variant in ROUTES:
            env["OSF_MODULES"] = os.path.join(os.path.dirname(self.program),
                                              "module_dummy.so")
            env["DUMMY_REFUSE"] = "dummy"
            env["DUMMY_LOG"] = os.devnull
            env["OSF_RULES"] = "use os tcp_client *:*; use os tcp_server *:*"
        # A scenario may touch memory that is not there: the runtime is to let it die.
        if "ASAN_OPTIONS" in env:
            env["ASAN_OPTIONS"] += ":handle_segv=0"
        proc = subprocess.Popen(run.command(self.words, osf), cwd=run.tmp, env=env,
                                stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)
        try:
            text = proc.communicate(timeout=PATIENCE_S)[0]
        except subprocess.TimeoutExpired:
            proc.kill()
            text = proc.communicate()[0] + b"no end in %d s\n" % PATIENCE_S
        return by_scenario(text.decode("utf-8", "replace"))


def stats_dir(run, variant):
    path = os.path.join(run.stats, variant)
    os.makedirs(path, mode=0o777, exist_ok=True)
    os.chmod(path, 0o777)
    return path


def expect_on_module(run, variant, is_whole):
    """Connections that really ran on the module, out of those that were opened."""
    segments = harness.read_stats(stats_dir(run, variant))
    names = harness.reason_names()
    on = sum(s.reasons[names.index("MODULE")] for s in segments)
    total = harness.sum_stats(segments)
    ends = total["n_connected"] + total["n_accepted"]
    print("%s: %d of %d ends of connections ended on the module, %d fell back" %
          (variant, on, ends, total["n_fallbacks"]))
    run.need(on > 0, "%s: nothing ran on the module" % variant)
    if is_whole:
        run.need(on >= MODULE_SHARE * ends, "%s: too few ran on the module" %
                 variant)
    run.need(total["n_broken"] == 0, "%s: %d connections reset" %
             (variant, total["n_broken"]))


def run_all(run, cases):
    """Return: for each case what it printed, on the kernel and under osf."""
    with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        got = [(pool.submit(case.printed, run, False),
                pool.submit(case.printed, run, True)) for case in cases]
        return [(kernel.result(), osf.result()) for kernel, osf in got]


def shows_alone(run, case, name):
    """Does the difference in scenario @name of @case show when it runs alone?"""
    for _ in range(TRIES):
        if differences(*run_all(run, [case.only(name)])[0]):
            print("%s: %s: its known difference showed alone only" %
                  (case.variant, name))
            return True
    return False


def judge(run, case, kernel, osf, known, is_whole):
    """Return: what is not as it should be in @case, a text for each scenario."""
    differ = differences(kernel, osf)
    expected = {name for name, variant in known if variant == case.variant}
    new = sorted(set(differ) - expected)
    stale = sorted(name for name in expected - set(differ)
                   if name not in kernel and is_whole or
                   name in kernel and not shows_alone(run, case, name))
    print("%s: %d scenarios, %d differ as known_differences.txt says, "
          "%d otherwise, %d do not differ any more" %
          (case.variant, len(kernel), len(expected & set(differ)), len(new),
           len(stale)))
    return (["%s: %s" % (case.variant, differ[name]) for name in new] +
            ["known_differences.txt is out of date: %s in %s: %s" %
             (name, case.variant, "both print " + kernel[name]
              if name in kernel else "there is no such scenario") for name in stale])


def leave(names):
    """Return: the words that tell calls not to run @names."""
    return ["--not", "@(%s)" % "|".join(names)] if names else []


def main():
    harness.LIMIT_S = 1200
    run = harness.Run(__file__)
    args, only = sys.argv[1:], []
    if "--only" in args:
        args, only = args[:args.index("--only")], args[args.index("--only"):]
    is_whole = not only
    if not args:
        harness.skip("which calls program? see the top of this file")
    for name in run.sanitizer.names:
        for scenario, why in NOT_WITH.get(name, {}).items():
            print("not with the sanitizer %s: %s: %s" % (name, scenario, why))
    left_out = [scenario for name in run.sanitizer.names
                for scenario in NOT_WITH.get(name, {})]
    programs = [os.path.abspath(path) for path in args]
    cases = [Case(programs[0], variant, only + leave(
        left_out + list(NOT_WITH_MODULE if variant in MODULE + ROUTES else [])))
        for variant in VARIANTS]
    cases += [Case(program, "fortified", only + leave(left_out))
              for program in programs[1:]]
    known = set() if run.is_kernel else known_differences()
    if not programs[1:]:
        known = {(name, variant) for name, variant in known
                 if variant != "fortified"}
    bad = [text for case, printed in zip(cases, run_all(run, cases))
           for text in judge(run, case, *printed, known, is_whole)]
    run.need(not bad, "%d scenarios are not as they should be\n%s" %
             (len(bad), "\n".join(bad)))
    run.expect_no_relays()
    for variant in MODULE if not run.is_kernel else []:
        expect_on_module(run, variant, is_whole)
    # Not every connection is: some scenarios end before it is worth it.
    run.expect_offloaded(100 * (len(cases) - len(MODULE + ROUTES)) if is_whole else 0)
    run.done()


main()
