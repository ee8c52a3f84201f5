#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_seccomp.py - a program that limits its system calls makes none of ours

The program has connections in shared memory, one of them with unread bytes, in epoll sets
of each kind.  It installs a filter that kills for each call that osf makes and a plain
program does not: poll with a mask, memory files, socket options, pipes.  It goes on with
old and new connections, and ends as it likes.  So does a worker that a program forks, and that
installs the filter before it has a socket of its own.
"""
import ctypes
import os
import platform
import select
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
import harness  # noqa: E402

TURNS = 40
UNREAD = b"unread" * 1000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
SECCOMP_SET_MODE_FILTER, SYS_SECCOMP = 1, 317
ALLOW, KILL = 0x7fff0000, 0x80000000
# x86-64: what osf uses, and this program does not
KILLED = {"madvise": 28, "sched_yield": 24, "sendmsg": 46, "recvmsg": 47, "shutdown": 48,
          "getsockname": 51, "getpeername": 52, "setsockopt": 54, "getsockopt": 55,
          "fcntl": 72, "getrusage": 98, "gettid": 186, "tkill": 200, "timer_settime": 223,
          "ppoll": 271, "splice": 275, "timerfd_create": 283, "eventfd2": 290,
          "pipe2": 293, "recvmmsg": 299, "memfd_create": 319, "pidfd_open": 434,
          "pidfd_getfd": 438, "epoll_pwait2": 441, "poll": 7, "dup": 32, "rt_tgsig": 297}


class Insn(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8),
                ("k", ctypes.c_uint32)]


class Program(ctypes.Structure):
    _fields_ = [("n", ctypes.c_uint16), ("insns", ctypes.POINTER(Insn))]


def filter_on(by_number):
    insns = [Insn(0x20, 0, 0, 0)]  # load the number
    for nr in KILLED.values():
        insns += [Insn(0x15, 0, 1, nr), Insn(0x06, 0, 0, KILL)]
    insns.append(Insn(0x06, 0, 0, ALLOW))
    array = (Insn * len(insns))(*insns)
    program = Program(len(insns), array)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if by_number:
        err = libc.syscall(SYS_SECCOMP, SECCOMP_SET_MODE_FILTER, 0, ctypes.byref(program))
    else:
        err = libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program))
    assert err == 0, os.strerror(ctypes.get_errno())


def turns(sock, n):
    for i in range(n):
        word = b"%d" % i
        sock.sendall(word)
        assert sock.recv(100) == word


def all_of(sock, n):
    data = b""
    while len(data) < n:
        part = sock.recv(n - len(data))
        assert part
        data += part
    return data


def answers(epoll, sock, n_events):
    """@sock's echo is announced by the set, with the number that the program gave."""
    sock.sendall(b"x")
    got = epoll.poll(10)
    assert [fd for fd, _ in got] == [sock.fileno()] * n_events, got
    assert sock.recv(10) == b"x"


def program(port, how):
    address = ("127.0.0.1", port)
    listener = socket.create_server(("127.0.0.1", 0))
    own = listener.getsockname()
    socks = [socket.create_connection(address) for _ in range(5)]
    for sock in socks:
        turns(sock, TURNS)
    plain, level, edge, once, gone = socks
    epoll = select.epoll()
    epoll.register(level, select.EPOLLIN)
    epoll.register(edge, select.EPOLLIN | select.EPOLLET)
    epoll.register(once, select.EPOLLIN | select.EPOLLONESHOT)
    epoll.register(gone, select.EPOLLIN)
    assert epoll.poll(0) == []
    epoll.unregister(gone)
    once.sendall(b"once")
    assert [fd for fd, _ in epoll.poll(10)] == [once.fileno()]
    assert once.recv(10) == b"once"
    plain.sendall(UNREAD)
    all_of(plain, 1)
    if how == "forked":
        worker = os.fork()
        if worker:
            assert os.waitpid(worker, 0)[1] == 0
            return
    filter_on(how == "number")
    assert all_of(plain, len(UNREAD) - 1) == UNREAD[1:]
    for sock in socks:
        turns(sock, TURNS)
    epoll.poll(0)  # the edge of the last turn
    for sock in (level, edge):
        answers(epoll, sock, 1)
    gone.sendall(b"x")
    once.sendall(b"x")
    assert gone.recv(10) == b"x" and epoll.poll(0.2) == []
    epoll.modify(once, select.EPOLLIN | select.EPOLLONESHOT)
    assert [fd for fd, _ in epoll.poll(10)] == [once.fileno()]
    new = socket.socket()
    new.connect(address)
    turns(new, TURNS)
    new.close()
    mine = socket.socket()
    mine.connect(own)
    theirs = listener._accept()[0]  # Python's accept() asks for names, too
    mine.sendall(b"y")
    assert os.read(theirs, 1) == b"y"
    os.close(theirs)
    for sock in socks + [mine, listener]:
        sock.close()
    print("done", flush=True)


def serve():
    import threading
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)

    def echo(sock):
        while True:
            data = sock.recv(65536)
            if not data:
                return
            sock.sendall(data)

    while True:
        threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()


def main():
    if platform.machine() != "x86_64":
        harness.skip("the numbers of system calls are x86-64's")
    run = harness.Run(__file__, not_with=dict.fromkeys(
        ("address", "thread"), "its runtime makes system calls of its own"))
    server = run.start([sys.executable, os.path.abspath(__file__), "serve"])
    while not server.text().strip():
        run.need(server.popen.poll() is None, "no server")
    for how in ("prctl", "number", "forked"):
        said = run.check([sys.executable, os.path.abspath(__file__), "program",
                          server.text().split()[0], how], extra={"PYTHONMALLOC": "malloc"})
        run.need("done" in said, "%s: %r" % (how, said))
    run.stop(server)
    run.expect_offloaded(10)
    run.done()


if sys.argv[1:2] == ["program"]:
    program(int(sys.argv[2]), sys.argv[3])
elif sys.argv[1:2] == ["serve"]:
    serve()
else:
    main()
