#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_drop_postgres.py - PostgreSQL refuses to be root: root changes its user and
executes it, and it forks a process for each connection

Tables go in and come out, over connections of the server's user and of root.
"""
import hashlib
import os
import subprocess
import time

import dropping

BIN = "/usr/lib/postgresql/15/bin/"
ROWS = 50000


def table():
    return "".join("%d\t%s\n" % (i, hashlib.md5(b"%d" % i).hexdigest()) for i in range(ROWS))


def client(drop, port, as_user, name):
    """A table in, and out again."""
    run = drop.run
    psql = [BIN + "psql", "-q", "-X", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p",
            str(port), "-U", drop.user.pw_name, "postgres"]
    with open(run.path("rows")) as rows:
        drop.check(psql + ["-c", "create table %s (i int, word text)" % name, "-c",
                           "\\copy %s from '%s'" % (name, rows.name)], as_user=as_user)
    got = drop.check(psql + ["-c", "copy (select * from %s order by i) to stdout" % name],
                     as_user=as_user)
    run.need(got == table(), "another table came")


def wait_ready(port):
    """It listens before it answers.  The harness ends a test that takes too long."""
    while subprocess.run([BIN + "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]).returncode:
        time.sleep(0.05)


def main():
    if not os.path.exists(BIN + "psql"):
        dropping.harness.skip("no PostgreSQL 15 (Debian package postgresql-15)")
    drop = dropping.Drop(__file__, [], "postgres")
    run = drop.run
    os.mkdir(run.path("data"), 0o700)
    os.chown(run.path("data"), drop.user.pw_uid, -1)
    with open(run.path("rows"), "w") as f:
        f.write(table())
    run.check(drop.command([BIN + "initdb", "-N", "-A", "trust", "-D", run.path("data")]),
              osf=False)
    port = dropping.harness.free_port()
    drop.serve(drop.command([BIN + "postgres", "-D", run.path("data"), "-p", str(port), "-c",
                             "listen_addresses=127.0.0.1", "-c",
                             "unix_socket_directories=" + run.path("data"), "-c",
                             "fsync=off"]), port)
    wait_ready(port)
    client(drop, port, False, "of_root")
    run.need(not drop.upgraded(), "root shared memory with the server")
    client(drop, port, True, "of_user")
    drop.judge()
    drop.done()


main()
