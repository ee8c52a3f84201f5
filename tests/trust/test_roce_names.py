#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_roce_names.py - names that a stranger takes do not keep a program from RDMA

    stranger: all names that a process might take, and names that lead nowhere
    process of the same user: answers, with descriptors that take long to close

Processes that share RoCEv2's UDP port find each other by the names of unix sockets.  Another user
takes each name that can be guessed, before a program starts, and adds many of his own.  Two programs
of a host talk to peers on another host all the same: the first one makes the port's sockets, and
the second one gets them from it.  The names that stand for QP numbers are taken, too, and two
programs of the host find each other.

A process of the program's own user has the port, and gives others sockets that linger.  The program
has no port then, and says so.  It does not sleep in close().
"""
import array
import contextlib
import encodings.idna  # noqa: F401, before this is another user
import os
import secrets
import signal
import socket
import struct
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "verbs"))
import attacker  # noqa: E402
import programs  # noqa: E402
import run_roce  # noqa: E402
from test_roce_mail import enter, names_of_mail  # noqa: E402

PORT, BLOCKS, OWN_NAMES = 4791, 1 << 14, 500
PART = 900  # sockets of a process
LINGER_S = 600  # longer than a program may take
PINGPONG = ["ibv_rc_pingpong", "-d", "osf0", "-g", run_roce.GID, "-c", "-n", "300"]
MAGIC, WANT, GIVE, HELLO, HERE_KIND = 0x66636f72, 1, 2, 4, 5
kept = []  # far ends, which never read
MAIL = "=IIQII40x"  # struct mail of wire_mail.c: magic, kind, number, block, part


def mail(kind, number):
    return struct.pack(MAIL, MAGIC, kind, number, 7, 0)


def name_of(number):
    return "\0osf-roce/%016x" % number


def start_in(namespace, uid, work, folder):
    """A process in a network namespace, once it is ready.  Return: its pid."""
    ready = os.path.join(folder, "ready-%d" % uid)
    os.chmod(folder, 0o777)

    def enter_and_work():
        os.setpgid(0, 0)
        enter(namespace)
        if uid:
            os.setgid(uid)
            os.setuid(uid)
        attacker.ends_with_parent()
        work(lambda: open(ready, "w").close())

    pid = attacker.as_user(0, enter_and_work)
    attacker.until(lambda: os.path.exists(ready))
    return pid


def end(pid):
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def take(names, tell):
    """Ends when the test ends its process group."""
    attacker.ends_with_parent()
    for kind, name in names:
        kept.append(socket.socket(socket.AF_UNIX, kind))
        kept[-1].bind(name)
        if kind == socket.SOCK_SEQPACKET:
            kept[-1].listen(1)
    os.write(tell, b"x")
    signal.pause()


def take_names(ready):
    names = [(socket.SOCK_DGRAM, "\0osf-roce/%d" % i) for i in range(BLOCKS)]
    names += [(socket.SOCK_DGRAM, "\0osf-roce/opening")]
    names += [(socket.SOCK_DGRAM, name_of(secrets.randbits(64))) for _ in range(OWN_NAMES)]
    names += [(socket.SOCK_SEQPACKET, "\0osf-rdma/%d" % i) for i in range(BLOCKS)]
    names += [(socket.SOCK_SEQPACKET, "\0osf-rdma/%d/%016x" % (i, secrets.randbits(64))) for i in range(OWN_NAMES)]
    heard, tell = os.pipe()
    parts = [names[i:i + PART] for i in range(0, len(names), PART)]
    for part in parts:
        if os.fork() == 0:
            take(part, tell)
    os.close(tell)
    for _ in parts:
        assert os.read(heard, 1), "a process could not take its names"
    ready()
    signal.pause()


def on_one_host(run, hosts, program, port):
    folder = tempfile.mkdtemp(dir=run.tmp)
    command = [program, "-d", "osf0", "-g", run_roce.GID, "-n", "100", "-p", str(port)]
    server = hosts.start(0, folder, "server", command)
    hosts.wait_listening(0, port, server)
    client = hosts.start(0, folder, "client", command + [run_roce.A])
    status = [programs.finish(client), programs.finish(server)]
    print("%s on one host ended with %s" % (program, status), flush=True)
    if status != [0, 0]:
        programs.show(folder)
    run.need(status == [0, 0], "programs of one host do not find each other")


def two_programs(run, hosts):
    """Each is a server that waits with a connection of its own, so that both have the port at once."""
    folder = tempfile.mkdtemp(dir=run.tmp)
    pid = start_in(hosts.names[0], attacker.NOBODY - 1, take_names, folder)
    long = run_roce.pair(hosts, folder, "first", ["ibv_rc_pingpong", "-e", "-n", "1000000"], 18475)
    good = run_roce.ends_well(hosts, "beside a stranger's names", PINGPONG[:1] + PINGPONG[5:], 18476)
    print("the first one:", [p.poll() for p in long], flush=True)
    run.need(good and all(p.poll() is None for p in long), "a program has no port")
    for process in long:
        process.kill()
        process.wait()
    on_one_host(run, hosts, "ibv_rc_pingpong", 18478)
    on_one_host(run, hosts, "ibv_ud_pingpong", 18478)
    end(pid)


def give_lingering(unix, message, asker):
    """The program's copies are the last."""
    pairs = [attacker.lingering(LINGER_S) for _ in range(7)]
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [out.fileno() for out, _ in pairs]))]
    try:
        unix.sendmsg([message], rights, 0, asker)
    finally:
        for out, _ in pairs:
            attacker.close_aside(out.detach())
    kept.extend(far_end for _, far_end in pairs)
    print("gave sockets that linger", flush=True)


def answer_badly(ready):
    """Has the port, and mail that says so."""
    udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    udp.bind(("::", PORT))
    unix, number = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), secrets.randbits(64)
    unix.bind(name_of(number))
    ready()
    while True:  # until the test ends it
        got, _, _, asker = unix.recvmsg(1000)
        _, kind, theirs = struct.unpack_from("=IIQ", got)
        with contextlib.suppress(ConnectionRefusedError):  # it has given up
            if kind == HELLO:
                unix.sendto(mail(HERE_KIND, number), name_of(theirs))
            elif kind == WANT:
                give_lingering(unix, mail(GIVE, number), asker)


def wrong_sockets(run, hosts):
    folder = tempfile.mkdtemp(dir=run.tmp)
    pid = start_in(hosts.names[0], 0, answer_badly, folder)
    command = PINGPONG + ["-p", "18477"]
    server = hosts.start(1, folder, "server", command)
    hosts.wait_listening(1, 18477, server)
    status = programs.finish(hosts.start(0, folder, "client", command + [run_roce.B]))
    server.kill()
    server.wait()
    end(pid)
    print("the client ended with %s" % status)
    if status != 1:
        programs.show(folder)
    run.need(status == 1, "a program sleeps, or works without a port")


def main():
    run = attacker.run_with_device(__file__, ["ibv_rc_pingpong"])
    with run_roce.Hosts() as hosts:
        two_programs(run, hosts)
        wrong_sockets(run, hosts)
    run.done()


if __name__ == "__main__":
    main()
