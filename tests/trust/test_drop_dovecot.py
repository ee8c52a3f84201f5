#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_drop_dovecot.py - dovecot: a root master, logins in a chroot as a user with
no rights, and a process of the user who has logged in, who is passed the connection

Mails are stored and read back over IMAP, by clients of root and of that user.  None of them
shares memory with the process that logs in.  Then the process and clients name each other in
OSF_ALLOW_UIDS: connections are in shared memory when they are passed on, and come back.
"""
import imaplib
import os
import pwd
import sys

import dropping

CONFIG = """
base_dir = %(tmp)s/run
state_dir = %(tmp)s/run
log_path = %(tmp)s/log
protocols = imap
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
mail_location = maildir:%(tmp)s/mail
first_valid_uid = 1
import_environment = TZ LD_PRELOAD OSF_STATS_DIR OSF_UPGRADE_TURNS OSF_ALLOW_UIDS
default_internal_user = dovecot
default_login_user = dovenull
passdb {
  driver = static
  args = password=secret
}
userdb {
  driver = static
  args = uid=%(uid)d gid=%(gid)d home=%(tmp)s/mail
}
service imap-login {
  inet_listener imap {
    port = %(port)d
  }
  inet_listener imaps {
    port = 0
  }
}
service stats {
  unix_listener stats-writer {
    mode = 0666
  }
}
"""
MAILS = 5


def client(port, serial):
    """Runs under osf."""
    body = b"".join(b"line %d of the mail %s\r\n" % (i, serial) for i in range(30000))
    with imaplib.IMAP4("127.0.0.1", port) as imap:
        imap.login("guest", "secret")
        imap.select()
        for _ in range(MAILS):
            assert imap.append("INBOX", None, None, body)[0] == "OK"
        imap.select()
        last = imap.search(None, "ALL")[1][0].split()[-MAILS:]
        for one in last:
            got = imap.fetch(one, "(BODY.PEEK[])")[1][0][1]
            assert got == body, "another mail came: %d bytes of %d" % (len(got), len(body))
    print("mails are right")


def main():
    drop = dropping.Drop(__file__, ["dovecot"], "games")
    for user in ("dovecot", "dovenull"):
        try:
            pwd.getpwnam(user)
        except KeyError:
            dropping.harness.skip("no user " + user)
    run = drop.run
    for name in ("mail", "run"):
        os.mkdir(run.path(name), 0o755)
    os.chown(run.path("mail"), drop.user.pw_uid, drop.user.pw_gid)
    port = dropping.harness.free_port()
    with open(run.path("conf"), "w") as f:
        f.write(CONFIG % {"tmp": run.tmp, "port": port, "uid": drop.user.pw_uid,
                          "gid": drop.user.pw_gid})
    allow = {"OSF_ALLOW_UIDS": "%d,%d" % (drop.user.pw_uid, pwd.getpwnam("dovenull").pw_uid)}
    drop.serve(["dovecot", "-F", "-c", run.path("conf")], port, extra=allow)
    for serial, (as_user, extra) in enumerate(((False, {}), (True, {}), (True, allow))):
        run.need(not drop.upgraded(), "a client shared memory with who logs in")
        said = drop.check([sys.executable, os.path.abspath(__file__), "client", str(port),
                           str(serial)], as_user=as_user, extra=extra)
        run.need("right" in said, said)
        drop.judge()
    drop.done()


if sys.argv[1:2] == ["client"]:
    client(int(sys.argv[2]), sys.argv[3].encode())
else:
    main()
