#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/run_check.py - runs the tests, and says in one line how many passed

    run_check.py BUILD [--fast] [SUITE ...]

    meson test -> one line for each test that has ended: n of m, elapsed, name, result
               -> BUILD/meson-logs/testlog.json -> what failed and what it printed
               -> "N passed, N failed, N skipped: which, and why"

The build is up to date already (see the Makefile).  A test that fails makes the run red.
It runs once more, with the same seed and settings, only to say whether it fails each
time; the run stays red when the second time is good.  --fast leaves out the suite
`slow`, starts more tests at once, and sets OSF_TEST_FAST=1, with which fuzzers look for
new inputs for a shorter time.

OSF_TEST_SEED is where tests that make random choices start; the first line prints it, so
does the verdict of a red run, BUILD/meson-logs/failed_seeds.txt keeps it, and a caller may
set it: make check SEED=N.

Exit 1: a test failed, or nothing ran, or a file of osf's was left in /dev/shm.  A run
that takes longer than LIMIT_S is ended, and what has not ended by then has failed.
"""
import glob
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "app"))
from sanitizer import built_with  # noqa: E402

LIMIT_S = 80 * 60
TAIL_LINES = 40
SANITIZED_SLOWER = 4
SEEDS = "failed_seeds.txt"
# Most tests wait most of the time, for the kernel's timers and for each other's answers: two
# for each core keep the cores busy, or two more than cores where the slow ones run, some of which
# load the cores themselves.  Those that cannot run beside others are alone (meson.build).
TESTS_PER_CORE_FAST = 2
NAMES_MAX = 4  # in the last line, of tests that are skipped for one reason
# " 12/109 osf:app+slow / test_soak   OK   12.3s", as Meson writes it
ENDED = re.compile(r"\s*(\d+)/(\d+)\s+(?:\S+?:)?(\S+) / (\S+)\s+([A-Z]+)\s+([\d.]+)s")
STARTED = time.monotonic()


def elapsed():
    return "%d:%02d" % divmod(time.monotonic() - STARTED, 60)


# --- running ---

def show_progress(lines):
    """One line for each test that ends; Meson's summary is left to main()."""
    for line in lines:
        got = ENDED.match(line)
        if got:
            print("[%*d/%s %5s] %-28s %s %.1f s" %
                  (len(got[2]), int(got[1]), got[2], elapsed(), got[4],
                   got[5].lower() if got[5] == "OK" else got[5], float(got[6])), flush=True)
        elif line.startswith("Ok:"):
            break
        elif line.strip() and not line.startswith("Summary of Failures"):
            print(line, end="", flush=True)
    for line in lines:
        pass


def end_of(meson):
    """Waits for Meson, no longer than is left.  Return: its status."""
    try:
        return meson.wait(max(1, LIMIT_S - (time.monotonic() - STARTED)))
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


