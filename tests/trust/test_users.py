#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_users.py - who shares memory with whom, and that both ends say why not

Two programs under osf talk: as one user; as root and another user; as one user in two
user namespaces.  They share memory in the first case, and where
OSF_ALLOW_UIDS of both names the other.
"""
import os
import tempfile

import attacker
import harness

HERE = os.path.dirname(os.path.abspath(__file__))
VICTIM = os.path.join(HERE, "victim.py")
PYTHON = "/usr/bin/python3"  # other users may not see one of root's
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
# An unprivileged user can map its own number alone.
NAMESPACE = NOBODY + ["unshare", "--user", "--map-current-user"]


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
    print("%s, %s: %s" % (server[-1:], client[-1:], got))
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
        talk(run, NOBODY, NAMESPACE, "OTHER_USERNS")
        talk(run, NAMESPACE, NOBODY, "OTHER_USERNS")
    run.done()


main()
