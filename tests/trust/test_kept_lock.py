#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_kept_lock.py - a child that has dropped its user keeps the lock of a socket

A call that copies from memory while it has a socket's lock waits there, as long as that memory
does not come, and no signal ends the wait of who wants the lock meanwhile.  A program has two
connections, which have moved, and forks a child that has both.  The child drops its user, and
keeps the lock of the first one.  The program goes on with the second one, waits for both with
epoll_wait(), poll() and select(), forks and closes.  Only a call on the first connection
itself would wait for the lock, as over the kernel.
"""
import ctypes
import fcntl
import mmap
import os
import platform
import select
import signal
import socket
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
import harness  # noqa: E402

# However little the connections have gained by it.
EACH_MOVES = {"OSF_UPGRADE_PINGPONGS": "2"}
SOMEBODY = 12345
TURNS = 50
WAITS = 200
PAGE = mmap.PAGESIZE
SYS_USERFAULTFD = {"x86_64": 323, "aarch64": 282}
UFFDIO_API, UFFDIO_REGISTER = 0xc018aa3f, 0xc020aa00
UFFD_API, MISSING = 0xaa, 1
IP_OPTIONS = 4
LIBC = ctypes.CDLL(None, use_errno=True)


def userfaultfd():
    """Return: a descriptor, or -1.  Needs root."""
    fd = LIBC.syscall(SYS_USERFAULTFD[platform.machine()], os.O_CLOEXEC)
    if fd >= 0:
        fcntl.ioctl(fd, UFFDIO_API, bytearray(struct.pack("QQQ", UFFD_API, 0, 0)))
    return fd


def keep_lock(uffd, sock):
    """From a thread, which has the lock on return.  The kernel reads an int of IP_OPTIONS before
    it takes the lock, and the rest with the lock."""
    pages = mmap.mmap(-1, 2 * PAGE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    ctypes.memset(base + PAGE - 4, 0xff, 4)
    fcntl.ioctl(uffd, UFFDIO_REGISTER,
                bytearray(struct.pack("QQQQ", base + PAGE, PAGE, MISSING, 0)))
    threading.Thread(target=LIBC.setsockopt, daemon=True,
                     args=(sock.fileno(), 0, IP_OPTIONS,
                           ctypes.c_void_p(base + PAGE - 4), 8)).start()
    os.read(uffd, 32)


def child(first, ready, until):
    uffd = userfaultfd()
    if uffd < 0:
        os.write(ready, b"-")
        os._exit(0)
    os.setgid(SOMEBODY)
    os.setuid(SOMEBODY)
    keep_lock(uffd, first)
    os.write(ready, b"k")
    os.read(until, 1)
    # An exit would ask the first connection how it is, and wait for the other thread.
    os.kill(os.getpid(), signal.SIGKILL)


def echo(address):
    """The other ends, a process of their own."""
    conns = [socket.create_connection(address) for _ in range(2)]
    while True:
        for conn in select.select(conns, [], [])[0]:
            data = conn.recv(9)
            if not data:
                os._exit(0)
            conn.sendall(data)


def program():
    listener = socket.create_server(("127.0.0.1", 0))
    if not os.fork():
        echo(listener.getsockname())
    conns = [listener.accept()[0] for _ in range(2)]
    for _ in range(TURNS):
        for conn in conns:
            conn.sendall(b"x")
            assert conn.recv(9) == b"x"
    ready, told = os.pipe()
    until, end = os.pipe()
    if not os.fork():
        os.close(end)
        child(conns[0], told, until)
    if os.read(ready, 1) == b"-":
        print("no userfaultfd", flush=True)
        os._exit(0)
    edges, levels = select.epoll(), select.poll()
    for conn in conns:
        edges.register(conn, select.EPOLLIN | select.EPOLLRDHUP)
        levels.register(conn, select.POLLIN | select.POLLRDHUP)
    waits = [lambda s: edges.poll(s), lambda s: levels.poll(s * 1000),
             lambda s: select.select(conns, [], [], s)]
    for wait in waits:
        for _ in range(WAITS):
            conns[1].sendall(b"y")
            wait(5)
            assert conns[1].recv(9) == b"y"
            wait(0)
        wait(0.2)
    if not os.fork():
        os._exit(0)
    conns[1].close()
    print("went on", flush=True)
    os._exit(0)  # or Python would ask the first connection for its addresses


def main():
    if platform.machine() not in SYS_USERFAULTFD:
        harness.skip("no number of userfaultfd() is known here")
    run = harness.Run(__file__)
    said = run.check([sys.executable, os.path.abspath(__file__), "program"],
                     extra=EACH_MOVES).strip()
    if said == "no userfaultfd":
        harness.skip(said)
    run.need(said == "went on", said)
    total = harness.sum_stats(harness.read_stats(run.stats))
    run.need(run.is_kernel or total["n_upgraded"] >= 4,
             "%d ends of connections moved" % total["n_upgraded"])
    run.done()


if sys.argv[1:2] == ["program"]:
    program()
else:
    main()
