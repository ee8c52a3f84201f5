#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_passed_asleep.py - a thread waits for room, and another one passes the descriptor on

    client: send() or poll() sleeps, because the server reads nothing
            another thread, or a child, passes the descriptor (SCM_RIGHTS): the connection goes
            back to the kernel, and the peer rings no more
    server: reads everything
    client: the sleeper has to find that out by itself
"""
import array
import os
import select
import socket
import sys
import threading

import harness

WAYS = ["send", "poll", "select", "epoll", "child"]
BYTES = 32 << 20     # more than the kernel's buffers take
TURNS = 20
# The numbers of x86-64; other machines only look less closely.
SLEEPS = {"7", "23", "44", "45", "232", "270", "271", "281", "441"}


def turns(conn, first):
    for i in range(2 * TURNS):
        if (i % 2 == 0) == first:
            conn.sendall(b"x")
        else:
            assert conn.recv(1) == b"x"


def server(port, go):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with open(port, "w") as f:
            f.write("%d" % listener.getsockname()[1])
        conn = listener.accept()[0]
    turns(conn, False)
    with open(go) as f:
        f.read()
    n = 0
    while data := conn.recv(1 << 16):
        n += len(data)
    if n != BYTES:
        sys.exit("%d of %d bytes have come" % (n, BYTES))


def wait_of(way, conn):
    """What waits for room."""
    if way == "select":
        return lambda: select.select([], [conn], [])
    if way == "epoll":
        waiter = select.epoll()
        waiter.register(conn, select.EPOLLOUT)
    else:
        waiter = select.poll()
        waiter.register(conn, select.POLLOUT)
    return waiter.poll


def send(way, conn):
    if way in ("send", "child"):
        conn.sendall(bytes(BYTES))
        return
    wait = wait_of(way, conn)
    conn.setblocking(False)
    left = memoryview(bytes(BYTES))
    while left:
        try:
            left = left[conn.send(left):]
        except BlockingIOError:
            wait()


def await_sleep(pid, tid):
    path = "/proc/%d/task/%d/syscall" % (pid, tid)
    while True:
        with open(path) as f:
            if f.read().split()[0] in SLEEPS:
                return


def pass_on(conn, pid, tid, go):
    """Return: what has to stay open, since it holds the descriptor that was passed."""
    await_sleep(pid, tid)
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    fds = array.array("i", [conn.fileno()])
    pair[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
    with open(go, "w"):
        return pair


def client(way, port, go):
    with open(port) as f:
        conn = socket.create_connection(("127.0.0.1", int(f.read())))
    turns(conn, True)
    if way == "child":
        me, mine = os.getpid(), threading.get_native_id()
        child = os.fork()
        if not child:
            held = pass_on(conn, me, mine, go)
            os._exit(not held)
        send(way, conn)
        assert os.waitpid(child, 0)[1] == 0
    else:
        sender = threading.Thread(target=send, args=(way, conn))
        sender.start()
        held = pass_on(conn, os.getpid(), sender.native_id, go)
        sender.join()
        held[0].close()
    conn.shutdown(socket.SHUT_WR)


def one(run, way):
    port, go = run.path(way + ".port"), run.path(way + ".go")
    me = [sys.executable, os.path.abspath(__file__)]
    extra = {"OSF_RING": "65536"}
    os.mkfifo(port)
    os.mkfifo(go)
    ends = [run.start(me + ["server", port, go], eager=True, extra=extra),
            run.start(me + ["client", way, port, go], eager=True, extra=extra)]
    for end in ends:
        run.wait(end)
    print("%s: woke" % way, flush=True)


def main():
    run = harness.Run(__file__)
    for way in WAYS:
        one(run, way)
    if not run.is_kernel:
        total = harness.sum_stats(harness.read_stats(run.stats))
        run.need(total["n_fallbacks"] >= len(WAYS), "too few fell back")
    run.done()


if sys.argv[1:2] == ["server"]:
    server(*sys.argv[2:])
elif sys.argv[1:2] == ["client"]:
    client(*sys.argv[2:])
else:
    main()
