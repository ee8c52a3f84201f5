#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_memory_limit.py - a program that may take little memory lives, as on the kernel

The kernel shrinks the windows of sockets when memory is short.  A ring that is written beyond
the limit of a memory cgroup has the process killed, and with vm.overcommit_memory=2 it raises
SIGBUS.  So a program in a cgroup with little room exchanges bytes over many connections: some
move to shared memory, the rest stays with the kernel, and all bytes arrive.  And where the
kernel counts what it promises (which a file mounted over /proc/sys says), none moves.
"""
import os
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
import harness  # noqa: E402

CONNECTIONS = 60
TURNS = 14  # after which a connection is in shared memory
BULK = 1 << 20
LIMIT = 40 << 20
PARTS = {"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max"}


def receive(conn, n):
    got = 0
    while got < n:
        data = conn.recv(min(n - got, 65536))
        if not data:
            sys.exit("the connection ended")
        got += len(data)


# --- inside programs under osf ---

def peer(port):
    listener = socket.create_server(("127.0.0.1", port), backlog=CONNECTIONS)
    listener.accept()[0].close()  # of wait_port()
    conns = [listener.accept()[0] for _ in range(CONNECTIONS)]
    for conn in conns:
        for _ in range(TURNS):
            conn.sendall(conn.recv(1))
    for conn in conns:
        receive(conn, BULK)
        conn.sendall(b"x" * BULK)
    conns[0].recv(1)


def program(port):
    conns = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
    for conn in conns:
        for _ in range(TURNS):
            conn.sendall(b"y")
            receive(conn, 1)
    for conn in conns:
        conn.sendall(b"y" * BULK)
        receive(conn, BULK)
    print("all arrived")


# --- outside ---

def cgroup():
    """A new one, and the name of its limit; None."""
    for root, limit in PARTS.items():
        path = os.path.join(root, "osf-test-%d" % os.getpid())
        try:
            os.mkdir(path)
        except OSError:
            continue
        if os.path.exists(os.path.join(path, limit)):
            return path, limit
        os.rmdir(path)
    return None


def exchange(run, prefix):
    """@prefix: what executes the program.  Return: by how many connections it had moved."""
    port = harness.free_port()
    script = os.path.abspath(__file__)
    before = harness.sum_stats(harness.read_stats(run.stats))["n_upgraded"]
    run.start([sys.executable, script, "peer", port], eager=True)
    run.wait_port(port)
    said = run.check(prefix + [sys.executable, script, "program", port], eager=True)
    run.need("all arrived" in said, "%s: %r" % (prefix, said))
    return harness.sum_stats(harness.read_stats(run.stats))["n_upgraded"] - before


def in_cgroup(run, group):
    path, limit = group
    try:
        with open(os.path.join(path, limit), "w") as f:
            f.write(str(LIMIT))
        moved = exchange(run, ["sh", "-c", 'echo $$ >"$0" && exec "$@"',
                               os.path.join(path, "cgroup.procs")])
    finally:
        os.rmdir(path)
    run.need(0 < moved < 2 * CONNECTIONS, "%d ends of connections moved" % moved)


def counted(run):
    """What the kernel promises."""
    said = run.path("overcommit_memory")
    with open(said, "w") as f:
        f.write("2\n")
    moved = exchange(run, ["unshare", "-m", "sh", "-c",
                           'mount --bind "$0" /proc/sys/vm/overcommit_memory && exec "$@"', said])
    run.need(not moved, "%d ends of connections moved" % moved)


def main():
    run = harness.Run(__file__, not_with={"address": "its runtime takes the memory",
                                          "thread": "likewise"})
    if os.geteuid():
        harness.skip("only root can make a cgroup")
    group = cgroup()
    if not group:
        harness.skip("no memory cgroup can be made")
    in_cgroup(run, group)
    if not subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode:
        counted(run)
    run.done()


if sys.argv[1:2] == ["peer"]:
    peer(int(sys.argv[2]))
elif sys.argv[1:2] == ["program"]:
    program(int(sys.argv[2]))
else:
    main()
