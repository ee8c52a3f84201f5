#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/xlio/run.py - the tests of the XLIO API over one protocol

    run.py PROTOCOL XLIO_TEST FAKE_VERBS COUNT_CALLS [NAME ...]

PROTOCOL is kernel or shm: the same tests, with libosf.so told to use the one or the
other; xlio_test itself looks whether it did.
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
from sanitizer import Sanitizer  # noqa: E402

ENV = {
    "kernel": {"OSF_SHM": "0"},
    "shm": {"OSF_UPGRADE_TURNS": "0"},
}
LIMIT_S = 280


def runs_of(build, sanitizer):
    """Return: (environment, names of tests) of each run."""
    protocol, _, verbs, calls = sys.argv[1:5]
    env = dict(os.environ, OSF_XLIO_TEST=protocol, **ENV[protocol],
               **sanitizer.env())
    runs = [(env, sys.argv[5:])]
    # A pd that is not ours is libibverbs', if there is one; and what comes between
    # the library and libc sees its system calls.  A sanitizer's runtime is between
    # them already, and makes calls of its own.
    if not sanitizer.names and len(sys.argv) == 5:
        lib = os.path.join(build, "src", "libosf.so")
        runs.append((dict(env, LD_PRELOAD=" ".join((lib, verbs, calls)),
                          OSF_TEST_VERBS="1", OSF_TEST_CALLS="1"),
                     ["memory_is_registered_on_the_pd",
                      "a_message_by_the_kernel_takes_two_system_calls"]))
    return runs


def main():
    build = os.environ.get("OSF_BUILD", "build")
    with tempfile.TemporaryDirectory() as tmp:
        sanitizer = Sanitizer(build, os.path.join(tmp, "reports"))
        for env, names in runs_of(build, sanitizer):
            got = subprocess.run([sys.argv[2]] + names, env=env, timeout=LIMIT_S)
            reports = sanitizer.reports()
            print("\n".join(reports[:3]))
            if got.returncode or reports:
                sys.exit("status %d, %d reports of a sanitizer" %
                         (got.returncode, len(reports)))


main()
