#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_killed_run.py - what a killed `osf run --stats` leaves in /dev/shm

The folder stays while a program of that run still lives, which has its statistics
there, and the next `osf run` of the same user removes it after that.
"""
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
import harness  # noqa: E402

PATIENCE_S = 60


def folder_of(child_pid):
    with open("/proc/%d/environ" % child_pid, "rb") as f:
        words = [word for word in f.read().split(b"\0")
                 if word.startswith(b"OSF_STATS_DIR=/dev/shm/")]
    return words[0].split(b"=", 1)[1].decode() if words else None


def child_of(pid):
    """The program, once it has its statistics: they are the folder's second file."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            children = f.read().split()
        folder = folder_of(int(children[0])) if children else None
        if folder and any(name.endswith(".osf") for name in os.listdir(folder)):
            return int(children[0]), folder
        time.sleep(0.01)
    return None, None


def wait_gone(pid):
    end = time.monotonic() + PATIENCE_S
    while os.path.exists("/proc/%d/exe" % pid) and time.monotonic() < end:
        time.sleep(0.01)


def next_run(run):
    subprocess.run([os.path.join(run.build, "osf"), "run", "--", "true"], check=True,
                   timeout=PATIENCE_S)


def main():
    run = harness.Run(__file__)
    if run.is_kernel or not os.path.exists(os.path.join(run.build, "osf")):
        harness.skip("no osf command")
    owner = run.start([os.path.join(run.build, "osf"), "run", "--stats", "--", "sleep",
                       "100"], osf=False)
    child, folder = child_of(owner.popen.pid)
    run.need(child, "no folder in /dev/shm")
    run.stop(owner, how=signal.SIGKILL)
    try:
        next_run(run)
        run.need(os.path.isdir(folder), "%s is gone, and its program lives" % folder)
    finally:
        os.kill(child, signal.SIGKILL)
    wait_gone(child)
    next_run(run)
    run.need(not os.path.exists(folder), "%s is left" % folder)
    run.done()


main()
