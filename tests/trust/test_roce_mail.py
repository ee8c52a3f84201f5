#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_roce_mail.py - a stranger's descriptors cost a verbs program no time

    stranger -> @osf-roce/NUMBER of a program that talks to its peer: sockets that linger

Processes that share RoCEv2's UDP port send each other packets over unix sockets, to whose names
anybody may send.  Another user sends sockets there that linger for a minute, and closes its own
copies.  Who lets go of one last sleeps in close(), and the program's thread would be that.  The
program exchanges messages with a peer in another network namespace meanwhile.  Also on a kernel
that cannot refuse descriptors for a socket (before Linux 6.16), which a filter of system calls
plays.
"""
import array
import ctypes
import encodings.idna  # noqa: F401, before this is another user
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "verbs"))
import attacker  # noqa: E402
import programs  # noqa: E402
import run_roce  # noqa: E402

LINGER_S = 60
AT_ONCE, MESSAGES, FIRST = 8, 5, 200
PINGPONG = ["ibv_rc_pingpong", "-d", "osf0", "-g", run_roce.GID, "-c", "-n", "20000"]  # seconds
SO_PASSRIGHTS = 83
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
SETSOCKOPT, ENOPROTOOPT = 54, 92


def play_old_kernel():
    """setsockopt(SO_PASSRIGHTS) fails from now on, in all programs that this process becomes."""
    jump, load, ret = 0x15, 0x20, 0x06
    code = [(load, 0, 0, 0), (jump, 0, 3, SETSOCKOPT),  # the call's number
            (load, 0, 0, 32), (jump, 0, 1, SO_PASSRIGHTS),  # its third argument
            (ret, 0, 0, 0x00050000 | ENOPROTOOPT), (ret, 0, 0, 0x7fff0000)]
    text = b"".join(struct.pack("=HBBI", *line) for line in code)
    program = ctypes.create_string_buffer(text)
    head = struct.pack("=HxxxxxxQ", len(code), ctypes.addressof(program))
    libc = ctypes.CDLL(None)
    assert not libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    assert not libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, head, 0, 0)


def enter(namespace):
    with open("/run/netns/" + namespace) as f:
        assert not ctypes.CDLL(None).setns(f.fileno(), 0x40000000)


def names_of_mail():
    with open("/proc/net/unix") as f:
        return re.findall(r"@(osf-roce/[0-9a-f]{16})$", f.read(), re.M)


def say(path):
    with open(path, "a") as f:
        f.write("x")


def send_and_close(folder):
    """One message to each name, by a process of its own, because whoever closes last sleeps.

    Our copies have to be gone when the program lets go of its own, and it is quick.  So one call
    of close_range() drops them all, and waits only then for those of which the program was quicker.
    """
    pairs = [attacker.lingering(LINGER_S) for _ in range(AT_ONCE)]
    for i, (out, _) in enumerate(pairs):
        os.dup2(out.fileno(), FIRST + i)
        out.close()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", range(FIRST, FIRST + AT_ONCE)))]
    unix = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    say(folder + "/ready")
    unix.connect("\0" + attacker.until(names_of_mail)[0])
    try:
        unix.sendmsg([b"x" * 100], rights)
        os.closerange(FIRST, FIRST + AT_ONCE)
    except PermissionError:
        say(folder + "/refused")
    except BrokenPipeError:
        pass  # the program does not read any more
    signal.pause()  # the test ends it


def stranger(folder):
    for _ in range(MESSAGES):
        if os.fork() == 0:
            send_and_close(folder)
    signal.pause()


def size(path):
    return os.path.getsize(path) if os.path.exists(path) else 0


def attack(run, hosts, is_old):
    folder = tempfile.mkdtemp(dir=run.tmp)
    os.chmod(folder, 0o777)
    command = PINGPONG + ["-p", "18471"]
    server = hosts.start(0, folder, "server",
                         [sys.executable, os.path.abspath(__file__), "old"] + command if is_old else command)
    hosts.wait_listening(0, 18471, server)

    def work():
        os.setpgid(0, 0)
        enter(hosts.names[0])
        os.setgid(attacker.NOBODY - 1)
        os.setuid(attacker.NOBODY - 1)
        stranger(folder)

    pid = attacker.as_user(0, work)
    run.until(lambda: size(folder + "/ready") == MESSAGES, "no stranger")
    started = time.monotonic()
    client = hosts.start(1, folder, "client", command + [run_roce.A])
    status = [programs.finish(client), programs.finish(server)]
    took = time.monotonic() - started
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    n_refused = size(folder + "/refused")
    print("%s kernel: %d of %d messages refused, %.1f s" %
          ("old" if is_old else "this", n_refused, MESSAGES, took))
    if status != [0, 0]:
        programs.show(folder)
    run.need(not n_refused or not is_old, "the filter does not play an old kernel")
    # A program that sleeps in close() does not answer its peer, whose connection breaks.
    run.need(status == [0, 0], "ended with %s" % status)


def main():
    run = attacker.run_with_device(__file__, ["ibv_rc_pingpong"])
    with run_roce.Hosts() as hosts:
        for is_old in (False, True):
            attack(run, hosts, is_old)
    run.done()


if __name__ == "__main__":
    if sys.argv[1:2] == ["old"]:
        play_old_kernel()
        os.execvp(sys.argv[2], sys.argv[2:])
    main()
