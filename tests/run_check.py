#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/run_check.py - runs the tests, and says in one line how many passed

    run_check.py BUILD [SUITE ...]

    meson test -> BUILD/meson-logs/testlog.json -> "N passed, N failed, N skipped"

The build is up to date already (see the Makefile).  The last line is the verdict;
above it stand the tests that failed, with what they printed, and the reason of
each that was skipped.  A few that failed are run once more: a test that then passes
is called unsteady, with what it printed when it failed.  Exit 1: a test failed, or nothing ran.  A run that takes
longer than LIMIT_S is ended, and what has not ended by then has failed.
"""
import json
import os
import signal
import subprocess
import sys

LIMIT_S = 28 * 60
TAIL_LINES = 40
UNSTEADY_MAX = 3  # so many failures may be tried once more; more are no accident


def run_meson(build, suites, names=()):
    cmd = ["meson", "test", "-C", build, "--no-rebuild", "--no-stdsplit", *names]
    for suite in suites:
        cmd += ["--suite", suite]
    # A group of its own, so that its end is the end of what it started.
    meson = subprocess.Popen(cmd, start_new_session=True)
    try:
        return meson.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        print("run_check: no end in %d s" % LIMIT_S)
        meson.send_signal(signal.SIGINT)
    except KeyboardInterrupt:
        meson.send_signal(signal.SIGINT)
    try:
        meson.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(meson.pid, signal.SIGKILL)
        meson.wait()
    return 1


def read_log(path):
    if not os.path.exists(path):
        return []
    with open(path) as lines:
        return [json.loads(line) for line in lines if line.strip()]


def sort_out(tests):
    """Return: those that passed, failed and were skipped."""
    passed, failed, skipped = [], [], []
    for test in tests:
        if test["result"] in ("OK", "EXPECTEDFAIL"):
            passed.append(test)
        elif test["result"] == "SKIP":
            skipped.append(test)
        else:
            failed.append(test)
    return passed, failed, skipped


def run_again(build, log, failed):
    """Return: those of the failed that pass when run once more, and meson's status."""
    names = [test["name"].split()[-1] for test in failed]
    for test in failed:
        print("\n--- %s: %s; once more" % (test["name"], test["result"].lower()))
        print("\n".join(said(test)[-TAIL_LINES:]))
    status = run_meson(build, [], names)
    passed = sort_out(read_log(log))[0]
    for test in passed:
        print("unsteady: %s failed, and passed when run again" % test["name"])
    return passed, status


def said(test):
    return (test.get("stdout") or "").strip().split("\n") + \
        (test.get("stderr") or "").strip().split("\n")


def main():
    build, suites = sys.argv[1], sys.argv[2:]
    log = os.path.join(build, "meson-logs", "testlog.json")
    if os.path.exists(log):
        os.unlink(log)
    status = run_meson(build, suites)
    passed, failed, skipped = sort_out(read_log(log))
    if failed and len(failed) <= UNSTEADY_MAX:
        again, status = run_again(build, log, failed)
        passed += again
        failed = [test for test in failed if test["name"] not in
                  {other["name"] for other in again}]
    for test in failed:
        print("\n--- %s: %s" % (test["name"], test["result"].lower()))
        print("\n".join(said(test)[-TAIL_LINES:]))
    if skipped:
        print()
    for test in skipped:
        why = [line for line in said(test) if line.startswith("skip:")]
        print("skipped %s: %s" % (test["name"], (why or ["skip: ?"])[0][6:]))
    slow = sorted(passed, key=lambda test: -test["duration"])[:5]
    print("\nslowest: " + ", ".join("%s %.1f s" % (test["name"].split()[-1],
                                                   test["duration"])
                                    for test in slow))
    is_bad = status or failed or not passed
    if is_bad and not failed:
        print("run_check: meson test itself ended with %s" % status)
    print("%d passed, %d failed, %d skipped" %
          (len(passed), len(failed) + bool(is_bad and not failed),
           len(skipped)), flush=True)
    return 1 if is_bad else 0


sys.exit(main())
