#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_vsftpd.py - vsftpd: a login, files both ways, many in one session

It forks for each session, twice, limits address space and descriptors of these processes
after they have begun, and changes uid, root and process namespace.  Its sandbox is
switched off: Debian's kills the session on the kernel too.
"""
import os
import pwd
import sys

import harness

BIG = 20 << 20
FILES = 12


def home_user():
    """vsftpd logs anonymous users in as one whose home there is."""
    for name in ("ftp", "daemon", "mail", "games"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        if os.path.isdir(user.pw_dir):
            return user
    harness.skip("no user with a home")


def make_tree(run, user):
    pub, up = run.path("root/pub"), run.path("root/up")
    for path in (pub, up, run.path("empty")):
        os.makedirs(path, 0o755)
    os.chmod(run.path("root"), 0o555)
    os.chown(up, user.pw_uid, user.pw_gid)
    harness.make_file(os.path.join(pub, "big"), BIG)
    for i in range(FILES):
        with open(os.path.join(pub, "f%d" % i), "w") as f:
            f.write("file %d\n" % i)


def configure(run, user, port):
    settings = {
        "listen": "YES", "listen_address": "127.0.0.1", "listen_port": port,
        "background": "NO", "anonymous_enable": "YES", "local_enable": "NO",
        "no_anon_password": "YES", "anon_root": run.path("root"),
        "ftp_username": user.pw_name, "secure_chroot_dir": run.path("empty"),
        "xferlog_enable": "NO", "write_enable": "YES",
        "anon_upload_enable": "YES", "anon_umask": "022",
        "pasv_address": "127.0.0.1", "seccomp_sandbox": "NO",
    }
    path = run.path("vsftpd.%d.conf" % port)
    with open(path, "w") as f:
        f.write("".join("%s=%s\n" % item for item in settings.items()))
    return path


def curl(run, osf, *words):
    return run.check(["curl", "-sS", "--max-time", 20] + list(words), osf=osf)


def both_ways(run, url, osf, name):
    big, got = run.path("root/pub/big"), run.path("got")
    curl(run, osf, "-o", got, url + "pub/big")
    run.need(harness.sha256(got) == harness.sha256(big), "another file came")
    curl(run, osf, "-T", big, url + "up/" + name)
    run.need(harness.sha256(run.path("root/up/" + name)) ==
             harness.sha256(big), "another file arrived")


def session(run, url, osf):
    text = curl(run, osf, url + "pub/f[0-%d]" % (FILES - 1))
    run.need(text == "".join("file %d\n" % i for i in range(FILES)),
             "not the files, but:\n" + text)


def serve(run, user, eager):
    port = harness.free_port()
    proc = run.start(["vsftpd", configure(run, user, port)],
                     eager=eager)
    run.wait_port(port)
    url = "ftp://127.0.0.1:%d/" % port
    for osf in (True, False):
        both_ways(run, url, osf, "%d.%d" % (port, osf))
        session(run, url, osf)
    run.stop(proc)


def main():
    run = harness.Run(__file__, needs=["vsftpd", "curl"])
    if os.getuid():
        harness.skip("vsftpd has to be started by root")
    user = home_user()
    make_tree(run, user)
    serve(run, user, eager=False)
    serve(run, user, eager=True)
    run.done()


if __name__ == "__main__":
    main()
