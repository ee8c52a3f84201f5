#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/victim.py - programs that are attacked, and know nothing of osf

    victim.py echo PORT           answers all who connect; never blocks but in select()
    victim.py cost PORT           the same, and answers by the CPU time, in ns, that its calls on
                                  the connection took for the last answer
    victim.py any PORT            the same, with calls of all kinds that may not block; at the
                                  end of its input it says how long they took
    victim.py ask PORT N          asks N times, and checks each answer
    victim.py pass PORT FILE [FIFO]
                                  locks FILE, echoes one connection until "END__", passes
                                  the connection on, and says whether FILE is locked, how
                                  long that took, and how much memory; with a FIFO, it first
                                  waits for somebody who opens it
    victim.py become PORT FIFO    echoes one connection until "END__", waits for somebody who opens
                                  FIFO, and becomes cat(1), with the connection as its input and output

Each prints "slow: ..." for a call on a non-blocking socket that took that long.
"""
import array
import fcntl
import os
import random
import resource
import select
import selectors
import socket
import subprocess
import sys
import termios
import time

import timed as timing

# Less what it waited for a core.  An attack that works takes LINGER_S, a minute; a call that asks
# the kernel about a connection waits for others who ask, on a busy machine some 0.4 s.  That we
# ourselves wait for 5 ms at most is shown by test_asked_waits.py.
SLOW_S = 2
watch = timing.Calls()


def listen(port):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(64)
    return listener


def timed(call, *args):
    got = watch(call, *args)
    if watch.longest_s > SLOW_S:
        print("slow: %s" % watch.longest(), flush=True)
        watch.forget()
    return got


def echo_once(conn):
    """Return: what the peer has sent; b"": its end."""
    data = timed(conn.recv, 65536)
    if data:
        timed(conn.send, data)
    return data


costs = {}


def say_cost(conn):
    """The same, with the cost of the last time for an answer."""
    before = time.thread_time_ns()
    data = timed(conn.recv, 65536)
    if data:
        timed(conn.send, b"%d" % costs.get(conn, 0))
    costs[conn] = time.thread_time_ns() - before
    return data


def echo(port, serve=echo_once):
    selector = selectors.DefaultSelector()
    listener = listen(port)
    selector.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is listener:
                conn = listener.accept()[0]
                conn.setblocking(False)
                selector.register(conn, selectors.EVENT_READ)
                continue
            if serve(key.fileobj) == b"":
                selector.unregister(key.fileobj)
                timed(key.fileobj.close)


def some_calls(calls, conn, rng, file):
    """One of them, before the bytes are echoed."""
    which = rng.randrange(10)
    if which == 0:
        calls(fcntl.ioctl, conn, termios.FIONREAD, b"1234")
    elif which == 1:
        calls(conn.recv, 1 << 18, socket.MSG_PEEK)
    elif which == 2:
        calls(os.sendfile, conn.fileno(), file, 0, 20000)
    elif which == 3 and not rng.randrange(20):
        calls(conn.shutdown, rng.randrange(3))
    elif which == 4:
        calls(select.select, [conn], [conn], [], 0)
    elif which == 5:
        calls(conn.setsockopt, socket.SOL_SOCKET, socket.SO_RCVLOWAT, rng.randrange(200))
    elif which == 6:
        calls(conn.recv, 1 << 18, socket.MSG_TRUNC)
    elif which == 7:
        calls(fcntl.ioctl, conn, termios.TIOCOUTQ, b"1234")


def any_call(port):
    """Each event is met by calls of a connection that may not block, all of them timed."""
    calls, rng = timing.Calls(True), random.Random(port)
    file = os.open(sys.executable, os.O_RDONLY)
    selector = selectors.DefaultSelector()
    listener = listen(port)
    selector.register(listener, selectors.EVENT_READ)
    selector.register(sys.stdin, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            conn = key.fileobj
            if conn is sys.stdin:
                print(calls, flush=True)
                os._exit(0)
            if conn is listener:
                conn = listener.accept()[0]
                conn.setblocking(False)
                selector.register(conn, selectors.EVENT_READ)
                continue
            some_calls(calls, conn, rng, file)
            data = calls(conn.recv, 1 + rng.randrange(1 << 18))
            if data:
                calls(conn.send, data)
            elif data is not None:
                selector.unregister(conn)
                calls(conn.close)


def ask(port, n):
    conn = socket.create_connection(("127.0.0.1", port))
    conn.settimeout(10)
    print("port %d" % conn.getsockname()[1], flush=True)
    for i in range(n):
        question = b"question %d" % i
        timed(conn.send, question)
        answer = conn.recv(100)
        if answer != question:
            print("wrong answer: %r" % answer, flush=True)
            sys.exit(1)
        time.sleep(0.01)
    print("answered", flush=True)


def is_locked(path):
    """As another process sees it."""
    script = ("import fcntl, sys\n"
              "try: fcntl.lockf(open(sys.argv[1], 'a'), fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
              "except OSError: print('locked')\n")
    return subprocess.run([sys.executable, "-c", script, path], capture_output=True,
                          text=True, env={}).stdout.strip() == "locked"


def pass_on(port, path, fifo=None):
    file = open(path, "a+")
    fcntl.lockf(file, fcntl.LOCK_EX)
    listener = listen(port)
    print("file %d" % file.fileno(), flush=True)
    conn = listener.accept()[0]
    while True:
        data = timed(conn.recv, 5)  # b"": the end, or a reset
        if not data or data == b"END__":
            break
        timed(conn.send, data)
    if fifo:
        open(fifo).close()
    here, there = socket.socketpair()
    calls, memory = timing.Calls(True), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    calls(here.sendmsg, [b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                  array.array("i", [conn.fileno()]))])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    print("%s; %d KiB more" % (calls, memory), flush=True)
    print("locked" if is_locked(path) else "NOT locked", flush=True)
    there.close()


def become_cat(port, fifo):
    conn = listen(port).accept()[0]
    while (data := conn.recv(5)) != b"END__":
        conn.send(data)
    open(fifo).close()
    for number in (0, 1):
        os.dup2(conn.fileno(), number)
    os.execv("/bin/cat", ["cat"])


if sys.argv[1] == "echo":
    echo(int(sys.argv[2]))
elif sys.argv[1] == "cost":
    echo(int(sys.argv[2]), say_cost)
elif sys.argv[1] == "any":
    any_call(int(sys.argv[2]))
elif sys.argv[1] == "ask":
    ask(int(sys.argv[2]), int(sys.argv[3]))
elif sys.argv[1] == "pass":
    pass_on(int(sys.argv[2]), *sys.argv[3:])
elif sys.argv[1] == "become":
    become_cat(int(sys.argv[2]), sys.argv[3])
