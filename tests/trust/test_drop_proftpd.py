#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_drop_proftpd.py - proftpd forks for each session, which logs in as another
user by seteuid() and back, and gives up root in the end

Files go both ways, for clients of root and of that user.
"""
import ftplib
import os

import dropping

CONFIG = """
ServerType standalone
ServerName test
Port %(port)d
DefaultAddress 127.0.0.1
UseIPv6 off
UseReverseDNS off
WtmpLog off
TransferLog none
SystemLog %(tmp)s/log
PidFile %(tmp)s/pid
ScoreboardFile %(tmp)s/score
DelayEngine off
User nobody
Group nogroup
RequireValidShell off
AuthOrder mod_auth_file.c
AuthUserFile %(tmp)s/passwd
AuthGroupFile %(tmp)s/group
RootRevoke on
AllowOverwrite on
<Directory %(tmp)s/files>
    <Limit ALL>
        AllowAll
    </Limit>
</Directory>
"""
BYTES = 8 << 20


def configure(drop, port):
    run = drop.run
    os.mkdir(run.path("files"))
    os.chmod(run.path("files"), 0o777)
    secret = run.check(["openssl", "passwd", "-6", "-salt", "abcdefgh", "secret"],
                       osf=False).strip()
    with open(run.path("passwd"), "w") as f:
        f.write("guest:%s:%d:%d::%s:/bin/sh\n" % (secret, drop.user.pw_uid, drop.user.pw_gid,
                                                 run.path("files")))
    with open(run.path("group"), "w") as f:
        f.write("guest:x:%d:guest\n" % drop.user.pw_gid)
    for name in ("passwd", "group"):
        os.chmod(run.path(name), 0o600)
    with open(run.path("conf"), "w") as f:
        f.write(CONFIG % {"port": port, "tmp": run.tmp})


def both_ways(drop, port, as_user):
    run = drop.run
    url = "ftp://guest:secret@127.0.0.1:%d/file" % port
    drop.check(["curl", "-sS", "--max-time", "40", "-T", run.path("src"), url],
               as_user=as_user)
    got = drop.check(["curl", "-sS", "--max-time", "40", url], as_user=as_user, text=False)
    with open(run.path("src"), "rb") as f:
        run.need(got == f.read(), "other bytes came")


def main():
    drop = dropping.Drop(__file__, ["proftpd", "curl", "openssl"], "games")
    dropping.harness.make_file(drop.run.path("src"), BYTES)
    os.chmod(drop.run.path("src"), 0o644)
    port = dropping.harness.free_port()
    configure(drop, port)
    drop.serve(["proftpd", "-n", "-q", "-c", drop.run.path("conf")], port)
    for as_user in (False, True, False, True):
        both_ways(drop, port, as_user)
    with ftplib.FTP() as ftp:
        ftp.connect("127.0.0.1", port, 20)
        ftp.login("guest", "secret")
        drop.judge()
    drop.done()


main()
