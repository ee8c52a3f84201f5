# SPDX-License-Identifier: MIT
"""
tests/suites/suites.py - test suites of other projects, on the kernel and under osf

    import suites

    class Libuv(suites.Suite):
        name = "libuv"
        gates = {"quick": 20, "full": 60}
        def prepare(self): ...              get it, build it, skip("why")
        def tests(self): ...                what to run; self.is_quick
        def run(self, place, tests): ...    -> {test: "ok" | "skip" | "fail" ...}

    suites.main(Libuv)

A suite runs twice, each end of every connection in the same place: on the bare
kernel, and with libosf.so preloaded, where connections move to shared memory from
their first byte.  What passes on the kernel must pass under osf.  What does not is
repeated alone, in both places in turns, which tells a difference from a test that
is unsteady.  And so that nothing passes because nothing was offloaded, the number
of connections that moved must reach the suite's gate.

Usage of each suite:
    suite_NAME.py [--quick] [--list] [TEST ...]
Exit: 0, 77 when something needed cannot be had, 1 when there are differences.

Environment:
    OSF_BUILD           folder with libosf.so (default ./build); sources, builds and
                        logs of suites are kept in OSF_BUILD/suites
    OSF_UPGRADE_TURNS   as in osf(1); 0 when it is not set

known/NAME.txt lists differences that are known: test, two spaces, reason.
"""
import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time

from place import (BUILD, HERE, TAIL_LINES, Place, adopt_orphans,  # noqa: F401
                   end_children, harness, say)
from sources import (KEPT, build_step, built, need_program,  # noqa: F401
                     output, skip, source)

N_RERUNS = 3
WIRE = os.environ.get("OSF_SUITES_WIRE", "")  # "tcp": see over_tcp.py
GATE_PERCENT = int(os.environ.get("OSF_SUITES_GATE", "100"))
MAX_RERUN = 40  # tests; when more differ than that, it is not for being unsteady


class Suite:
    """See the top of this file."""
    name = ""
    gates = {"quick": 1, "full": 1}  # connections offloaded, at least

    def __init__(self, is_quick):
        self.is_quick = is_quick

    def prepare(self):
        pass

    def tests(self):
        """Return: the tests, or groups of tests, to run."""
        raise NotImplementedError

    def run(self, place, tests):
        """Return: {test: "ok", "skip" or why not}, of each single test."""
        raise NotImplementedError

    def run_one(self, place, test):
        """One test alone, a key of what run() returned."""
        place.fresh()
        return self.run(place, [test]).get(test, "missing")


def read_known(name):
    """Return: {test: reason}."""
    names, known = [name], {}
    if WIRE:
        names.append(name + "-" + WIRE)
    for name in names:
        path = os.path.join(HERE, "known", name + ".txt")
        if not os.path.exists(path):
            continue
        with open(path) as f:
            lines = [line.strip() for line in f
                     if line.strip() and not line.startswith("#")]
        known.update(line.split("  ", 1) for line in lines)
    return known


def run_whole(suite, place, tests):
    began = time.monotonic()
    results = suite.run(place, tests)
    n = {"ok": 0, "skip": 0}
    for result in results.values():
        word = result if result in n else "fail"
        n[word] = n.get(word, 0) + 1
    say("%s on %s: %d pass, %d fail, %d are skipped, %.0f s" %
        (suite.name, place.name, n["ok"], n.get("fail", 0), n["skip"],
         time.monotonic() - began))
    return results


def text_of(place, at):
    """The log of @place from @at on, its end."""
    with open(place.log, "rb") as f:
        f.seek(at)
        text = f.read().decode("utf-8", "replace")
    return "\n".join(text.rstrip().split("\n")[-TAIL_LINES:])


def repeat(suite, test, kernel, osf):
    """Runs a test alone in both places in turns.

    Return: "kernel" when it is unsteady there, "osf" when it passes under osf
    more often than not, "differs"; and the output of a failure under osf."""
    n_failed = n_passed = 0
    shown = ""
    for _ in range(N_RERUNS):
        if suite.run_one(kernel, test) != "ok":
            return "kernel", ""
        at = os.path.getsize(osf.log)
        if suite.run_one(osf, test) == "ok":
            n_passed += 1
        else:
            n_failed += 1
            shown = text_of(osf, at)
        if 2 * max(n_failed, n_passed) > N_RERUNS:
            break
    return ("differs" if n_failed > n_passed else "osf"), shown