def run_meson(build, options):
    """Return: Meson's status, and what its log says of each test."""
    log = os.path.join(build, "meson-logs", "testlog.json")
    if os.path.exists(log):
        os.unlink(log)
    if built_with(build) != "none":
        options = ["--timeout-multiplier", str(SANITIZED_SLOWER), *options]
    n_cores = len(os.sched_getaffinity(0))
    n_tests = TESTS_PER_CORE_FAST * n_cores if "OSF_TEST_FAST" in os.environ else n_cores + 2
    options = ["--num-processes", str(n_tests), *options]
    # A group of its own, so that its end is the end of what it started.
    meson = subprocess.Popen(["meson", "test", "-C", build, "--no-rebuild", "--no-stdsplit",
                              *options],
                             start_new_session=True, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
    progress = threading.Thread(target=show_progress, args=(meson.stdout,), daemon=True)
    progress.start()
    status = end_of(meson)
    progress.join(5)
    if not os.path.exists(log):
        return status, []
    with open(log) as lines:
        return status, [json.loads(line) for line in lines if line.strip()]


# --- judging ---

def name_of(test):
    return test["name"].split()[-1]


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


def said(test):
    return (test.get("stdout") or "").strip().split("\n") + \
        (test.get("stderr") or "").strip().split("\n")


def show(test, how):
    print("\n--- %s: %s" % (name_of(test), how))
    print("\n".join(said(test)[-TAIL_LINES:]))


def run_again(build, failed):
    """The failed ones once more, alone, to say whether they fail each time."""
    for test in failed:
        show(test, test["result"].lower())
    print("\nonce more, with the same seed; the verdict stays:", flush=True)
    tests = run_meson(build, [name_of(test) for test in failed])[1]
    passed, again, skipped = sort_out(tests)
    for test in again:
        show(test, "failed again, %s" % test["result"].lower())
    print()
    for test in failed:
        name = name_of(test)
        print("%s: %s" % (name, "failed, and passed the second time: unsteady"
                          if name in map(name_of, passed) else "failed both times"
                          if name in map(name_of, again) else "failed"))


def keep_seed(build, seed, failed):
    """So that a failure can be repeated after the log of the next run is there."""
    with open(os.path.join(build, "meson-logs", SEEDS), "a") as f:
        for test in failed:
            f.write("%s %s %s\n" % (time.strftime("%F %T"), seed, name_of(test)))


def skip_reason(test):
    why = [line for line in said(test) if line.startswith("skip:")]
    return (why or ["skip: it did not say why"])[0][6:]


def skipped_why(skipped):
    """Return: a text of one line, by reason."""
    by_reason = {}
    for test in skipped:
        by_reason.setdefault(skip_reason(test), []).append(name_of(test))
    parts = []
    for why, names in by_reason.items():
        more = len(names) - NAMES_MAX
        parts.append("%s%s: %s" % (", ".join(names[:NAMES_MAX]),
                                   " and %d more" % more if more > 0 else "", why))
    return "; ".join(parts)


# --- what tests must not leave ---

def shm_files():
    """Ours, and the tests' own statistics (harness.py)."""
    return set(glob.glob("/dev/shm/*osf*") + glob.glob("/dev/shm/test-stats.*"))


def is_in_use(path):
    """Does a process have @path in its environment, its mappings or its arguments?"""
    for kind in ("environ", "maps", "cmdline"):
        for name in glob.glob("/proc/[0-9]*/" + kind):
            try:
                with open(name, "rb") as f:
                    if path.encode() in f.read():
                        return True
            except OSError:
                pass
    return False


def left_behind(before):
    return sorted(path for path in shm_files() - before if not is_in_use(path))


# --- the run ---

def arguments(words):
    """Return: the build folder, and Meson's options."""
    options = []
    for word in words[1:]:
        options += ["--no-suite", "slow"] if word == "--fast" else ["--suite", word]
    return words[0], options


def verdict(n_passed, n_failed, skipped, seed, is_fast):
    line = "%d passed, %d failed, %d skipped" % (n_passed, n_failed, len(skipped))
    if skipped:
        line += ": " + skipped_why(skipped)
    if is_fast:
        line += "; FAST=1 left out the long ones"
    if n_failed:
        line += "; seed %s" % seed
    return line


def hear_signals():
    """A shell starts what runs in the background with ^C ignored, and so it would be for all
    that we start: tests press ^C, and end programs by it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGQUIT) == signal.SIG_IGN:
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def main():
    hear_signals()
    build, options = arguments(sys.argv[1:])
    seed = os.environ.get("OSF_TEST_SEED") or str(time.time_ns() >> 10 & 0xffffffff)
    os.environ["OSF_TEST_SEED"] = seed
    if "--fast" in sys.argv:
        os.environ["OSF_TEST_FAST"] = "1"
    # Meson would draw another one for each test.
    os.environ.setdefault("MALLOC_PERTURB_", str(zlib.crc32(seed.encode()) % 255 + 1))
    print("seed %s (make check SEED=%s)" % (seed, seed), flush=True)
    before = shm_files()
    status, tests = run_meson(build, options)
    passed, failed, skipped = sort_out(tests)
    if failed:
        keep_seed(build, seed, failed)
        run_again(build, failed)
    left = left_behind(before)
    if left:
        print("left behind in /dev/shm: %s" % " ".join(left))
    slow = sorted(passed, key=lambda test: -test["duration"])[:5]
    print("\nslowest: " + ", ".join("%s %.1f s" % (name_of(test), test["duration"])
                                    for test in slow))
    is_bad = bool(status or failed or left or not passed)
    if status and not failed:
        print("run_check: meson test itself ended with %s" % status)
    if not passed and not failed:
        print("run_check: no test ran")
    print("%s in all" % elapsed())
    print(verdict(len(passed), len(failed) + (is_bad and not failed), skipped, seed,
                  "--fast" in sys.argv), flush=True)
    return 1 if is_bad else 0


sys.exit(main())
