#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/verbs/run_pyverbs.py - pyverbs' own tests on the software RDMA device

The tests are Debian's (python3-pyverbs), unmodified.  They look for the device's network
interface in /sys/class/infiniband, where the software device is not; so this gives them an
address of this host's.  A test passes, or skips with a reason of REASONS, and the device's counters
say that it moved what they send.
"""
import glob
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile

from programs import OSF, counters, environment, own_address

THEIRS = "/usr/share/doc/rdma-core/tests"
PYTHON = "/usr/bin/python3"
MODULES = ("rdmacm", "mr", "qpex", "qp", "atomic", "cq", "cqex", "cq_events", "pd", "device",
           "parent_domain", "addr", "shared_pd", "relaxed_ordering", "fork", "odp", "flow", "rss_traffic",
           "tag_matching")
LEAST_PASSED = 100
LEAST_MOVED = {"sends": 9000, "recvs": 9000, "writes": 400, "reads": 200, "atomics": 250}
# Why a test may be skipped.
REASONS = ("not supported", "no huge pages", "gid indices populated")

RUN = """
import importlib, sys, unittest
modules = sys.argv[1:]
sys.argv[1:] = ["-v", "--dev", "osf0", "--gid", "0"]
from args_parser import parser
import tests.base
def address(self, dev, port, idx):
    self.args.append([dev, port, idx, "%s", "02:00:00:00:00:01"])
tests.base.RDMATestCase._get_ip_mac = address
parser.parse_args()
loader = unittest.TestLoader()
suite = unittest.TestSuite(loader.loadTestsFromModule(importlib.import_module("tests.test_" + m))
                           for m in modules)
unittest.TextTestRunner(verbosity=2).run(suite)
"""


def copy_tests(folder):
    for path in glob.glob(THEIRS + "/*"):
        name = os.path.basename(path)
        if name.endswith(".gz"):
            with gzip.open(path) as a, open(os.path.join(folder, name[:-3]), "wb") as b:
                shutil.copyfileobj(a, b)
        else:
            shutil.copy(path, folder)


def judge(output):
    """Return: what is wrong."""
    wrong = []
    # A test's description has a line of its own.
    results = re.findall(r"^(test_\w+) \(.*?\)(?:\n.*?)? \.\.\. (.*)$", output, re.M)
    passed = [name for name, result in results if result == "ok"]
    for name, result in results:
        print("    %-60s %s" % (name, result))
        if result != "ok" and not (result.startswith("skipped") and
                                   any(r in result for r in REASONS)):
            wrong.append(name)
    if len(passed) < LEAST_PASSED:
        wrong.append("%d have passed, not %d" % (len(passed), LEAST_PASSED))
    print("  %d passed" % len(passed))
    return wrong


def main():
    if not os.path.isdir(THEIRS):
        print("skip: no tests of pyverbs (python3-pyverbs)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        tests = os.path.join(folder, "tests")
        os.mkdir(tests)
        copy_tests(tests)
        with open(os.path.join(folder, "run.py"), "w") as f:
            f.write(RUN % own_address())
        env = environment(os.path.join(folder, "counters"), PYTHONPATH=folder + ":" + tests)
        got = subprocess.run([OSF, "run", "--", PYTHON, os.path.join(folder, "run.py"), *MODULES], env=env,
                             capture_output=True, text=True, timeout=600)
        wrong = judge(got.stderr)
        moved = counters(folder)
        wrong += ["%s=%d" % (name, moved.get(name, 0)) for name, least in LEAST_MOVED.items() if moved.get(name, 0) < least]
        print("  " + " ".join("%s=%d" % item for item in moved.items()))
        if wrong:
            print(got.stdout[-2000:], got.stderr[-6000:])
        print("wrong:", wrong)
        sys.exit(1 if wrong else 0)


main()
