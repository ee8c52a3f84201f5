#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/suites/suite_redis.py - redis' own tests, in Tcl: units and replication

The tests are those of the source package, the programs are Debian's; Tcl as the
client, redis-server, redis-cli and redis-benchmark are all in the same place.  Each
file of tests runs in a tree of its own made of links, at ports of its own, so that
some can run beside each other.
"""
import collections
import os
import re

import several
import suites

PROGRAMS = {"redis-server": "redis-server", "redis-cli": "redis-tools",
            "redis-benchmark": "redis-tools", "redis-check-aof": "redis-tools",
            "redis-check-rdb": "redis-tools"}
# Those that take longest are the first to start.
LONG = ["integration/replication", "integration/replication-psync",
        "unit/memefficiency", "unit/maxmemory", "integration/psync2",
        "unit/type/list-3", "unit/geo", "unit/aofrw", "integration/replication-4",
        "unit/type/zset", "unit/scripting", "unit/dump", "unit/obuf-limits"]
QUICK = ["integration/redis-cli", "unit/auth", "unit/client-eviction",
         "unit/info", "unit/info-command", "integration/replication-2",
         "unit/introspection-2", "unit/keyspace", "unit/multi", "unit/acl",
         "unit/type/hash", "unit/wait", "unit/querybuf", "unit/protocol",
         "unit/pubsub", "unit/pubsubshard", "unit/tracking", "unit/networking",
         "unit/quit", "unit/slowlog", "unit/type/incr", "unit/limits",
         "unit/pause", "unit/lazyfree", "unit/violations", "unit/replybufsize",
         "unit/cluster/links", "integration/redis-benchmark"]
LIMIT_S = {"quick": 100, "full": 600}  # of a file; the longest needs 15, 260
N_AT_ONCE = 4
PORTS_FROM, N_PORTS = 12000, 100  # of each file; the cluster bus is 10000 above


class Redis(suites.Suite):
    name = "redis"
    gates = {"quick": 390, "full": 1300}

    def __init__(self, is_quick):
        super().__init__(is_quick)
        self.again = {}  # (place, unit): results of each time it ran alone
        self.n_asked = collections.Counter()

    def prepare(self):
        suites.need_program("tclsh8.6", "tcl8.6")
        self.programs = [suites.need_program(*item)
                         for item in PROGRAMS.items()]
        self.source = suites.source("redis", like="redis-server")

    def tests(self):
        if self.is_quick:
            return QUICK
        text = suites.output(["./runtest", "--list-tests"], self.source)
        units = text.split()
        return LONG + [unit for unit in units if unit not in LONG]

    def run(self, place, tests):
        """A file that stops half way is no word on the tests behind that
        place: it gets a second try."""
        results = self.run_files(place, tests)
        for unit in [unit for unit in tests if results[unit] != "ok"]:
            suites.say("%s on %s stops before its end (%s); again" %
                       (unit, place.name, results[unit]))
            place.fresh()
            results.update(self.run_files(place, [unit]))
        return results

    def run_files(self, place, tests):
        jobs = [self.job(place, unit, i) for i, unit in enumerate(tests)]
        results = {}
        for unit, ended in several.run(place, jobs, N_AT_ONCE).items():
            results.update(judged(unit, ended))
        return results

    def job(self, place, unit, i):
        tree = self.linked(os.path.join(place.tmp, "tree%d" % i))
        return several.Job(unit, [
            "./runtest", "--single", unit, "--clients", "1", "--durable",
            "--no-latency", "--baseport", PORTS_FROM + i * N_PORTS,
            "--portcount", N_PORTS - 2], tree,
            LIMIT_S["quick" if self.is_quick else "full"])

    def linked(self, tree):
        """A tree that has all that the tests look for; only tmp is its own."""
        os.makedirs(os.path.join(tree, "tests", "tmp"))
        os.mkdir(os.path.join(tree, "src"))
        for path in self.programs:
            os.symlink(path, os.path.join(tree, "src", os.path.basename(path)))
        for folder in ("tests", "."):
            there = os.path.join(self.source, folder)
            for name in os.listdir(there):
                here = os.path.join(tree, folder, name)
                if not os.path.lexists(here):
                    os.symlink(os.path.join(there, name), here)
        return tree

    def run_one(self, place, test):
        """A test needs those before it: its whole file runs again, and that
        counts for the other tests of the file as well."""
        unit = test.split(": ")[0]
        i = self.n_asked[place.name, test]
        self.n_asked[place.name, test] += 1
        again = self.again.setdefault((place.name, unit), [])
        if i == len(again):
            place.fresh()
            again.append(self.run(place, [unit]))
        return again[i].get(test, "missing")


def named(unit, test):
    """Some names hold numbers that are drawn by lot."""
    if unit == "integration/psync2":
        test = re.sub(r"\d+", "N", test)
    return "%s: %s" % (unit, test)


def judged(unit, ended):
    """Return: {test: result} of what the tests of one file printed."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", ended.text)
    results = {}
    for test in re.findall(r"^\[ok\]: (.*) \(\d+ ms\)$", text, re.M):
        results[named(unit, test)] = "ok"
    for test in re.findall(r"^\[err\]: (.*?)(?: in tests/.*)?$", text, re.M):
        results[named(unit, test)] = "fail"
    is_whole = re.search(r"^ +The End$", text, re.M) and ended.status is not None
    results[unit] = "ok" if is_whole else ended.why()
    return results


suites.main(Redis)
