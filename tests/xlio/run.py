#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/xlio/run.py - the tests of the XLIO API over one protocol

    run.py PROTOCOL XLIO_TEST FAKE_VERBS COUNT_CALLS [NAME ...]

PROTOCOL is kernel, shm or tcp: the same tests, with libosf.so told to use the one or the
other; xlio_test itself looks whether it did.  tcp is our own TCP over lo, in a network
namespace of the test's own, for which it takes root.
"""
import os
import subprocess
import sys
import tempfile

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(TESTS, "app"), os.path.join(TESTS, "port")]
import over_lo  # noqa: E402
from sanitizer import Sanitizer  # noqa: E402

ENV = {
    "kernel": {"OSF_SHM": "0"},
    "shm": {"OSF_UPGRADE_TURNS": "0"},
    "tcp": {"OSF_RULES": over_lo.RULES},
}
LIMIT_S = 280
SKIP = 77


def runs_of(build, sanitizer):
    """Return: (environment, names of tests) of each run."""
    protocol, _, verbs, calls = sys.argv[1:5]
    env = dict(os.environ, OSF_XLIO_TEST=protocol, **ENV[protocol],
               **sanitizer.env())
    runs = [(env, sys.argv[5:])]
    # A pd that is not ours is libibverbs', if there is one; and what comes between
    # the library and libc sees its system calls.  A sanitizer's runtime is between
    # them already, and makes calls of its own.
    if not sanitizer.names and len(sys.argv) == 5 and protocol != "tcp":
        lib = os.path.join(build, "src", "libosf.so")
        runs.append((dict(env, LD_PRELOAD=" ".join((lib, verbs, calls)),
                          OSF_TEST_VERBS="1", OSF_TEST_CALLS="1"),
                     ["memory_is_registered_on_the_pd",
                      "a_message_by_the_kernel_takes_two_system_calls"]))
        # Under osf run memory is registered with the RDMA device.
        device = os.path.join(build, "src", "libosf-verbs.so")
        if os.path.exists(device):
            runs.append((dict(env, LD_PRELOAD=device),
                         ["registered", "registration", "stale_keys", "memory_of_the_programs_own",
                          "a_child_may_deregister"]))
    return runs


def main():
    build = os.environ.get("OSF_BUILD", "build")
    is_tcp = sys.argv[1] == "tcp"
    if is_tcp and not over_lo.may_run():
        sys.exit(SKIP)
    with tempfile.TemporaryDirectory() as tmp:
        sanitizer = Sanitizer(build, os.path.join(tmp, "reports"))
        for env, names in runs_of(build, sanitizer):
            command = [sys.argv[2]] + names
            if is_tcp:
                # It is linked with libosf.so, and osf run would add libosf-verbs.so.
                command = over_lo.words(["env", "-u", "LD_PRELOAD"] + command, build)
            status = subprocess.run(command, env=env, timeout=LIMIT_S).returncode
            reports = sanitizer.reports()
            print("\n".join(reports[:3]))
            if status or reports:
                sys.exit("status %d, %d reports of a sanitizer" %
                         (status, len(reports)))


main()
