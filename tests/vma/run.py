#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/vma/run.py - the tests of VMA's extra API over one protocol

    run.py PROTOCOL VMA_TEST [NAME ...]

PROTOCOL is kernel, shm or module: with libosf.so preloaded and told to use the one or the
other for TCP (module: tests/app/module_loop.c, beside VMA_TEST); tcp: our own TCP over lo in
a network namespace of the test's own, for which it takes root; or bare, without libosf.so,
where a program must find no table.  Over our own TCP, connections must have moved there.
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
    "bare": {},
    "kernel": {"OSF_SHM": "0"},
    "shm": {"OSF_UPGRADE_TURNS": "0"},
    "module": {},
    "tcp": {},
}
SKIP = 77
LIMIT_S = 280
SLOW = 4  # with a sanitizer


def main():
    build = os.environ.get("OSF_BUILD", "build")
    protocol, program = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as tmp:
        sanitizer = Sanitizer(build, os.path.join(tmp, "reports"))
        env = dict(os.environ, OSF_VMA_TEST=protocol, **ENV[protocol],
                   **sanitizer.env())
        if sanitizer.names:
            env["OSF_VMA_SLOW"] = str(SLOW)
        command = [program] + sys.argv[3:]
        limit = LIMIT_S * (SLOW if sanitizer.names else 1)
        if protocol == "module":
            env["OSF_MODULES"] = os.path.join(os.path.dirname(program), "module_loop.so")
        if protocol == "tcp":
            if not over_lo.may_run():
                sys.exit(SKIP)
            status = over_lo.run(command, env, build, limit)
        else:
            if protocol != "bare":
                lib = os.path.join(os.path.abspath(build), "src", "libosf.so")
                env["LD_PRELOAD"] = " ".join(filter(None, (env.get("LD_PRELOAD"), lib)))
            status = subprocess.run(command, env=env, timeout=limit).returncode
        reports = sanitizer.reports()
        print("\n".join(reports[:3]))
        if status or reports:
            sys.exit("status %d, %d reports of a sanitizer" %
                     (status, len(reports)))


main()
