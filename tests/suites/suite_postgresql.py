#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/suites/suite_postgresql.py - PostgreSQL's regression tests over TCP, and pgbench

The tests are those of the source package, programs and pg_regress are Debian's.  The
server runs as a user without privileges, and since memory is shared within a user
only, so do psql and pgbench.  A cluster of our own is made below the temporary
directory; Debian's is not touched.

pgbench counts money: after its transactions the balances of accounts, tellers and
branches, and the sum of the history, must all be the same.
"""
import os
import re
import shutil
import signal
import subprocess

import suites
from place import Ended, harness

USER = "postgres" if os.getuid() == 0 else None
# Of parallel_schedule, in its order; what depends on tests left out stays out.
QUICK = """
test: test_setup
test: boolean char varchar text int4 int8 float8 numeric txid uuid
test: strings date time timestamp interval inet
test: copy copyselect insert
test: create_index
test: select transactions portals arrays update delete
test: prepare plancache limit temp errors async
test: json jsonb with
test: combocid advisory_lock guc window
"""
BENCH_S = {"quick": 5, "full": 60}
LIMIT_S = 1800  # of the whole schedule; two minutes are normal
N_CLIENTS = 8
COPY_ROWS = 200000  # 50 MB

BENCHES = [  # name, and what pgbench is told
    ("pgbench: transactions", []),
    ("pgbench: prepared", ["-M", "prepared", "-t", "100"]),
    ("pgbench: a connection each time", ["-C", "-t", "25"]),
]

BINDIR = "/usr/lib/postgresql/15/bin"
LIBDIR = "/usr/lib/postgresql/15/lib"
PG_REGRESS = LIBDIR + "/pgxs/src/test/regress/pg_regress"
HEADERS = "/usr/include/postgresql/15/server"
SERVER = ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
          "-c", "fsync=off", "-c", "max_connections=60",
          "-c", "autovacuum_naptime=60"]
BALANCES = """
select count(distinct s) from (
    select sum(abalance) s from pgbench_accounts union all
    select sum(tbalance) from pgbench_tellers union all
    select sum(bbalance) from pgbench_branches union all
    select sum(delta) from pgbench_history) t"""


class Cluster:
    """A server of a place, and its clients."""

    def __init__(self, place):
        self.place = place
        self.port = harness.free_port()
        self.data = os.path.join(place.tmp, "data")
        self.popen = None

    def command(self, words):
        return [os.path.join(BINDIR, words[0])] + \
            [str(word) for word in words[1:]]

    def client(self, words, limit_s=300):
        """Runs a client to its end.  Return: Ended, its output also in the log."""
        env = self.place.env({"PGHOST": "127.0.0.1", "PGPORT": str(self.port),
                              "PGDATABASE": "postgres",
                              "PGUSER": "postgres"})
        cmd = self.command(words)
        popen = subprocess.Popen(cmd, env=env, user=USER, cwd=self.place.tmp,
                                 stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT)
        try:
            said = popen.communicate(timeout=limit_s)[0]
            status = popen.returncode
        except subprocess.TimeoutExpired:
            popen.kill()
            said, status = popen.communicate()[0], None
        with open(self.place.log, "ab") as log:
            log.write(b"\n--- %s\n" % " ".join(cmd).encode() + said)
        return Ended(status, said.decode("utf-8", "replace"))

    def start(self):
        made = self.client(["initdb", "-D", self.data, "--no-sync", "--no-locale",
                            "-E", "UTF8", "-U", "postgres", "-A", "trust"])
        if not made.is_ok():
            harness.fail("initdb:\n" + made.tail())
        self.popen = self.place.start(
            self.command(["postgres", "-D", self.data, "-p", self.port] + SERVER),
            user=USER)
        for _ in range(600):
            if self.client(["pg_isready", "-q"]).is_ok():
                return True
            if self.popen.poll() is not None:
                return False
        return False

    def stop(self):
        """Return: whether it ended as it should."""
        self.popen.send_signal(signal.SIGINT)
        try:
            return self.popen.wait(60) == 0
        except subprocess.TimeoutExpired:
            return False


class PostgreSQL(suites.Suite):
    name = "postgresql"
    gates = {"quick": 130, "full": 230}

    def prepare(self):
        for path in (BINDIR + "/postgres", LIBDIR + "/refint.so"):
            need_file(path, "postgresql-15")
        need_file(PG_REGRESS, "postgresql-client-15")
        need_file(HEADERS + "/fmgr.h", "postgresql-server-dev-15")
        suites.need_program("cc", "gcc")
        tree = suites.source("postgresql-15", like="postgresql-15")
        self.source = os.path.join(tree, "src", "test", "regress")
        self.module = os.path.join(suites.KEPT, "postgresql-15", "regress.so")
        if not os.path.exists(self.module) and not suites.build_step(
                ["cc", "-shared", "-fPIC", "-O2", "-I" + HEADERS,
                 "-I/usr/include/postgresql", "-o", self.module,
                 os.path.join(self.source, "regress.c")]):
            harness.fail("regress.c does not build")

    def tests(self):
        return ["regress"] + [name for name, _ in BENCHES] + ["copy"]

    def run(self, place, tests):
        place.fresh()
        self.lend(place)
        cluster = Cluster(place)
        results = {"server starts": verdict(cluster.start())}
        for test in tests:
            results.update(self.run_test(cluster, test))
        results["server ends"] = verdict(cluster.stop())
        place.end()
        return results

    def lend(self, place):
        """What a user without privileges must be able to read, and to write."""
        if place.is_osf:
            lib = os.path.join(place.tmp, "libosf.so")
            shutil.copy(os.path.join(suites.BUILD, "libosf.so"), lib)
            place.lib = lib
        regress = os.path.join(place.tmp, "regress")
        os.mkdir(regress)
        for name in ("sql", "expected", "data"):
            shutil.copytree(os.path.join(self.source, name),
                            os.path.join(regress, name))
        for path in (os.path.join(self.source, "parallel_schedule"),
                     os.path.join(self.source, "resultmap"), self.module,
                     LIBDIR + "/refint.so", LIBDIR + "/autoinc.so"):
            shutil.copy(path, regress)
        with open(os.path.join(regress, "quick_schedule"), "w") as f:
            f.write(QUICK)
        for folder, folders, names in os.walk(regress):
            for name in [folder] + [os.path.join(folder, n) for n in names]:
                shutil.chown(name, USER)

    def run_test(self, cluster, test):
        if test.startswith("regress"):
            return self.run_regress(cluster)
        if test == "copy":
            return {test: verdict(is_copied(cluster))}
        options = dict(BENCHES)[test]
        if "-T" not in options and "-t" not in options:
            options = options + ["-T", str(BENCH_S[self.profile()])]
        return {test: verdict(is_balanced(cluster, options))}

    def profile(self):
        return "quick" if self.is_quick else "full"

    def run_regress(self, cluster):
        folder = os.path.join(cluster.place.tmp, "regress")
        schedule = "quick_schedule" if self.is_quick else "parallel_schedule"
        ended = cluster.client(
            [PG_REGRESS, "--host=127.0.0.1", "--port=%d" % cluster.port,
             "--user=postgres", "--bindir=" + BINDIR, "--dlpath=" + folder,
             "--inputdir=" + folder, "--outputdir=" + folder,
             "--max-concurrent-tests=20",
             "--schedule=" + os.path.join(folder, schedule)], LIMIT_S)
        keep_differences(cluster.place, folder)
        found = re.findall(r"^(?:test|   ) +(\S+) +\.\.\. (\S+)", ended.text,
                           re.M)
        if not found:
            return {"regress": ended.why()}
        return {"regress: " + test: "ok" if word == "ok" else "fail"
                for test, word in found}

    def run_one(self, place, test):
        """A test needs what others left: the whole schedule runs again."""
        return self.run(place, [test.split(":")[0] if test.startswith("regress")
                                else test]).get(test, "missing")


def need_file(path, package):
    if not os.path.exists(path):
        suites.skip("no %s (Debian package %s)" % (path, package))


def verdict(is_ok):
    return "ok" if is_ok else "fail"


def keep_differences(place, folder):
    """What the server answered otherwise than expected, beside the log."""
    path = os.path.join(folder, "regression.diffs")
    if os.path.exists(path):
        shutil.copy(path, os.path.join(place.log_dir, place.name + ".diffs"))


def is_balanced(cluster, options):
    """pgbench with @options, and all that it counted is there."""
    if not cluster.client(["pgbench", "-i", "-q", "-s", N_CLIENTS]).is_ok():
        return False
    ran = cluster.client(["pgbench", "-n", "-j", 2, "-c", N_CLIENTS] + options)
    sums = cluster.client(["psql", "-At", "-c", BALANCES])
    return ran.is_ok() and "aborted" not in ran.text and \
        "number of failed transactions: 0 " in ran.text and \
        sums.text.strip() == "1"


def is_copied(cluster):
    """A large table goes out and in again, and is the same."""
    path = os.path.join(cluster.place.tmp, "rows")
    done = cluster.client([
        "psql", "-At", "-v", "ON_ERROR_STOP=1",
        "-c", "create table copy_a as select i, md5(i::text) || "
              "repeat('x', i %% 400) t from generate_series(1, %d) i" % COPY_ROWS,
        "-c", "create table copy_b (like copy_a)",
        "-c", "\\copy copy_a to '%s'" % path,
        "-c", "\\copy copy_b from '%s'" % path,
        "-c", "select count(*) from (select * from copy_a except "
              "select * from copy_b) d",
        "-c", "select count(*) from copy_b"])
    return done.is_ok() and done.text.split()[-2:] == ["0", str(COPY_ROWS)]


suites.main(PostgreSQL)
