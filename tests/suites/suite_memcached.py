#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/suites/suite_memcached.py - memcached's own tests: t/*.t, and testapp

Built from Debian's source package without unix sockets: the tests would prefer
them.  A file of Perl is a test here, and so is each line of testapp, which speaks
the binary protocol.
"""
import glob
import os
import re

import several
import suites

MAKE = ["make", "-j2", "AUTOCONF=:", "ACLOCAL=:", "AUTOMAKE=:", "AUTOHEADER=:"]
# 35 MB in bits of one byte, and minutes for it.
LEFT_OUT = ["binary-extstore"]
# Those that take longest are the first to start.
LONG = ["restart", "binary", "chunked-extstore", "maxconns", "chunked-items",
        "getset", "metaget", "extstore", "lru-crawler", "extstore-jbod",
        "lru-maintainer", "dyn-maxbytes", "dash-M", "idle-timeout", "watcher"]
QUICK = ["00-startup", "64bit", "ascii-auth", "binary-get", "bogus-commands",
         "cas", "conn-limits", "daemonize", "expirations", "flags",
         "incrdecr", "issue_104", "issue_108", "issue_152", "issue_163",
         "issue_183", "issue_22", "issue_29", "issue_3", "issue_42", "issue_50",
         "issue_61", "issue_67", "issue_68", "issue_70", "item_size_max", "lru",
         "malicious-commands", "multiversioning", "noreply", "quit", "shutdown",
         "stats", "stats-conns", "stats-detail", "strtol-testing", "touch",
         "udp", "watcher_connid"]
LIMIT_S = 240  # of a file; the longest needs 30
N_AT_ONCE = 4


class Memcached(suites.Suite):
    name = "memcached"
    gates = {"quick": 30, "full": 50}

    def prepare(self):
        suites.need_program("cc", "gcc")
        suites.need_program("make")
        if not os.path.exists("/usr/include/event2/event.h"):
            suites.skip("no event2/event.h (Debian package libevent-dev)")
        self.tree = suites.built("memcached", [
            ["./configure", "--disable-unix-socket"],
            MAKE + ["memcached-debug", "timedrun", "sizes", "testapp"]])

    def tests(self):
        if self.is_quick:
            return QUICK + ["testapp"]
        names = [os.path.basename(path)[:-2] for path in
                 glob.glob(os.path.join(self.tree, "t", "*.t"))]
        rest = sorted(set(names) - set(LONG) - set(LEFT_OUT))
        return [name for name in LONG if name in names] + ["testapp"] + rest

    def run(self, place, tests):
        jobs = [self.job(test) for test in tests]
        results = {}
        for test, ended in several.run(place, jobs, N_AT_ONCE).items():
            results.update(judged(test, ended))
        return results

    def job(self, test):
        cmd = ["./testapp"] if test == "testapp" else ["perl", "t/%s.t" % test]
        return several.Job(test, cmd, self.tree, LIMIT_S)

    def run_one(self, place, test):
        """A line of testapp is the result of all of it."""
        place.fresh()
        return self.run(place, [test.split(": ")[0]]).get(test, "missing")


def judged(test, ended):
    """Return: {test: result} of what one program printed."""
    if test == "testapp":
        lines = re.findall(r"^(ok|not ok) +\d+ - ?(.*)$", ended.text, re.M)
        results = {"testapp: " + what: "ok" if word == "ok" else "fail"
                   for word, what in lines}
        return dict(results, testapp="ok" if ended.is_ok() else ended.why())
    if not ended.is_ok():
        return {test: ended.why()}
    if re.search(r"^not ok", ended.text, re.M):
        return {test: "fail"}
    return {test: "skip" if re.search(r"^1\.\.0 ", ended.text, re.M) else "ok"}


suites.main(Memcached)
