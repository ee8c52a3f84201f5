#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_users.py - who shares memory with whom, and that both ends say why not

Two programs under osf talk: as one user; as root and another user; as one user in two
user namespaces; as two users of one namespace that has numbers for others only, so that the
kernel calls both of them, and each itself, 65534.  They share memory in the first case, and
where OSF_ALLOW_UIDS of both names the other.
"""
import ctypes
import os
import signal
import tempfile

import attacker
import harness

HERE = os.path.dirname(os.path.abspath(__file__))
VICTIM = os.path.join(HERE, "victim.py")
CLONE_NEWUSER = 0x10000000
PYTHON = "/usr/bin/python3"  # other users may not see one of root's
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
SOMEBODY = ["setpriv", "--reuid", "65533", "--regid", "65533", "--clear-groups"]
# An unprivileged user can map its own number alone.
NAMESPACE = SOMEBODY + ["unshare", "--user", "--map-current-user"]


def entering(uid, pid):
    """The user @uid enters the user namespace of @pid."""
    caps = ["--%s-caps=+sys_admin,+sys_ptrace" % kind for kind in ("inh", "ambient")]
    return ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"] + caps + [
        "nsenter", "--user", "--preserve-credentials", "--target", str(pid)]


def namespace_of_root_alone():
    """Return: a process in it."""
    made, told = os.pipe()
    unshare = ctypes.CDLL(None).unshare
    pid = attacker.as_user(0, lambda: (unshare(CLONE_NEWUSER), os.write(told, b"x"),
                                       signal.pause()))
    os.read(made, 1)
    with open("/proc/%d/uid_map" % pid, "w") as f:
        f.write("0 0 1")
    return pid


def why(run, program):
    """The reasons that @program's connections have, in words."""
    names = harness.reason_names()
    found = set()
    for segment in harness.read_stats(run.stats):
        for sock in segment.socks:
            if not sock.listening:
                found.add((bool(sock.passive), names[sock.reason]))
        for i, n in enumerate(segment.reasons):
            if n and names[i] not in ("LISTENER", "NONE"):
                found.add((segment.total["n_accepted"] > 0, names[i]))
    return {reason for passive, reason in found if passive == (program == "server")}


def talk(run, server, client, reason, allow=None):
    """@server and @client are what their commands begin with."""
    port = harness.free_port()
    run.stats = tempfile.mkdtemp(dir=run.tmp)
    os.chmod(run.stats, 0o777)
    allow_server, allow_client = allow or ({}, {})
    python = [PYTHON, VICTIM]
    answers = run.start(server + python + ["echo", port], eager=True, extra=allow_server)
    run.wait_port(port)
    asks = run.start(client + python + ["ask", port, 100], eager=True, extra=allow_client)
    run.wait(asks)
    run.stop(answers)
    got = {end: why(run, end) for end in ("server", "client")}
    print("%s, %s: %s" % (server, client, got))
    for end in got:
        run.need(reason in got[end] and (reason == "UPGRADED" or "UPGRADED" not in got[end]),
                 "the %s says %s, not %s" % (end, got[end], reason))


def allow(number):
    return {"OSF_ALLOW_UIDS": str(number)}


def main():
    run = harness.Run(__file__)
    if not harness.find("setpriv") or not harness.find("unshare"):
        harness.skip("no setpriv, unshare (Debian package util-linux)")
    if os.system(" ".join(NOBODY + [PYTHON, VICTIM, "may_run"])):
        harness.skip("another user cannot run %s" % VICTIM)
    talk(run, [], [], "UPGRADED")
    talk(run, NOBODY, NOBODY, "UPGRADED")
    talk(run, [], NOBODY, "OTHER_UID")
    talk(run, NOBODY, [], "OTHER_UID")
    talk(run, [], NOBODY, "UPGRADED", (allow(65534), allow(0)))
    if os.system(" ".join(NAMESPACE + [PYTHON, VICTIM, "may_run"])):
        print("no user namespaces here")
    else:
        talk(run, SOMEBODY, NAMESPACE, "OTHER_USERNS")
        talk(run, NAMESPACE, SOMEBODY, "OTHER_USERNS")
    pid = namespace_of_root_alone()
    try:
        a, b = entering(65531, pid), entering(65532, pid)
        talk(run, a, b, "OTHER_UID")
        talk(run, a, b, "OTHER_UID", (allow(65534), allow(65534)))
        talk(run, a, a, "OTHER_UID")  # the kernel does not say that these are the same
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    run.done()


main()
