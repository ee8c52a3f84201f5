#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_exec.py - what a stranger has queued does not hold up exec()

    root program: a listener, and a young connection that it has made  ->  exec()
    stranger    -> the unix names of both: sockets that linger for a minute

exec() closes all descriptors that the next program is not to have, and who closes a socket that
lingers last sleeps.  So the next program would begin a minute late.  If exec() fails, the
listener is announced as before.
"""
import array
import encodings.idna  # noqa: F401, before this is another user
import os
import signal
import socket
import sys
import time

import attacker
import harness

LINGER_S = 60
LATE_S = LINGER_S / 2
AT_EACH = 2
NEXT = "import sys, time; print('after', time.monotonic() - float(sys.argv[1]))"


# --- under osf ---

def victim(port):
    """A young connection to @port, whose server does not know of osf."""
    listener = socket.create_server(("127.0.0.1", 0))
    conn = socket.create_connection(("127.0.0.1", port))
    for _ in range(3):
        conn.send(b"x")
        conn.recv(1)
    try:
        os.execv("/nowhere", ["nowhere"])
    except FileNotFoundError:
        pass
    conn2 = socket.create_connection(("127.0.0.1", port))
    for _ in range(3):
        conn2.send(b"x")
        conn2.recv(1)
    print(listener.getsockname()[1], conn2.getsockname()[1], flush=True)
    sys.stdin.readline()
    os.execv(sys.executable, [sys.executable, "-c", NEXT, str(time.monotonic())])


# --- outside ---

def queue(names, done):
    sockets = [attacker.lingering(LINGER_S) for _ in range(AT_EACH * len(names))]
    kept = []
    for i, (out, _) in enumerate(sockets):
        unix = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        unix.connect(names[i % len(names)])
        kept.append(unix)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [out.fileno()]))]
        unix.sendmsg([b"x"], rights)
        out.close()
    with open(done, "w") as f:
        f.write("queued")
    signal.pause()  # the test ends it


def main():
    run = harness.Run(__file__)
    if run.is_kernel:
        harness.skip("the names are osf's")
    port = harness.free_port()
    server = run.start([sys.executable, os.path.join(os.path.dirname(__file__), "victim.py"), "echo", port], osf=False)
    run.wait_port(port)
    folder = run.path("attack")
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    fifo, done = run.path("go"), os.path.join(folder, "done")
    os.mkfifo(fifo)
    words = ["sh", "-c", 'exec "$@" < ' + fifo, "sh", sys.executable, os.path.abspath(__file__), "victim", str(port)]
    proc = run.start(words, eager=True)
    go = open(fifo, "w")
    run.until(lambda: proc.text().endswith("\n"), "no victim")
    listens, connected = map(int, proc.text().split())
    announced = "\0osf1/a/%d" % listens
    with open("/proc/net/unix") as f:
        run.need("@" + announced[1:] + "\n" in f.read(), "not announced after an exec() that failed")
    number = attacker.number_of(connected, port)
    run.need(number, "the victim offers nothing")
    pid = attacker.as_user(attacker.NOBODY - 1, lambda: queue([announced, attacker.name_of(number)], done))
    run.until(lambda: os.path.exists(done), "the attack did not take place")
    go.write("go\n")
    go.close()
    run.wait(proc)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    took = float(proc.text().split()[-1])
    print("the next program began after %.2f s" % took)
    run.need(took < LATE_S, "exec() waited for a stranger")
    run.stop(server)
    run.done()


if sys.argv[1:2] == ["victim"]:
    victim(int(sys.argv[2]))
else:
    main()
