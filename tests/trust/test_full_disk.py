#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_full_disk.py - a file system without room does what it does on the kernel

Another program fills the file system that has the statistics, before the program under
osf starts, or while it opens connections.  The program goes on, and all its bytes arrive:
no signal, and at most the one warning about the statistics.  The same with a limit on
the size of files.
"""
import os
import resource
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
import harness  # noqa: E402

CONNECTIONS = 300
TURNS = 8  # after which a connection is in shared memory
DISK = "256k"


# --- inside a program under osf ---

def fill():
    """Every block of the file system is somebody else's."""
    path = os.path.join(os.environ["OSF_STATS_DIR"], "fill")
    with open(path, "wb", buffering=0) as f:
        try:
            while True:
                f.write(b"\0" * 4096)
        except OSError:
            pass


def talk(a, b):
    for i in range(TURNS):
        a.sendall(b"%d" % i)
        assert b.recv(10) == b"%d" % i
        a, b = b, a


def connect_many():
    listener = socket.create_server(("127.0.0.1", 0), backlog=600)
    pairs = []
    for _ in range(CONNECTIONS):
        a = socket.create_connection(listener.getsockname())
        pairs.append((a, listener.accept()[0]))
    for a, b in pairs[::20]:
        talk(a, b)
    print("all connected")


def program(when):
    if when == "before":
        fill()
        sys.exit(subprocess.run([sys.executable, os.path.abspath(__file__), "program",
                                 "never"]).returncode)
    if when == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (60000, 60000))
    if when == "while":
        fill()
    connect_many()


# --- outside ---

def main():
    run = harness.Run(__file__)
    if os.geteuid() or subprocess.run(["unshare", "-m", "true"],
                                      stderr=subprocess.DEVNULL).returncode:
        harness.skip("only root can mount a small file system")
    for when in ("before", "while", "limit", "never"):
        said = run.check(["unshare", "-m", "sh", "-c",
                          'mount -t tmpfs -o size=%s none "$0" && exec "$@"' % DISK,
                          run.stats, sys.executable, os.path.abspath(__file__), "program",
                          when])
        run.need("all connected" in said, "%s: %r" % (when, said))
    run.done()


if sys.argv[1:2] == ["program"]:
    program(sys.argv[2])
else:
    main()
