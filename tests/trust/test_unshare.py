#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_unshare.py - a child that gives up authority leaves its parent's memory

A root server with a listener, a young connection and one in shared memory forks a worker.
The worker gives up authority in one of the ways that there are, by libc's function or by
number.  After that it has no memory mapped for writing that the parent has mapped, except
the counts of who holds what.  Both go on with the connection, whose bytes are checked,
and the worker's new connections still move to shared memory.
"""
import ctypes
import os
import re
import signal
import socket
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
import harness  # noqa: E402

USER = 12345
TURNS = 40
PATIENCE_S = 60
COUNTS_KB = 16  # file/hold.c: claims, which are numbers
PR_SET_DUMPABLE, PR_SET_SECCOMP = 4, 22
CLONE_NEWUSER = 0x10000000
SYS = {"setuid": 105, "setgid": 106, "setgroups": 116, "setresuid": 117, "setresgid": 119,
       "capset": 126, "unshare": 272, "setreuid": 113, "setregid": 114, "setfsuid": 122,
       "setfsgid": 123, "clone": 56, "vfork": 58, "landlock_create_ruleset": 444,
       "landlock_restrict_self": 446}
PR_CAPBSET_DROP, PR_SET_SECUREBITS, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 24, 28, 38, 47
PR_CAP_AMBIENT_CLEAR_ALL, SECBIT_NOROOT, CAP_NET_RAW = 4, 1, 13
NONE = -1
libc = ctypes.CDLL(None, use_errno=True)


# --- ways to give up authority; each is a name of Ways, and may end in _raw ---

def need(r, what):
    if r < 0:
        raise OSError(ctypes.get_errno(), what)


def raw(name, *args):
    need(libc.syscall(SYS[name], *args), name)


def no_caps():
    head = struct.pack("<Ii", 0x20080522, 0)
    return ctypes.create_string_buffer(head), ctypes.create_string_buffer(bytes(24))


def prctl(option, arg=0):
    need(libc.prctl(option, ctypes.c_ulong(arg), 0, 0, 0), "prctl")


def setns():
    """Into the user namespace of a process that has made one."""
    wait, made = os.pipe()
    pid = os.fork()
    if pid == 0:
        libc.unshare(CLONE_NEWUSER)
        os.write(made, b"x")
        signal.pause()
    os.read(wait, 1)
    fd = os.open("/proc/%d/ns/user" % pid, os.O_RDONLY)
    need(libc.setns(fd, CLONE_NEWUSER), "setns")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def landlock():
    handled = struct.pack("<Q", 1)  # LANDLOCK_ACCESS_FS_EXECUTE
    fd = libc.syscall(SYS["landlock_create_ruleset"], handled, ctypes.c_size_t(8), 0)
    if fd < 0:  # a kernel without; then it is as if the process gave up something else
        return raw("setgid", USER)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    return raw("landlock_restrict_self", fd, 0)


def in_child(make, then):
    """Goes on in a child that make() makes; this process ends as it does."""
    pid = make()
    need(pid, "a child")
    if pid:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)
    then()


WAYS = {
    "setuid": lambda: need(libc.setuid(USER), "setuid"),
    "seteuid": lambda: need(libc.seteuid(USER), "seteuid"),
    "setreuid": lambda: need(libc.setreuid(NONE, USER), "setreuid"),
    "setresuid": lambda: need(libc.setresuid(NONE, USER, NONE), "setresuid"),
    "setfsuid": lambda: libc.setfsuid(USER),
    "setgid": lambda: need(libc.setgid(USER), "setgid"),
    "setegid": lambda: need(libc.setegid(USER), "setegid"),
    "setregid": lambda: need(libc.setregid(USER, USER), "setregid"),
    "setresgid": lambda: need(libc.setresgid(NONE, USER, NONE), "setresgid"),
    "setfsgid": lambda: libc.setfsgid(USER),
    "setgroups": lambda: need(libc.setgroups(1, (ctypes.c_uint32 * 1)(USER)), "setgroups"),
    "initgroups": lambda: need(libc.initgroups(b"nobody", USER), "initgroups"),
    "capset": lambda: need(libc.capset(*no_caps()), "capset"),
    "unshare": lambda: need(libc.unshare(CLONE_NEWUSER), "unshare"),
    "setuid_raw": lambda: raw("setuid", USER),
    "setgid_raw": lambda: raw("setgid", USER),
    "setreuid_raw": lambda: raw("setreuid", USER, USER),
    "setregid_raw": lambda: raw("setregid", USER, USER),
    "setresuid_raw": lambda: raw("setresuid", USER, USER, USER),
    "setresgid_raw": lambda: raw("setresgid", USER, USER, USER),
    "setfsuid_raw": lambda: raw("setfsuid", USER),
    "setfsgid_raw": lambda: raw("setfsgid", USER),
    "setgroups_raw": lambda: raw("setgroups", 1, (ctypes.c_uint32 * 1)(USER)),
    "capset_raw": lambda: raw("capset", *no_caps()),
    "unshare_raw": lambda: raw("unshare", CLONE_NEWUSER),
    "prctl_bounding_set": lambda: prctl(PR_CAPBSET_DROP, CAP_NET_RAW),
    "prctl_securebits": lambda: prctl(PR_SET_SECUREBITS, SECBIT_NOROOT),
    "prctl_ambient": lambda: prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL),
    "setns": setns,
    "landlock_raw": landlock,
    "clone_raw": lambda: in_child(
        lambda: libc.syscall(SYS["clone"], CLONE_NEWUSER | signal.SIGCHLD, 0, 0, 0, 0),
        lambda: None),
    "fork_raw": lambda: in_child(
        lambda: libc.syscall(SYS["clone"], signal.SIGCHLD, 0, 0, 0, 0), WAYS["setuid_raw"]),
    "vfork_raw": lambda: in_child(lambda: libc.syscall(SYS["vfork"]), WAYS["setuid_raw"]),
    "_Fork": lambda: in_child(libc._Fork, WAYS["setuid"]),
}
# What changes nothing leaves all as it is.
IDLE = {
    "setuid(0)": lambda: need(libc.setuid(0), "setuid"),
    "setresgid(0)": lambda: need(libc.setresgid(0, NONE, 0), "setresgid"),
    "unshare(0)": lambda: need(libc.unshare(0), "unshare"),
}


# --- the server and its worker, under osf ---

def shared_maps():
    """{inode: line} of memory that other processes may have mapped for writing."""
    found = {}
    with open("/proc/self/maps") as f:
        for line in f:
            low, high, flags, ino = re.match(r"(\w+)-(\w+) (\S+) \S+ \S+ (\d+)",
                                             line).groups()
            if flags[1] == "w" and flags[3] == "s" and \
                    int(high, 16) - int(low, 16) > COUNTS_KB << 10:
                found[ino] = line.strip()
    return found


def turns(a, b, n=TURNS):
    for i in range(n):
        word = b"%d" % i
        a.sendall(word)
        assert b.recv(100) == word
        b.sendall(word)
        assert a.recv(100) == word


def pair(listener):
    a = socket.create_connection(listener.getsockname())
    return a, listener.accept()[0]


def in_shm():
    """How many ends of connections this process has in shared memory."""
    with open("/proc/self/maps") as f:
        return sum("osf-segment" in line for line in f)


def worker(listener, ours, way, parents):
    """@ours: the worker's ends of a connection in shared memory, and of a young one."""
    upgraded, young = ours
    WAYS[way]() if way in WAYS else IDLE[way]()
    libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    both = set(shared_maps()) & set(parents)
    if way in WAYS:
        assert not both, "still mapped: %s" % [parents[ino] for ino in both]
    else:
        assert both, "nothing is shared"
    upgraded.sendall(b"from the worker")
    assert upgraded.recv(100) == b"to the worker"
    young.sendall(b"from the worker")
    assert young.recv(100) == b"to the worker"
    c, d = pair(listener)
    turns(c, d)
    assert in_shm() >= 2, "the worker's connection stays on the kernel"
    os._exit(0)


