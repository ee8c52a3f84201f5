#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/hostile.py - thousands of attacks by a peer, a child and a stranger, seeded

    hostile.py [--attacks N] [--seconds T] [--seed S] [PART ...]

    PART: peer      tests/app/hostile.c by way of faults.c: a connection each
          child     tests/app/hostile_child.c: a forked process each
          stranger  tests/app/hostile_stranger.c, with faults_visits.c: a visit each

Each part runs until N attacks have been made, or for T seconds.  A program that is
attacked checks itself that its other connections lose nothing, that no call takes long,
and that it keeps no descriptors or mappings.  With the build of a sanitizer (make hostile
BUILD=build-asan) what the sanitizer says is a failure too, leaks included.

A failure prints the command that repeats it.  A run that takes long prints the stacks of
its processes, if there is gdb, and is waited for a while longer.  So does one that leaves a
process behind: a peer of the program may wait for what never comes.  `make hostile` makes
10,000 attacks of each kind; `make check` runs a few.
"""
import argparse
import contextlib
import glob
import os
import re
import shlex
import subprocess
import sys
import time

import harness

SIDE_BY_SIDE = 3
PATIENCE_S = 120  # a run takes 2 s where the machine is not busy
STACKS_S = 60  # of one process, to be shown
STACKS_MAX = 6  # processes
ROUNDS = 30  # of a run of hostile_child, each as long as:
CHILD_MS = 10
SHOW_EVERY_S = 20
IS_REPORT = re.compile(r"ERROR: |runtime error: ")  # and not that a thread was missed
ATTACKS = re.compile(r"(\d+) (?:hostile connections lost|rounds|visits)")


def faults_commands(tests, seed, prefix):
    faults = os.path.join(tests, "faults")
    hostile = os.path.join(tests, "hostile")
    listed = subprocess.run([faults, "--list"], check=True, capture_output=True, text=True)
    names = [line.split()[0] for line in sorted(listed.stdout.split("\n"))
             if line.startswith(prefix) and "stolen" not in line]
    while True:
        for name in names:
            for role in ("client", "server"):
                yield [faults, "--role", role, "--seed", str(seed), "--hostile", hostile, name]
        seed += 1


def peer_commands(tests, seed):
    return faults_commands(tests, seed, "hostile_")


def stranger_commands(tests, seed):
    return faults_commands(tests, seed, "stranger_visits")


def child_commands(tests, seed):
    while True:
        yield [os.path.join(tests, "hostile_child"), str(ROUNDS), str(seed), str(CHILD_MS)]
        seed += 1


PARTS = {"peer": peer_commands, "child": child_commands, "stranger": stranger_commands}


def reports_of(run):
    """What the sanitizer found; the rest of what it says is deleted."""
    for path in glob.glob(os.path.join(run.sanitizer.folder, "report*")):
        with open(path, errors="replace") as f:
            is_report = IS_REPORT.search(f.read())
        if not is_report:
            os.unlink(path)
    return run.sanitizer.reports()


def who_has(pipe):
    """Processes that have @pipe open: those that a run has left behind, too."""
    name, found = os.readlink("/proc/self/fd/%d" % pipe.fileno()), set()
    for path in glob.glob("/proc/[0-9]*/fd/[12]"):
        with contextlib.suppress(OSError):
            if os.readlink(path) == name:
                found.add(int(path.split("/")[2]))
    return sorted(found - {os.getpid()})


def stacks_of(pipe):
    """What the processes of a run that does not end are doing."""
    text = ""
    for each in who_has(pipe)[:STACKS_MAX]:
        try:
            with open("/proc/%d/stat" % each) as f:
                text += "--- %s\n" % f.read().strip()
            got = subprocess.run(["gdb", "-batch", "-nx", "-p", str(each), "-ex",
                                  "thread apply all backtrace"], capture_output=True,
                                 text=True, timeout=STACKS_S, stdin=subprocess.DEVNULL)
            text += got.stdout[-6000:]
        except (OSError, subprocess.TimeoutExpired) as why:
            text += "no stack: %s\n" % why
    return text


class Job:
    def __init__(self, run, words):
        self.stats = run.path("stats.%d" % next(run.serial))
        os.mkdir(self.stats)
        os.chmod(self.stats, 0o777)
        extra = {"OSF_STATS_DIR": self.stats, "OSF_UPGRADE_TURNS": "0"}
        asan = run.sanitizer.env().get("ASAN_OPTIONS", "")
        if os.path.basename(words[0]) == "faults":  # closes all that it has opened
            extra["ASAN_OPTIONS"] = asan + ":detect_leaks=1"
        elif asan:  # a child may write where it has no memory any more
            extra["ASAN_OPTIONS"] = asan + ":handle_segv=0"
        self.words = run.command(words, True)
        self.extra = extra
        self.env = run.env(extra=extra)
        self.popen = subprocess.Popen(self.words, env=self.env, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def end(self, run):
        """Return: how many attacks it was, and why it failed, or None."""
        text, status = b"", "no end"
        for part in range(run.sanitizer.slower):
            try:
                text = self.popen.communicate(timeout=PATIENCE_S)[0]
                status = self.popen.returncode
                break
            except subprocess.TimeoutExpired:
                print("no end in %d s: %s\n%s" % ((part + 1) * PATIENCE_S,
                      " ".join(self.words), stacks_of(self.popen.stdout)), flush=True)
        else:
            self.popen.kill()
            text = self.popen.communicate()[0]
        text = text.decode("utf-8", "replace")
        got = ATTACKS.search(text)
        reports = reports_of(run)
        if status == 0 and got and not reports:
            for name in os.listdir(self.stats):
                os.unlink(os.path.join(self.stats, name))
            os.rmdir(self.stats)
            return int(got[1]), None
        return 0, "ended with %s\n%s\n%s\n  again: env %s %s" % (
            status, text, "\n".join(reports)[:6000],
            " ".join("%s=%s" % (name, shlex.quote(self.env[name]))
                     for name in ("LD_PRELOAD", *self.extra) if name in self.env),
            " ".join(map(shlex.quote, self.words)))


def run_part(run, name, args):
    commands = PARTS[name](os.path.join(run.build, "tests"), args.seed)
    started = shown = time.monotonic()
    running, n_attacks, n_runs = [], 0, 0
    while True:
        is_over = n_attacks >= args.attacks or time.monotonic() > started + args.seconds
        if is_over and not running:
            break
        while not is_over and len(running) < SIDE_BY_SIDE:
            running.append(Job(run, next(commands)))
        n, why = running.pop(0).end(run)
        n_attacks += n
        n_runs += 1
        if why:
            for job in running:
                job.popen.kill()
            run.fail("%s, after %d attacks: %s" % (name, n_attacks, why))
        if time.monotonic() > shown + SHOW_EVERY_S:
            shown = time.monotonic()
            print("%s: %d attacks" % (name, n_attacks), flush=True)
    print("%s: %d attacks in %d runs, %.0f s" %
          (name, n_attacks, n_runs, time.monotonic() - started), flush=True)
    run.need(n_attacks, name + ": no attack took place")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attacks", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("OSF_TEST_SEED") or 1))
    parser.add_argument("part", nargs="*", default=list(PARTS))
    args = parser.parse_args()
    harness.LIMIT_S = int(args.seconds * len(args.part)) + 2 * PATIENCE_S
    run = harness.Run(__file__, not_with={"thread": "its programs are bounded in time"})
    if os.geteuid():
        harness.skip("needs root, who can become another user")
    for name in args.part:
        run_part(run, name, args)
    reports_of(run)
    run.done()


main()
