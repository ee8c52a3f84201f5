# SPDX-License-Identifier: MIT
"""
tests/suites/unittest_record.py - runs a Python test module and records each test

    unittest_record.py MODULE RECORD LEFT-OUT [TEST ...]

RECORD gets a line as each test begins and ends: "start ID", then "ok ID SECONDS",
and so with "skip" and "fail".  Tests that it names already are not run, so that the caller can go on
behind a test that took the whole process with it; nor are those whose ID has a match
of the pattern LEFT-OUT.  Only the named TESTs are run, if there are any.  Runs in
the program's Python, apart from the harness.
"""
import faulthandler
import os
import re
import sys
import time
import unittest


class Recorder(unittest.TextTestResult):
    def __init__(self, stream, path):
        super().__init__(stream, descriptions=False, verbosity=2)
        self.pid = os.getpid()
        self.fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def record(self, word, test, more=""):
        # Children that a test forks may come by here.
        if os.getpid() == self.pid and isinstance(test, unittest.TestCase):
            line = "%s %s%s\n" % (word, test.id(), more)
            os.write(self.fd, line.encode())

    def startTest(self, test):
        self.word = "ok"
        self.began = time.monotonic()
        self.record("start", test)
        super().startTest(test)

    def stopTest(self, test):
        super().stopTest(test)
        self.record(self.word, test, " %.2f" % (time.monotonic() - self.began))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if self.word == "ok":
            self.word = "skip"

    def addError(self, test, err):
        super().addError(test, err)
        self.word = "fail"

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.word = "fail"

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self.word = "fail"

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.word = "fail"


def flat(tests):
    if isinstance(tests, unittest.TestCase):
        yield tests
    else:
        for test in tests:
            yield from flat(test)


def recorded(path):
    if not os.path.exists(path):
        return set()
    with open(path) as f:
        return {line.split()[1] for line in f}


# What some modules call network is this host alone.
NETWORK_IS_HERE = ["test.test_socketserver", "test.test_timeout"]


def prepare_cpython(module):
    """What its own runner sets: no network beyond this host, no screens."""
    from test import support
    support.use_resources = ["network"] if module in NETWORK_IS_HERE else []
    support.verbose = 1


def main():
    module, path, pattern = sys.argv[1:4]
    left_out, only = re.compile(pattern), set(sys.argv[4:])
    sys.argv[1:] = []
    sys.path[0] = ""  # as with python -m
    faulthandler.enable()
    if module.startswith("test."):
        prepare_cpython(module)
    done = recorded(path)
    loaded = unittest.defaultTestLoader.loadTestsFromName(module)
    chosen = [test for test in flat(loaded) if test.id() not in done and
              not left_out.search(test.id()) and
              (not only or test.id() in only)]
    stream = unittest.runner._WritelnDecorator(sys.stderr)
    result = Recorder(stream, path)
    unittest.TestSuite(chosen).run(result)
    result.printErrors()
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
