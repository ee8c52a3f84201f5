#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_no_means.py - a program without means does what it does on the kernel

Connections are made, carry bytes, and are passed on, by a program that has no descriptor
left but the two it needs for each, may not make a process or a thread, has little address
space or little memory for data, or is in a root folder without /proc.  All bytes arrive,
no signal comes, and whatever fails on the kernel is all that fails.
"""
import array
import os
import resource
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
import harness  # noqa: E402

CONNECTIONS = 12
TURNS = 14  # after which a connection is in shared memory
BULK = 3 << 20
OTHER_UID = 65531


# --- inside a program under osf ---

def no_descriptors():
    """All but what the connections need."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (120, 120))
    held = []
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    for fd in held[-(2 * CONNECTIONS + 4):]:
        os.close(fd)


def no_processes():
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    os.setgid(OTHER_UID)
    os.setuid(OTHER_UID)
    try:
        if os.fork() == 0:
            os._exit(0)
        print("forked")
    except OSError:
        pass


def little_address_space():
    with open("/proc/self/statm") as f:
        now = int(f.read().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (now + (48 << 20), now + (48 << 20)))


def little_data():
    resource.setrlimit(resource.RLIMIT_DATA, (64 << 20, 64 << 20))


def no_locked_memory():
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))


def no_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def little_stack():
    resource.setrlimit(resource.RLIMIT_STACK, (256 << 10, 256 << 10))


def no_proc():
    os.mkdir("root")
    os.chroot("root")
    os.chdir("/")


MEANS = {"descriptors": no_descriptors, "processes": no_processes,
         "address_space": little_address_space, "data": little_data, "proc": no_proc,
         "locked": no_locked_memory, "files": no_files, "stack": little_stack,
         "nothing": lambda: None}


def talk(a, b):
    for i in range(TURNS):
        a.sendall(b"%d" % i)
        assert b.recv(10) == b"%d" % i
        a, b = b, a


def bulk(a, b):
    """A part at a time, which both buffers have room for."""
    part = bytes(range(256)) * 64
    for _ in range(BULK // len(part)):
        a.sendall(part)
        got = b""
        while len(got) < len(part):
            got += b.recv(len(part) - len(got))
        assert got == part


def pass_on(sock):
    """Through a unix socket, as to another process."""
    here, there = socket.socketpair()
    here.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                           array.array("i", [sock.fileno()]))])
    sock.close()
    fds = array.array("i")
    for _, _, data in there.recvmsg(1, 100)[1]:
        fds.frombytes(data)
    here.close()
    there.close()
    return socket.socket(fileno=fds[0])


def program(what):
    listener = socket.create_server(("127.0.0.1", 0), backlog=CONNECTIONS)
    where = listener.getsockname()
    MEANS[what]()
    pairs = []
    for _ in range(CONNECTIONS):
        a = socket.socket()
        a.connect(where)
        pairs.append((a, listener.accept()[0]))
    for a, b in pairs:
        talk(a, b)
        bulk(a, b)
    a, b = pairs.pop()
    pairs.pop()[0].close()
    a = pass_on(a)
    talk(a, b)
    for a, b in pairs:
        talk(b, a)
    print("all arrived")


# --- outside ---

def main():
    run = harness.Run(__file__, not_with={
        "address": "its runtime needs the address space", "thread": "likewise"})
    for what in MEANS:
        folder = run.path(what)
        os.makedirs(folder)
        for osf in (False, True):
            result = subprocess.run(
                [sys.executable, os.path.abspath(__file__), "program", what],
                env=run.env(osf=osf, eager=True), cwd=folder, timeout=40,
                capture_output=True, text=True)
            if os.path.isdir(os.path.join(folder, "root")):
                os.rmdir(os.path.join(folder, "root"))
            run.need(result.returncode == 0 and "all arrived" in result.stdout,
                     "no %s, %s osf: %d\n%s%s" % (what, "with" if osf else "without",
                                                  result.returncode, result.stdout,
                                                  result.stderr[-1500:]))
        print("no %s: ok" % what, flush=True)
    run.done()


if sys.argv[1:2] == ["program"]:
    program(sys.argv[2])
else:
    main()
