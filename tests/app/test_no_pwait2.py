#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_no_pwait2.py - epoll_wait() where the kernel has no epoll_pwait2()

Kernels before 5.11 do not have that call, and filters of containers refuse it: ENOSYS or
EPERM.  A filter does so here, and then executes the program, which waits in its set for
what comes through shared memory, for a time that ends, and without sockets of ours.
"""
import ctypes
import os
import platform
import select
import socket
import sys
import threading
import time

import harness

TURNS = 40
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
SYS_EPOLL_PWAIT2 = 441
ALLOW, REFUSE = 0x7fff0000, 0x00050000
ENOSYS, EPERM = 38, 1
ME = os.path.abspath(__file__)


class Insn(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8),
                ("k", ctypes.c_uint32)]


class Program(ctypes.Structure):
    _fields_ = [("n", ctypes.c_uint16), ("insns", ctypes.POINTER(Insn))]


def launch(err, args):
    insns = (Insn * 4)(Insn(0x20, 0, 0, 0), Insn(0x15, 0, 1, SYS_EPOLL_PWAIT2),
                       Insn(0x06, 0, 0, REFUSE | err), Insn(0x06, 0, 0, ALLOW))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    what = Program(len(insns), insns)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(what)):
        sys.exit(os.strerror(ctypes.get_errno()))
    os.execv(sys.executable, [sys.executable, ME] + args)


def slow_echo(sock):
    """Each answer leaves when the other end sleeps."""
    while True:
        data = sock.recv(100)
        if not data:
            return
        time.sleep(0.005)
        sock.sendall(data)


def program():
    empty = select.epoll()
    if empty.poll(0.01) != []:
        sys.exit("an empty set has events")
    listener = socket.create_server(("127.0.0.1", 0))
    conn = socket.create_connection(listener.getsockname())
    peer = threading.Thread(target=slow_echo, args=(listener.accept()[0],))
    peer.start()
    epoll = select.epoll()
    epoll.register(conn, select.EPOLLIN)
    for i in range(TURNS):
        conn.sendall(b"%d" % i)
        if epoll.poll(30) != [(conn.fileno(), select.EPOLLIN)] or conn.recv(100) != b"%d" % i:
            sys.exit("turn %d" % i)
    began = time.monotonic()
    if epoll.poll(0.0305) != [] or time.monotonic() - began < 0.0305:
        sys.exit("the wait ended early")
    conn.close()
    peer.join()
    print("done", flush=True)


def main():
    if platform.machine() != "x86_64":
        harness.skip("the number of the system call is x86-64's")
    run = harness.Run(__file__, not_with=dict.fromkeys(
        ("address", "thread"), "its runtime makes system calls of its own"))
    for err in (ENOSYS, EPERM):
        said = run.check([sys.executable, ME, "launch", str(err), "program"])
        run.need("done" in said, "errno %d: %r" % (err, said))
    run.expect_offloaded(2)
    run.done()


if sys.argv[1:2] == ["launch"]:
    launch(int(sys.argv[2]), sys.argv[3:])
elif sys.argv[1:2] == ["program"]:
    program()
else:
    main()
