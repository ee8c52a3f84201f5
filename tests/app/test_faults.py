#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_faults.py - what goes wrong stays where it went wrong: faults.c
in all its scenarios and both roles, hostile peers with several seeds

    test_faults.py FAULTS HOSTILE [--seed N] [SCENARIO ...]

    each run: its own folder of statistics -> a verdict, in 40 seconds at most

Whether a connection was upgraded, and if not why, each scenario finds in the
statistics itself.  --seed adds to the seeds of the hostile peers; the seed of a
failure is printed with the command that repeats it.
"""
import os
import re
import shlex
import subprocess
import sys

import harness

SIDE_BY_SIDE = 3     # most of the time they sleep
ANY_SEEDS = 4        # for each role
LIMITS_FROM_START = ["ulimit -f 100", "ulimit -f 3000", "ulimit -v 300000",
                     "ulimit -v 60000", "ulimit -n 24"]
PATIENCE_S = 50      # longer than SCENARIO_S of faults.c, which says where it was

failures = []  # what each said; it is printed once more at the end


class Job:
    def __init__(self, run, faults, hostile, name, role, seed=1, eager=True,
                 limit=None):
        self.name = "%s, near end is the %s%s%s" % (
            name, role, "" if eager else ", not eager",
            ", " + limit if limit else "")
        self.stats = run.path("stats.%d" % next(run.serial))
        os.mkdir(self.stats)
        os.chmod(self.stats, 0o777)
        extra = {} if run.is_kernel else {"OSF_STATS_DIR": self.stats}
        self.env = run.env(eager=eager, extra=extra)
        self.words = [faults, "--role", role, "--seed", str(seed),
                      "--hostile", hostile, name]
        self.cmd = run.command(self.words, True)
        if limit:
            self.cmd = ["sh", "-c", limit + ' && exec "$@"', "sh"] + self.cmd
        self.popen = None
        self.is_limited = bool(limit)

    def start(self):
        self.popen = subprocess.Popen(
            self.cmd, env=self.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def end(self):
        """Return: the exit status, and what was printed."""
        try:
            text = self.popen.communicate(timeout=PATIENCE_S)[0]
        except subprocess.TimeoutExpired:
            self.popen.kill()
            text = self.popen.communicate()[0] + b"no end\n"
        return self.popen.returncode, text.decode("utf-8", "replace")

    def repeat(self, run):
        names = ["LD_PRELOAD", "OSF_STATS_DIR", "OSF_UPGRADE_TURNS"]
        words = ["%s=%s" % (name, self.env[name]) for name in names
                 if name in self.env]
        return "mkdir -p %s; %s" % (self.stats, " ".join(
            ["env"] + words + [shlex.quote(word) for word in self.cmd]))

    def table(self):
        segments = []
        for name in sorted(os.listdir(self.stats)):
            try:
                segments.append(harness.Segment(os.path.join(self.stats,
                                                             name)))
            except ValueError:
                pass  # killed before it had written its header
        return harness.reasons_table(segments)


def jobs_of(run, programs, listed, seed):
    """@listed: a line of `faults --list`."""
    name, *words = listed.split()
    roles = [role for role in ("client", "server")
             if {"client", "server"}.isdisjoint(words) or role in words]
    if run.is_kernel and "osf" in words:
        return []
    # A sanitizer's runtime maps terabytes before anything else.
    with open(run.lib, "rb") as lib:
        is_sanitized = re.search(rb"lib[atu]b?san", lib.read()) is not None
    jobs = []
    for role in roles:
        if "from-start" in words:
            jobs += [Job(run, *programs, name, role, limit=limit)
                     for limit in LIMITS_FROM_START
                     if not (is_sanitized and "-v" in limit)]
            continue
        for i in range(ANY_SEEDS if name == "hostile_any" else 1):
            jobs.append(Job(run, *programs, name, role, seed=seed + i))
        if "lazy" in words:
            jobs.append(Job(run, *programs, name, role, eager=False))
    return jobs


def finish(run, job):
    """Return: "ok", "skip" or "FAIL"."""
    status, text = job.end()
    if status == 77:
        print("skipped: %s: %s" % (job.name, text.strip()))
        return "skip"
    if status == 0 and not job.is_limited and not run.is_kernel and \
            not os.listdir(job.stats):
        status, text = 1, "ran without osf\n"
    if status == 0:
        if text:
            print(text.strip())
        return "ok"
    said = "--- %s: ended with %s\n%s%s\n  again: %s" % (
        job.name, status, text, job.table(), job.repeat(run))
    print(said)
    failures.append(said)
    return "FAIL"


def run_all(run, jobs):
    verdicts = {"ok": 0, "skip": 0, "FAIL": 0}
    running = []
    try:
        while jobs or running:
            while jobs and len(running) < SIDE_BY_SIDE:
                running.append(jobs.pop(0))
                running[-1].start()
            verdicts[finish(run, running[0])] += 1
            running.pop(0)
    finally:
        for job in running:
            job.popen.kill()
    return verdicts


def arguments():
    args = sys.argv[1:]
    seed = 1
    if "--seed" in args:
        at = args.index("--seed")
        seed = int(args[at + 1])
        del args[at:at + 2]
    if len(args) < 2:
        harness.skip("which programs? see the top of this file")
    return [os.path.abspath(path) for path in args[:2]], args[2:], seed


def main():
    programs, only, seed = arguments()
    run = harness.Run(__file__, not_with={
        "thread": "its scenarios are bounded in time, and too little happens in it"})
    listed = subprocess.run([programs[0], "--list"], check=True,
                            capture_output=True, text=True).stdout
    jobs = []
    for line in sorted(listed.strip().split("\n")):
        if not only or any(line.startswith(name) for name in only):
            jobs += jobs_of(run, programs, line, seed)
    n_jobs = len(jobs)
    verdicts = run_all(run, jobs)
    print("\n".join(failures))
    print("%d runs: %d ok, %d skipped, %d failed" %
          (n_jobs, verdicts["ok"], verdicts["skip"], verdicts["FAIL"]))
    run.need(n_jobs, "no such scenario")
    run.need(verdicts["FAIL"] == 0, "%d of %d runs failed" %
             (verdicts["FAIL"], n_jobs))
    run.done()


main()
