#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_settings_fifo.py - settings that name a FIFO, a device or a folder

Whoever writes an environment may name a file that no read comes back from.  A program
under osf starts nevertheless, with one line of warning, and so does `osf run`.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
import harness  # noqa: E402

SETTINGS = ("OSF_CONFIG_FILE", "OSF_LOG_FILE", "OSF_MODULES")


def expect_start(run, name, path):
    """The program starts, and says in one line that it does without @path."""
    err = run.path("stderr")
    run.check(["sh", "-c", 'exec "$@" 2>"$0"', err, "true"],
              extra={name: path, "OSF_LOG": "err" if name == "OSF_LOG_FILE" else ""})
    with open(err) as f:
        lines = [line for line in f if "osf" in line and path in line]
    run.need(len(lines) == 1, "%s=%s: %d warnings: %r" % (name, path, len(lines), lines))


def expect_refusal(run, path):
    """`osf run` sees a wrong file of rules before it starts anything."""
    command = os.path.join(run.build, "osf")
    run.check([command, "run", "--", "true"], osf=False, status=125,
              extra={"OSF_CONFIG_FILE": path})


def main():
    run = harness.Run(__file__)
    if run.is_kernel:
        harness.skip("the settings are osf's")
    fifo = run.path("fifo")
    os.mkfifo(fifo)
    for name in SETTINGS:
        expect_start(run, name, fifo)
        expect_start(run, name, run.tmp)
    expect_start(run, "OSF_CONFIG_FILE", "/dev/zero")
    expect_start(run, "OSF_MODULES", "/dev/zero")
    if os.path.exists(os.path.join(run.build, "osf")):
        expect_refusal(run, fifo)
        expect_refusal(run, "/dev/zero")
    run.done()


main()
