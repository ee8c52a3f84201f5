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

ENV = {
    "kernel": {"OSF_SHM": "0"},
    "shm": {"OSF_UPGRADE_TURNS": "0"},
}
LIMIT_S = 280


def main():
    protocol, program, verbs, calls = sys.argv[1:5]
    env = dict(os.environ, OSF_XLIO_TEST=protocol, **ENV[protocol])
    runs = [(env, sys.argv[5:])]
    # A pd that is not ours is libibverbs', if there is one; and what comes between
    # the library and libc sees its system calls.
    if "asan" not in os.environ.get("OSF_BUILD", "") and len(sys.argv) == 5:
        lib = os.path.join(os.environ.get("OSF_BUILD", "build"), "src",
                           "libosf.so")
        runs.append((dict(env, LD_PRELOAD=" ".join((lib, verbs, calls)),
                          OSF_TEST_VERBS="1", OSF_TEST_CALLS="1"),
                     ["memory_is_registered_on_the_pd",
                      "a_message_by_the_kernel_takes_two_system_calls"]))
    for env, names in runs:
        got = subprocess.run([program] + names, env=env, timeout=LIMIT_S)
        if got.returncode:
            sys.exit(1)


main()
