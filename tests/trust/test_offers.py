#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_offers.py - who has given up authority does not offer memory as who it was

A root process makes a connection, and a unix socket over which its peer could share memory with
it.  The kernel tells that peer who the process was when it made the socket.  Then the process
becomes another user: the process itself, or a child that has the connection alone, or with its
parent.  From then on the process has no such socket; one that it makes later says who it is.
"""
import ctypes
import encodings.idna  # noqa: F401, before this is another user
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
import harness  # noqa: E402

USER = 12345
PR_SET_DUMPABLE, PR_CAPBSET_DROP, CAP_NET_RAW, SYS_SETUID = 4, 24, 13, 105
libc = ctypes.CDLL(None)
WAYS = {
    "setuid": lambda: os.setuid(USER),
    "setuid_raw": lambda: libc.syscall(SYS_SETUID, USER),
    "seteuid": lambda: os.seteuid(USER),
    "setgroups": lambda: os.setgroups([USER]),
    "bounding_set": lambda: libc.prctl(PR_CAPBSET_DROP, CAP_NET_RAW, 0, 0, 0),
}


# --- under osf ---

def offers():
    """The names of unix sockets of this process over which memory is shared."""
    libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # our own /proc/self/fd
    with open("/proc/net/unix") as f:
        names = {line.split()[6]: line.split()[7] for line in f if "@osf8/" in line}
    links = ["/proc/self/fd/" + fd for fd in os.listdir("/proc/self/fd")]
    found = [os.readlink(link) for link in links if os.path.islink(link)]
    return {names[link[8:-1]] for link in found if link[:8] == "socket:[" and link[8:-1] in names}


def ask(conn, n):
    for _ in range(n):
        conn.send(b"x")
        assert conn.recv(10)


def drop(conn, before, way):
    WAYS[way]()
    after = offers()
    assert not after & before, "still there: %s" % after
    ask(conn, 3)
    assert not offers() & before


def one(port, way, who):
    conn = socket.create_connection(("127.0.0.1", port))
    ask(conn, 3)
    before = offers()
    assert before, "nothing was offered"
    go, do = os.pipe()
    if who == "process":
        return drop(conn, before, way)
    pid = os.fork()
    if pid == 0:
        os.read(go, 1)
        drop(conn, before, way)
        os._exit(0)
    if who == "child":
        conn.close()
    os.write(do, b"x")
    assert os.waitpid(pid, 0)[1] == 0, "see above"
    if who == "both":
        assert offers() == before, "the parent has lost its own"
        ask(conn, 3)
    return None


def everyone(port):
    for way in WAYS:
        for who in ("process", "child", "both"):
            pid = os.fork()
            if pid == 0:
                one(port, way, who)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0, way + " " + who
            print("ok", way, who, flush=True)
    print("done")


# --- outside ---

def main():
    run = harness.Run(__file__)
    if run.is_kernel:
        harness.skip("the sockets are osf's")
    if os.geteuid():
        harness.skip("only root can become another user")
    port = harness.free_port()
    victim = os.path.join(os.path.dirname(os.path.abspath(__file__)), "victim.py")
    server = run.start([sys.executable, victim, "echo", port], osf=False)  # takes no offer
    run.wait_port(port)
    said = run.check([sys.executable, os.path.abspath(__file__), "everyone", str(port)], eager=True)
    run.need("done" in said, said)
    run.stop(server)
    run.done()


if sys.argv[1:2] == ["everyone"]:
    everyone(int(sys.argv[2]))
else:
    main()
