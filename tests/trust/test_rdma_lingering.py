#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_rdma_lingering.py - descriptors that a stranger sends to an RDMA program cost it no time

    stranger -> @osf-rdma/BLOCK, who looks for queue pairs  -> sockets that linger
             -> @osf-cm/SPACE/PORT/..., a listener of rdma_cm

A program accepts whoever connects to these names, and turns strangers away.  Another user connects
with sockets that linger for ten minutes, and closes its own copies.  Who lets go of one last sleeps
in close(), and the program's thread would be that.  Also on a kernel that cannot refuse descriptors
for a socket (before Linux 6.16), which a filter of system calls plays.

exec() closes what is queued at such a name, too.  From Linux 6.16 on nothing is.
"""
import array
import ctypes
import encodings.idna  # noqa: F401, before this is another user
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "verbs"))
import attacker  # noqa: E402
import programs  # noqa: E402
import run_roce  # noqa: E402
from test_roce_mail import SO_PASSRIGHTS, enter, play_old_kernel, say, size  # noqa: E402

LINGER_S, CONNECTIONS, FIRST = 600, 4, 200
PORT = 18479
kept = []  # far ends, which never read
DATAGRAMS = ["ibv_ud_pingpong", "-d", "osf0", "-g", "1", "-n", "1000", "-p", str(PORT)]


def listeners(name):
    """The names that somebody of the network namespace listens at."""
    with open("/proc/net/unix") as f:
        return re.findall(r"^\S+ \S+ \S+ 00010000 \S+ \S+ \S+ @(%s\S*)$" % name, f.read(), re.M)


def send_descriptor(name):
    """Return: has the kernel refused it?"""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [FIRST]))]
    while True:
        unix = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        unix.connect("\0" + name)
        try:
            unix.sendmsg([b"x" * 100], rights)
            return False
        except PermissionError:
            return True
        except BrokenPipeError:
            pass  # the program was quicker


def connect_and_close(name):
    out, far_end = attacker.lingering(LINGER_S)
    kept.append(far_end)
    os.dup2(out.fileno(), FIRST)
    out.close()
    return send_descriptor(name)


def stranger(folder, names):
    """One connection to each by a process of its own, because whoever closes last sleeps."""
    for name in names * CONNECTIONS:
        if os.fork() == 0:
            attacker.ends_with_parent()
            say(folder + ("/refused" if connect_and_close(name) else "/sent"))
            attacker.close_aside(FIRST)
            signal.pause()  # the test ends it
    signal.pause()


def attack(run, folder, names):
    """Return: the stranger's process, once everything has been sent."""
    def work():
        os.setpgid(0, 0)
        os.setgid(attacker.NOBODY - 1)
        os.setuid(attacker.NOBODY - 1)
        attacker.ends_with_parent()
        stranger(folder, names)

    pid = attacker.as_user(0, work)
    run.until(lambda: size(folder + "/sent") + size(folder + "/refused") == len(names) * CONNECTIONS, "no stranger")
    return pid


def check(run, what, is_old, server, client, name):
    """@name: where the server listens."""
    folder = tempfile.mkdtemp(dir=run.tmp)
    os.chmod(folder, 0o777)
    play = [sys.executable, os.path.abspath(__file__), "old"] if is_old else []
    first = programs.start(folder, "server", play + server)
    run.until(lambda: listeners(name), "the server has no name")
    if server == DATAGRAMS:
        programs.wait_listening(PORT, first)
    pid = attack(run, folder, listeners(name))
    second = programs.start(folder, "client", play + client)
    status = [programs.finish(second), programs.finish(first)]
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    n_refused = size(folder + "/refused")
    print("%s, %s kernel: %d refused, %d sent, ended with %s" %
          (what, "old" if is_old else "this", n_refused, size(folder + "/sent"), status), flush=True)
    if status != [0, 0]:
        programs.show(folder)
    run.need(not n_refused or not is_old, "the filter does not play an old kernel")
    run.need(status == [0, 0], "ended with %s" % status)


def become_another():
    """Under osf: a program with a device, which calls exec() when it reads a line."""
    lib = ctypes.CDLL(None)
    for call in ("ibv_get_device_list", "ibv_open_device", "ibv_create_cq"):
        getattr(lib, call).restype = ctypes.c_void_p
    devices = ctypes.cast(lib.ibv_get_device_list(None), ctypes.POINTER(ctypes.c_void_p))
    context = lib.ibv_open_device(ctypes.c_void_p(devices[0]))
    assert lib.ibv_create_cq(ctypes.c_void_p(context), 10, None, None, 0)
    print("ready", flush=True)
    sys.stdin.readline()
    os.execv("/bin/echo", ["echo", "became another"])


def can_refuse():
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as unix:
        try:
            unix.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, 0)
        except OSError:
            return False
    return True


def check_exec(run):
    folder = tempfile.mkdtemp(dir=run.tmp)
    os.chmod(folder, 0o777)
    program = subprocess.Popen([programs.OSF, "run", "--", sys.executable, os.path.abspath(__file__), "exec"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    run.need(program.stdout.readline() == "ready\n", "no device")
    pid = attack(run, folder, listeners("osf-rdma/"))
    program.stdin.write("go\n")
    program.stdin.close()
    status = programs.finish(program)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    print("exec(): %d refused, %d sent, ended with %s" %
          (size(folder + "/refused"), size(folder + "/sent"), status), flush=True)
    run.need(status == 0, "exec() waits for a stranger")


def main():
    run = attacker.run_with_device(__file__, ["ibv_ud_pingpong", "rping"])
    rping = ["rping", "-C", "10", "-p", str(PORT)]
    with run_roce.Hosts() as hosts:  # nobody else's programs are there
        enter(hosts.names[0])
        if can_refuse():
            check_exec(run)
        for is_old in (False, True):
            check(run, "datagrams", is_old, DATAGRAMS, DATAGRAMS + [run_roce.A], "osf-rdma/")
            check(run, "a listener", is_old, rping + ["-s", "-a", run_roce.A], rping + ["-c", "-a", run_roce.A], "osf-cm/")
    run.done()


if __name__ == "__main__":
    if sys.argv[1:] == ["exec"]:
        become_another()
    if sys.argv[1:2] == ["old"]:
        play_old_kernel()
        os.execvp(sys.argv[2], sys.argv[2:])
    main()
