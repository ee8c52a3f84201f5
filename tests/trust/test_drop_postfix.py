#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_drop_postfix.py - Postfix: master is root; smtpd, cleanup, qmgr and smtp are
programs that it forks and executes as root, and that become the user postfix

Mails go in by smtpd, through the queue, and out by smtp to a server of the test, which
compares them; by clients of root and of the user postfix.
"""
import os
import pwd
import smtplib
import socketserver
import sys
import threading

import dropping

DAEMONS = "/usr/lib/postfix/sbin"
MAIN = """
compatibility_level = 3.6
queue_directory = %(tmp)s/spool
data_directory = %(tmp)s/data
daemon_directory = %(daemons)s
meta_directory = /etc/postfix
maillog_file_prefixes = %(tmp)s
maillog_file = %(tmp)s/log.postfix
mail_owner = postfix
setgid_group = postdrop
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
myhostname = test.invalid
mydestination =
mynetworks = 127.0.0.0/8
relayhost = [127.0.0.1]:%(sink)d
alias_maps =
smtp_dns_support_level = disabled
smtp_host_lookup = native
import_environment = MAIL_CONFIG MAIL_LOGTAG TZ LD_PRELOAD OSF_STATS_DIR OSF_UPGRADE_TURNS
"""
MASTER = """
%(port)d inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
error unix - - n - - error
retry unix - - n - - error
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
"""
MAILS = 3
PATIENCE_S = 40


def body(serial):
    return "".join("line %d of mail %d\r\n" % (i, serial) for i in range(20000))


class Sink(socketserver.StreamRequestHandler):
    """Takes mails as an SMTP server does, and keeps them in server.mails."""

    def mail(self):
        self.say("354 go on")
        lines = []
        while True:
            line = self.rfile.readline()
            if line == b".\r\n" or not line:
                break
            lines.append(line)
        self.server.mails.append(b"".join(lines).decode())
        with self.server.news:
            self.server.news.notify()

    def say(self, text):
        self.wfile.write(text.encode() + b"\r\n")

    def handle(self):
        self.say("220 sink")
        for line in self.rfile:
            word = line[:4].upper().strip()
            if word == b"QUIT":  # Postfix does not wait for the answer
                break
            if word == b"DATA":
                self.mail()
            self.say("250 ok")


def client(port, serials):
    """Runs under osf."""
    with smtplib.SMTP("127.0.0.1", port, timeout=30) as smtp:
        for serial in serials:
            smtp.sendmail("a@test.invalid", ["b@example.invalid"],
                          "Subject: mail %d\r\n\r\n" % serial + body(serial))


def configure(drop, port, sink):
    run = drop.run
    for name in ("etc", "spool", "data"):
        os.mkdir(run.path(name), 0o755)
    os.chown(run.path("data"), drop.user.pw_uid, -1)
    for name, text in (("main.cf", MAIN), ("master.cf", MASTER)):
        with open(run.path("etc/" + name), "w") as f:
            f.write(text % {"tmp": run.tmp, "port": port, "sink": sink, "daemons": DAEMONS})
    run.check(["postfix", "-c", run.path("etc"), "check"], osf=False)


def main():
    drop = dropping.Drop(__file__, ["postfix"], "postfix")
    run = drop.run
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Sink) as server:
        server.daemon_threads = True
        server.mails, server.news = [], threading.Condition()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = dropping.harness.free_port()
        configure(drop, port, server.server_address[1])
        drop.serve([DAEMONS + "/master", "-c", run.path("etc"), "-d"], port,
                   extra={"MAIL_LOGTAG": "postfix", "MAIL_CONFIG": run.path("etc")})
        for as_user in (False, True):
            serials = [str(i + MAILS * as_user) for i in range(MAILS)]
            drop.check([sys.executable, os.path.abspath(__file__), "client", str(port)] +
                       serials, as_user=as_user)
            drop.judge()
        with server.news:
            server.news.wait_for(lambda: len(server.mails) == 2 * MAILS, PATIENCE_S)
        drop.judge()
        run.need(len(server.mails) == 2 * MAILS, "%d mails came\n" % len(server.mails))
        for i in range(2 * MAILS):
            run.need(any(mail.endswith("\r\n\r\n" + body(i)) for mail in server.mails),
                     "mail %d differs" % i)
        server.shutdown()
    drop.done(least=0)


if sys.argv[1:2] == ["client"]:
    client(int(sys.argv[2]), [int(word) for word in sys.argv[3:]])
else:
    main()
