#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_holders.py - a server that forks for each connection, whose children
end in every way there is: nothing is left of a connection that nobody has any more

    for each way: N connections, one after the other
        -> `osf stat` shows the listener alone
        -> the segment has used far fewer entries than there were connections
        -> the bytes of all of them have been counted, once
"""
import ctypes
import json
import mmap
import os
import signal
import socket
import sys
import threading
import time

import harness

N = 90            # more than the first part of a segment has
ENTRIES_MAX = 72
TURNS = 12
LENGTH = 10
CLIENTS = 10      # processes, with an inbox each
SYS_EXIT_GROUP = 231 if os.uname().machine == "x86_64" else 94


# --- the server ---

together = mmap.mmap(-1, mmap.PAGESIZE)  # shared with the children


def serve(conn):
    while True:
        data = conn.recv(100)
        if not data:
            return
        conn.sendall(data)


def end_raw():
    ctypes.CDLL(None).syscall(SYS_EXIT_GROUP, 0)


def end_killed():
    os.kill(os.getpid(), signal.SIGKILL)


def end_exec():
    os.execv("/bin/true", ["true"])


def end_exec_open(conn):
    """The other program has the connection, and closes it when it ends."""
    os.set_inheritable(conn.fileno(), True)
    os.execv("/bin/true", ["true"])


def end_threads(conn):
    def sit():
        time.sleep(60)
    for _ in range(2):
        threading.Thread(target=sit, daemon=True).start()
    os._exit(0)


def below(conn, end):
    """The child's child serves, and the child is gone before that ends."""
    gone_read, gone_write = os.pipe()
    if os.fork():
        os.close(gone_read)
        conn.close()
        return  # and its end closes the pipe
    os.close(gone_write)
    os.read(gone_read, 1)
    serve(conn)
    end()


def child(listener, conn, how):
    if how == "closed_listener":
        listener.close()
    if how.startswith("below_"):
        below(conn, {"exit": lambda: os._exit(0), "killed": end_killed,
                     "exec": end_exec}[how[6:]])
        os._exit(0)
    if how == "middle_killed":
        if os.fork():
            end_killed()
        serve(conn)
        os._exit(0)
    serve(conn)
    if how == "exit":
        sys.exit(0)
    if how == "raw":
        end_raw()
    if how == "killed":
        end_killed()
    if how == "exec":
        end_exec()
    if how == "exec_open":
        end_exec_open(conn)
    if how == "threads":
        end_threads(conn)
    if how == "closes":
        conn.close()
    if how == "together":
        together[0] = 1
        conn.close()
    os._exit(0)


def server(port, how):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(100)
    print("ready", flush=True)
    while True:
        conn, _ = listener.accept()
        if how in ["late", "together"]:  # it moves in this process
            for _ in range(TURNS):
                conn.sendall(conn.recv(100))
        together[0] = 0
        if not os.fork():
            child(listener, conn, how)
        while how == "together" and not together[0]:
            pass
        conn.close()


def client(port, n):
    for _ in range(n):
        with socket.create_connection(("127.0.0.1", port)) as conn:
            for _ in range(TURNS):
                conn.sendall(b"x" * LENGTH)
                got = b""
                while len(got) < LENGTH:
                    got += conn.recv(LENGTH)


# --- the test ---

HOW = ["exit", "_exit", "raw", "killed", "exec", "exec_open", "threads",
       "closes", "together", "closed_listener", "below_exit", "below_killed",
       "below_exec", "middle_killed"]


def rows(run, pid):
    text = run.check([os.path.join(run.build, "osf"), "stat", "--json", pid],
                     osf=False)
    socks = json.loads(text)["processes"][0]["sockets"]
    return [s for s in socks if s["proto"] != "listen"]


def n_upgraded(run):
    return harness.sum_stats(harness.read_stats(run.stats))["n_upgraded"]


def one(run, how):
    port = harness.free_port()
    proc = run.start([sys.executable, __file__, "server", port, how])
    run.wait_port(port)
    run.python(__file__, "client", port, N)
    if run.is_kernel:
        run.stop(proc)
        return
    pid = proc.popen.pid
    run.until(lambda: not rows(run, pid),
              lambda: "%s: connections are left: %s" % (how, rows(run, pid)[:1]))
    segments = [s for s in harness.read_stats(run.stats) if s.pid == pid]
    run.need(len(segments) == 1, "%d segments" % len(segments))
    run.need(segments[0].n_entries <= ENTRIES_MAX, "%s: %d entries used" %
             (how, segments[0].n_entries))
    run.stop(proc, signal.SIGKILL)


def inboxes(pid):
    with open("/proc/%d/maps" % pid) as f:
        return sum("osf-inbox" in line for line in f)


def peers(run):
    """What the parent mapped of a peer goes when it closes, though its child goes
    on."""
    port = harness.free_port()
    proc = run.start([sys.executable, __file__, "server", port, "late"])
    run.until(lambda: "ready" in proc.text(), "the server is not ready")
    for _ in range(CLIENTS):
        run.python(__file__, "client", port, 2)
    if not run.is_kernel:
        run.need(inboxes(proc.popen.pid) <= 3, "%d inboxes mapped" %
                 inboxes(proc.popen.pid))
    run.stop(proc)


def main():
    if sys.argv[1:2] == ["server"]:
        server(int(sys.argv[2]), sys.argv[3])
    if sys.argv[1:2] == ["client"]:
        client(int(sys.argv[2]), int(sys.argv[3]))
        return
    run = harness.Run(__file__)
    for how in HOW:
        before = n_upgraded(run)
        one(run, how)
        # Also where somebody who had it was killed: both ends count.
        got = (n_upgraded(run) - before) // 2
        run.need(run.is_kernel or got >= N // 2, "%s: %d of %d moved" %
                 (how, got, N))
    peers(run)
    # Both ends have counted each byte of each connection once.
    expected = (len(HOW) * N + CLIENTS * 2) * TURNS * LENGTH * 2
    total = harness.sum_stats(harness.read_stats(run.stats))
    for way in ["rx", "tx"]:
        got = total[way + "_bytes_shm"] + total[way + "_bytes_inet"]
        run.need(run.is_kernel or got == expected,
                 "%s: %d bytes counted, %d expected" % (way, got, expected))
    run.done()


if __name__ == "__main__":
    main()
