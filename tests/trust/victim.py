#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/victim.py - programs that are attacked, and know nothing of osf

    victim.py echo PORT           answers all who connect; never blocks but in select()
    victim.py ask PORT N          asks N times, and checks each answer
    victim.py pass PORT FILE      locks FILE, echoes one connection until "END__", passes
                                  the connection on, and says whether FILE is locked

Each prints "slow SECONDS" for a call on a non-blocking socket that took that long.
"""
import array
import fcntl
import selectors
import socket
import subprocess
import sys
import time

SLOW_S = 0.25  # the machine is busy; the attacks take seconds


def listen(port):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(64)
    return listener


def timed(call, *args):
    started = time.monotonic()
    try:
        return call(*args)
    except BlockingIOError:
        return None
    except OSError:
        return b""
    finally:
        took = time.monotonic() - started
        if took > SLOW_S:
            print("slow %.2f" % took, flush=True)


def echo(port):
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
            data = timed(key.fileobj.recv, 65536)
            if data:
                timed(key.fileobj.send, data)
            elif data is not None:
                selector.unregister(key.fileobj)
                timed(key.fileobj.close)


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


def pass_on(port, path):
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
    here, there = socket.socketpair()
    here.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                           array.array("i", [conn.fileno()]))])
    print("locked" if is_locked(path) else "NOT locked", flush=True)
    there.close()


if sys.argv[1] == "echo":
    echo(int(sys.argv[2]))
elif sys.argv[1] == "ask":
    ask(int(sys.argv[2]), int(sys.argv[3]))
elif sys.argv[1] == "pass":
    pass_on(int(sys.argv[2]), sys.argv[3])
