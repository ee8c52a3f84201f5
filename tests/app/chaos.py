#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/chaos.py - the soak and stress programs over a libosf.so that waits at random

    chaos.py BUILD [--seconds N] [--seed N] [KIND ...]      (make chaos)

BUILD has a libosf.so of -Dchaos=true: src/base/chaos.h says what waits.  Seed N, N+1 and so on
each choose a KIND of run, its settings, where it waits and for how long; runs begin for
--seconds, one after the other.  A run has failed if its program says so, or did not end in
LIMIT_S.  The schedule is the machine's, so a seed that failed may need some runs to fail again.
Exit 1: some failed, which the last line names.
"""
import argparse
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LIMIT_S = 300
SHM = "/dev/shm"
# How often each is chosen.
KINDS = {"mix": 6, "events": 2, "kills": 2, "share": 1, "many": 1, "conns": 1, "stress": 6}
EVENTS = ["dup", "fork-back", "fork-over", "exec", "spawn", "pass", "pass-back", "program"]
SAID_MAX = 8000  # what a program that failed has said


def program(kind, seed, rng):
    """The words of the command after the program's folder."""
    if kind == "mix":
        return ["soak", "mix", 10, seed]
    if kind == "events":
        return ["soak", "mix", 8, seed] + rng.sample(EVENTS, rng.randint(1, 4)) + \
            [word for word in ("bare", "calm") if rng.random() < 0.5]
    if kind != "stress":
        return ["soak", kind, {"kills": 12, "share": 6, "many": 60, "conns": 150}[kind], seed]
    return ["stress", "--seed", seed, "--seconds", 4, "--hang", 60,
            "--place", rng.choice(["fork", "exec", "same"])] + \
        rng.choice([[], ["--conns", 40, "--threads", 4], ["--conns", 4, "--bytes", 8 << 20]])


def plan(seed):
    """What one seed stands for: its kind, the environment, and the command."""
    rng = random.Random(seed)
    kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
    rate, focus = rng.choice([200, 600, 2000, 100000000]), rng.choice([8, 24, 60])
    env = {"OSF_CHAOS": "%d,%d,%d,%d,%d" % (seed, rate, focus, rng.choice([2, 6, 20, 100]),
                                            rng.choice([2000, 20000, 20000]))}
    if rng.random() < 0.6:
        env["OSF_UPGRADE_TURNS"] = "0"
    if rng.random() < 0.3 and kind != "share":  # whose sender waits until AHEAD bytes have room
        env["OSF_RING"] = str(rng.choice([16384, 65536, 262144]))
    return kind, env, [str(word) for word in program(kind, seed, rng)]


def play(build, env, command):
    """Return: why it failed, or None; and what it has said."""
    stats = tempfile.mkdtemp(prefix="test-stats.", dir=SHM if os.access(SHM, os.W_OK) else None)
    env = dict(os.environ, LD_PRELOAD=os.path.join(build, "src/libosf.so"), OSF_STATS_DIR=stats,
               **env)
    with tempfile.TemporaryFile() as log:
        proc = subprocess.Popen([os.path.join(build, "tests", command[0])] + command[1:], env=env,
                                stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = proc.wait(LIMIT_S)
            why = "it ended with %d" % status if status else None
        except subprocess.TimeoutExpired:
            why = "no end in %d s" % LIMIT_S
        finally:
            try:
                os.killpg(proc.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            proc.wait()
            shutil.rmtree(stats, ignore_errors=True)
        log.seek(0)
        said = log.read().decode(errors="replace")
    if "FAIL" in said or "HANG" in said:
        why = why or "it says so"
    return why, said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_intermixed_args()
    if not set(args.kinds) <= set(KINDS):
        parser.error("KIND is one of " + ", ".join(KINDS))
    build, end = os.path.abspath(args.build), time.monotonic() + args.seconds
    n_runs, failed = 0, []
    for seed in itertools.count(args.seed):
        kind, env, command = plan(seed)
        if n_runs and time.monotonic() > end:
            break
        if kind not in (args.kinds or KINDS):
            continue
        began = time.monotonic()
        why, said = play(build, env, command)
        print("seed %d: %s, %s: %s, %.1f s" % (
            seed, " ".join("%s=%s" % pair for pair in env.items()), " ".join(command),
            why or "good", time.monotonic() - began), flush=True)
        n_runs += 1
        if why:
            print(said[-SAID_MAX:], flush=True)
            failed.append(seed)
    print("chaos: %d runs, %d failed: seeds %s" % (
        n_runs, len(failed), " ".join(map(str, failed)) or "none"))
    sys.exit(1 if failed else 0)


main()