def serve_one(listener, way):
    a, b = pair(listener)
    turns(a, b)
    c, d = pair(listener)
    before = in_shm()
    assert before >= 2, "not upgraded"
    parents = shared_maps()
    pid = os.fork()
    if pid == 0:
        a.close()
        c.close()
        worker(listener, (b, d), way, parents)
    for mine in (a, c):
        mine.settimeout(PATIENCE_S)
        assert mine.recv(100) == b"from the worker"
        mine.sendall(b"to the worker")
    status = os.waitpid(pid, 0)[1]
    assert status == 0, "the worker ended with %d" % status
    turns(a, b)
    turns(c, d, 3)
    for sock in (a, b, c, d):
        sock.close()


def all_of(sock, n):
    data = b""
    while len(data) < n:
        part = sock.recv(n - len(data))
        assert part, "ended after %d bytes" % len(data)
        data += part
    return data


def with_unread(listener, n_bytes, is_sole):
    """@n_bytes lie unread in shared memory when the worker gives up authority; nobody may
    lose or change them, whether the memory could be left or not."""
    a, b = pair(listener)
    turns(a, b)
    data = bytes(i * 7 % 251 for i in range(n_bytes))
    a.sendall(data)
    wait, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        a.close()
        os.close(go)
        os.read(wait, 1)
        WAYS["setuid"]()
        assert all_of(b, n_bytes) == data, "other bytes"
        b.sendall(data)
        os._exit(0)
    if is_sole:
        b.close()
    os.close(go)
    a.settimeout(PATIENCE_S)
    assert all_of(a, n_bytes) == data
    status = os.waitpid(pid, 0)[1]
    assert status == 0, "the worker ended with %d" % status
    for sock in (a, b):
        sock.close()


def serve():
    listener = socket.create_server(("127.0.0.1", 0))
    serve_one(listener, "setuid")  # before the process has threads
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    for way in list(WAYS) + list(IDLE):
        print(way, flush=True)
        serve_one(listener, way)
    for n_bytes in (100, 5000, 200000):
        for is_sole in (False, True):
            print("unread", n_bytes, is_sole, flush=True)
            with_unread(listener, n_bytes, is_sole)
    e, f = pair(listener)
    turns(e, f)
    assert in_shm() >= 2, "the server's next connection stays on the kernel"
    print("done")


# --- outside ---

def main():
    run = harness.Run(__file__)
    if run.is_kernel:
        harness.skip("the memory is osf's")
    if os.geteuid():
        harness.skip("only root can become another user")
    said = run.check([sys.executable, os.path.abspath(__file__), "serve"])
    run.need("done" in said, said)
    run.done()


if sys.argv[1:2] == ["serve"]:
    serve()
else:
    main()
