# SPDX-License-Identifier: MIT
"""
tests/app/ports.py - a port for a server that a test is about to start

    port = ports.free_port()                       it is the caller's until it ends

A port that the kernel picks (bind() to 0) may belong to somebody else before the server
binds it: the kernel gives it to any client that connects in between.  So this picks one that
the kernel gives to nobody, below ip_local_port_range.  Tests that run side by side agree
who has it by a unix name, which goes away with the process that has bound it.
"""
import errno
import random
import socket

LOWEST = 10000
TRIES = 1000
kept = []  # the unix names
rng = random.Random()  # the seed of a test does not say which ports are free


def first_of_kernel():
    with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
        return int(f.read().split()[0])


def is_free(port, kind):
    """Can a server bind it, at all addresses?"""
    with socket.socket(socket.AF_INET, kind) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, kind == socket.SOCK_STREAM)
        try:
            s.bind(("", port))
        except OSError as why:
            if why.errno != errno.EADDRINUSE:
                raise
            return False
    return True


def is_claimed(port):
    """Does another test have it?  If not, we have it from now on."""
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind("\0osf-test-port/%d" % port)
    except OSError as why:
        name.close()
        if why.errno != errno.EADDRINUSE:
            raise
        return True
    kept.append(name)
    return False


def free_port(kind=socket.SOCK_STREAM):
    end = first_of_kernel()
    if end <= LOWEST:
        raise RuntimeError("the kernel gives all ports to clients")
    for _ in range(TRIES):
        port = rng.randrange(LOWEST, end)
        if is_free(port, kind) and not is_claimed(port):
            return port
    raise RuntimeError("no port is free")
