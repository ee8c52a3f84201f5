#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_ssh.py - sshd, ssh and scp with keys and a configuration of their
own: commands, their status, streams both ways, and copied files
"""
import os
import pwd
import sys

import harness

CONFIG = """
Port %(port)d
ListenAddress 127.0.0.1
HostKey %(tmp)s/host
AuthorizedKeysFile %(tmp)s/key.pub
PidFile %(tmp)s/sshd.pid
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitRootLogin yes
Subsystem sftp internal-sftp
"""


def privilege_separation():
    """sshd wants its empty folder when it runs as root."""
    if os.getuid() or os.path.isdir("/run/sshd"):
        return
    try:
        os.mkdir("/run/sshd", 0o755)
    except OSError as why:
        harness.skip("sshd needs /run/sshd: %s" % why)


def sshd_start(run):
    port = harness.free_port()
    for name in ("host", "key"):
        run.check(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                   run.path(name)], osf=False)
    with open(run.path("config"), "w") as f:
        f.write(CONFIG % {"port": port, "tmp": run.tmp})
    run.start(["sshd", "-D", "-e", "-f", run.path("config")])
    run.wait_port(port)
    return port


def main():
    run = harness.Run(__file__, ["sshd", "ssh", "scp", "ssh-keygen"])
    privilege_separation()
    port = sshd_start(run)
    user = pwd.getpwuid(os.getuid()).pw_name
    common = ["-F", "/dev/null", "-i", run.path("key"), "-o",
              "StrictHostKeyChecking=no", "-o",
              "UserKnownHostsFile=" + run.path("known"), "-o",
              "BatchMode=yes", "-o", "LogLevel=ERROR"]
    ssh = ["ssh", "-p", port] + common + [user + "@127.0.0.1"]
    # A machine may forbid this user to log in at all: no fault of osf.
    try:
        text = run.check(ssh + ["echo hello; exit 0"], osf=False)
    except SystemExit:
        harness.skip("this user cannot log in with a key here")
    run.need(text == "hello\n", "ssh on the kernel said %r" % text)
    text = run.check(ssh + ["echo hello"])
    run.need(text == "hello\n", "ssh said %r" % text)
    run.check(ssh + ["exit 7"], status=7)
    src = harness.make_file(run.path("src"), 60 << 20, 9)
    with open(src, "rb") as f:
        text = run.check(ssh + ["sha256sum"], stdin=f)
    run.need(text.split()[0] == harness.sha256(src), "a stream to ssh differs")
    data = run.check(ssh + ["cat " + src], text=False)
    run.need(harness.hashlib.sha256(data).hexdigest() == harness.sha256(src),
             "a stream from ssh differs")
    there = "%s@127.0.0.1:%s" % (user, run.path("dst"))
    for options in ([], ["-O"]):
        run.check(["scp", "-P", port] + options + common + [src, there])
        run.need(harness.sha256(run.path("dst")) == harness.sha256(src),
                 "scp %s there differs" % options)
        os.unlink(run.path("dst"))
        run.check(["scp", "-P", port] + options + common +
                  [there.replace("dst", "src"), run.path("dst")])
        run.need(harness.sha256(run.path("dst")) == harness.sha256(src),
                 "scp %s back differs" % options)
        os.unlink(run.path("dst"))
    # sshd re-executes itself for each session, which adopts the connection; its children
    # change their groups or users while they have it.  All six that move 60 MB move them
    # mostly in shared memory.
    run.expect_offloaded(6, min_bytes=6 * (30 << 20))
    run.done()


if __name__ == "__main__":
    sys.exit(main())
