#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_mariadb.py - MariaDB with its io_uring for files: its connections are
moved all the same, and tables are what they were on the kernel
"""
import getpass
import os

import harness

ROWS = 4000
DIGEST = ("select count(*), sum(crc32(concat(id, text))), "
          "md5(group_concat(left(text, 8) order by id)) from t.rows")


def server(run, port):
    data, sock = run.path("data"), run.path("s.sock")
    user = "--user=%s" % getpass.getuser()
    run.check(["mariadb-install-db", "--no-defaults", user,
               "--datadir=" + data, "--skip-test-db",
               "--auth-root-authentication-method=normal"], osf=False)
    proc = run.start(["mariadbd", "--no-defaults", user, "--datadir=" + data,
                      "--socket=" + sock, "--port=%d" % port,
                      "--bind-address=127.0.0.1", "--tmpdir=" + run.tmp,
                      "--innodb-use-native-aio=1",
                      "--group-concat-max-len=1000000"])
    run.wait_port(port)
    return proc


def client(run, port, text, osf=True):
    return run.check(["mariadb", "--no-defaults", "-u", "root", "-h",
                      "127.0.0.1", "-P", str(port), "--batch",
                      "--skip-column-names", "-e", text], osf=osf)


def fill():
    rows = ",".join("(%d, repeat('%x.', %d))" % (i, i * 2654435761 % 2 ** 32,
                                                 1 + i % 300)
                    for i in range(ROWS))
    return ("create database t; create table t.rows (id int primary key, "
            "text mediumtext) engine=innodb; insert into t.rows values %s;" %
            rows)


def main():
    run = harness.Run(__file__, ["mariadbd", "mariadb-install-db", "mariadb", "mariadb-slap"],
                      not_with={"thread": "mariadbd maps 8 TB, where the runtime has no room"})
    port = harness.free_port()
    proc = server(run, port)
    script = run.path("fill.sql")
    with open(script, "w") as f:
        f.write(fill())
    client(run, port, "source %s" % script)
    # A client without osf is told the same.
    told = client(run, port, DIGEST)
    run.need(told.split()[0] == str(ROWS), "told: %r" % told)
    run.need(told == client(run, port, DIGEST, osf=False), "answers differ")
    whole = client(run, port, "select * from t.rows order by id")
    run.need(whole == client(run, port, "select * from t.rows order by id",
                             osf=False), "rows differ")
    run.check(["mariadb-slap", "--no-defaults", "-u", "root", "-h",
               "127.0.0.1", "-P", str(port), "--auto-generate-sql",
               "--auto-generate-sql-load-type=mixed", "--concurrency=4",
               "--auto-generate-sql-write-number=20",
               "--auto-generate-sql-execute-number=200"])
    client(run, port, "shutdown", osf=False)
    run.wait(proc)
    uses = "io_uring" if "Using io_uring" in proc.text() else "no io_uring"
    print("mariadbd had %s" % uses)
    run.expect_offloaded(4, 100000)
    run.done()


main()