def sort_out(suite, differing, results, kernel, osf):
    """Says of each test that differs whether it is known, unsteady or a
    difference.  Return: the differences."""
    known = read_known(suite.name)
    bad = []
    for i, test in enumerate(differing):
        result = results.get(test, "missing")
        if test in known:
            say("known difference: %s (%s): %s" % (test, result, known[test]))
            continue
        if i >= MAX_RERUN:
            verdict, shown = "differs", ""
        else:
            verdict, shown = repeat(suite, test, kernel, osf)
        if verdict == "kernel":
            say("unsteady on the kernel: %s" % test)
        elif verdict == "osf":
            say("unsteady under osf: %s (%s)" % (test, result))
        else:
            say("DIFFERS: %s (%s)" % (test, result))
            say("\n".join("    " + line for line in shown.split("\n")))
            bad.append(test)
    return bad


def compare(suite, tests, root, log_dir):
    """Return: what went wrong, as texts, none when all is well."""
    began = time.monotonic()
    kernel = Place(root, log_dir, False)
    osf = Place(root, log_dir, True)
    expected = run_whole(suite, kernel, tests)
    got = run_whole(suite, osf, tests)
    total, n_offloaded = dict(osf.total), osf.n_offloaded()
    save(log_dir, expected, got, osf)
    passing = [test for test in expected if expected[test] == "ok"]
    differing = [test for test in passing if got.get(test) != "ok"]
    bad = sort_out(suite, differing, got, kernel, osf)
    wrong = ["%d tests differ" % len(bad)] if bad else []
    if not passing:
        wrong.append("nothing passes on the kernel")
    if total["n_broken"]:
        wrong.append("%d segments broken" % total["n_broken"])
    if n_offloaded < suite.gate:
        wrong.append("%d connections offloaded, %d expected" %
                     (n_offloaded, suite.gate))
    say("%s: %d of %d that pass on the kernel, %d connections offloaded, "
        "%.0f s" % (suite.name, len(passing) - len(differing), len(passing),
                    n_offloaded, time.monotonic() - began))
    return wrong


def save(log_dir, expected, got, osf):
    """What a later look at a run wants to know."""
    with open(os.path.join(log_dir, "results.json"), "w") as f:
        json.dump({"kernel": expected, "osf": got, "totals": osf.total,
                   "reasons": osf.reasons,
                   "upgraded_by_program": osf.by_program}, f, indent=1)


def arguments():
    parser = argparse.ArgumentParser(add_help=True)
    parser.add_argument("--quick", action="store_true",
                        help="what make check runs")
    parser.add_argument("--list", action="store_true",
                        help="names what would run")
    parser.add_argument("tests", nargs="*", metavar="TEST")
    return parser.parse_args()


def stopped(*unused):
    say("stopped")
    sys.exit(1)  # through main()'s clean-up


def main(kind):
    args = arguments()
    suite = kind(args.quick)
    suite.gate = 0 if args.tests else \
        max(1, suite.gates["quick" if args.quick else "full"] * GATE_PERCENT // 100)
    if not os.path.exists(os.path.join(BUILD, "libosf.so")):
        skip("no %s/libosf.so; set OSF_BUILD" % BUILD)
    log_dir = os.path.join(KEPT, "logs", suite.name)
    os.makedirs(log_dir, exist_ok=True)
    suite.prepare()
    tests = args.tests or suite.tests()
    if args.list:
        say("\n".join(tests))
        return
    adopt_orphans()
    signal.signal(signal.SIGTERM, stopped)
    signal.signal(signal.SIGINT, stopped)
    root = tempfile.mkdtemp(prefix="osf-suite.")
    os.chmod(root, 0o755)
    try:
        wrong = compare(suite, tests, root, log_dir)
    finally:
        end_children()
        shutil.rmtree(root, ignore_errors=True)
    for why in wrong:
        say("FAIL: %s: %s" % (suite.name, why))
    sys.exit(1 if wrong else 0)
