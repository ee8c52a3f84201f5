#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_drop_sshd.py - sshd gives up root twice for each session: before the login
(user sshd, with a filter of system calls) and after it (the user who has logged in)

Files go both ways, for clients of root, who is the user of sshd's first process, and for one
of the user who logs in.  All bytes must come, whether a connection was in shared memory when
sshd changed its user, and so came back to the kernel, or had not moved yet: which of the two
is a matter of microseconds, so it is said and not demanded.
"""
import os

import dropping

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
Subsystem sftp internal-sftp
ForceCommand internal-sftp
"""
BYTES = 4 << 20
SESSIONS = 4


def keys(drop):
    run = drop.run
    for name in ("host", "key"):
        run.check(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", run.path(name)],
                  osf=False)
    for who, owner in (("root", 0), ("user", drop.user.pw_uid)):
        with open(run.path("key"), "rb") as f, open(run.path("key." + who), "wb") as to:
            to.write(f.read())
        os.chown(to.name, owner, 0)
        os.chmod(to.name, 0o600)


def session(drop, port, as_user, eager=True):
    run = drop.run
    folder = run.path("files")
    dst = os.path.join(folder, "dst")
    batch = run.path("batch")
    with open(batch, "w") as f:
        f.write("put %s %s\nget %s %s\n" % (run.path("src"), dst, dst, folder + "/back"))
    os.chmod(folder, 0o777)
    drop.check(["sftp", "-q", "-b", batch, "-P", str(port), "-F", "/dev/null", "-i",
                run.path("key.user" if as_user else "key.root"),
                "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=" + run.path("known"),
                "-o", "BatchMode=yes", "-o", "LogLevel=ERROR",
                drop.user.pw_name + "@127.0.0.1"], as_user=as_user, eager=eager)
    for name in ("dst", "back"):
        got = os.path.join(folder, name)
        run.need(dropping.harness.sha256(got) == dropping.harness.sha256(run.path("src")),
                 name + " differs")
        os.unlink(got)


def main():
    drop = dropping.Drop(__file__, ["sshd", "ssh", "sftp"], "games")
    run = drop.run
    os.makedirs("/run/sshd", 0o755, exist_ok=True)
    os.mkdir(run.path("files"))
    dropping.harness.make_file(run.path("src"), BYTES)
    os.chmod(run.path("src"), 0o644)
    keys(drop)
    port = dropping.harness.free_port()
    with open(run.path("config"), "w") as f:
        f.write(CONFIG % {"port": port, "tmp": run.tmp})
    drop.serve(["sshd", "-D", "-e", "-f", run.path("config")], port)
    session(drop, port, as_user=True)
    for _ in range(SESSIONS):
        session(drop, port, as_user=False)
    drop.n_judged = 1  # its processes end with their sessions
    drop.done(least=0)


main()
