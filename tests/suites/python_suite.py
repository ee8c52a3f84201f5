# SPDX-License-Identifier: MIT
"""
tests/suites/python_suite.py - what suites of Python's unittest have in common

Each module runs in a process of its own, through unittest_record.py.  A test that
hangs or that takes the process with it fails, and the rest of the module is run in
a new one.
"""
import os
import shutil
import time

import suites

RECORD = os.path.join(suites.HERE, "unittest_record.py")
IDLE_S = 90  # since the last test began or ended
LIMIT_S = 1500  # of a module
MAX_STARTS = 10  # of the same module


class PythonSuite(suites.Suite):
    python = ""  # the program
    modules = []
    quick = []  # modules of make check
    # Patterns of tests that are left out, always and in make check.
    left_out = slow = "$^"

    def __init__(self, is_quick):
        super().__init__(is_quick)
        self.module_with = {}  # by test: some come from another module

    def tests(self):
        return self.quick if self.is_quick else self.modules

    def module_of(self, test):
        """@test: a module or the id of a test in it.  Return: module, and the
        ids to run, none for all."""
        if test in self.module_with:
            return self.module_with[test], [test]
        for module in sorted(self.modules + self.quick, key=len, reverse=True):
            if test == module:
                return module, []
            if test.startswith(module + "."):
                return module, [test]
        suites.harness.fail("no module for " + test)

    def run(self, place, tests):
        results = {}
        for test in tests:
            module, only = self.module_of(test)
            part = self.run_module(place, module, only)
            results.update(part)
            for test in part:
                self.module_with.setdefault(test, module)
        return results

    def run_module(self, place, module, only):
        place.fresh()
        path = os.path.join(place.tmp, "record")
        results = {}
        open(path, "w").close()
        left_out = self.slow if self.is_quick and not only else self.left_out
        for _ in range(MAX_STARTS):
            ended = place.run([self.python, RECORD, module, path, left_out] +
                              only, LIMIT_S, watch=lambda: is_idle(path))
            n_before = len(results)
            results, broken = read_record(path)
            if not broken:
                break
            results[broken] = ended.why() if ended.status else "ended"
            with open(path, "a") as f:
                f.write("fail %s\n" % broken)
            if len(results) == n_before:
                break
        if not only:
            shutil.copy(path, os.path.join(place.log_dir, "%s.%s" %
                                           (module, place.name)))
        if not results:
            results[module] = ended.why()
        return results


def is_idle(path):
    return time.time() - os.stat(path).st_mtime > IDLE_S


def read_record(path):
    """Return: results, and the test that began and did not end."""
    results, open_test = {}, None
    with open(path) as f:
        for line in f:
            word, test = line.split()[:2]
            if word == "start":
                open_test = test
            else:
                results[test] = word
                open_test = None
    return results, open_test
