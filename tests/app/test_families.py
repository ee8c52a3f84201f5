#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_families.py - AF_INET_OFFLOAD and AF_INET_DIRECT

Each scenario is a program of its own under osf.  The first family is offloaded
from its first byte on, or does not connect; the second stays with the kernel; and
both call themselves AF_INET.  A socket that was given keys stays, too.
"""
import ctypes
import errno
import glob
import os
import re
import select
import socket
import struct
import sys
import threading

import harness

LIBC = ctypes.CDLL(None, use_errno=True)


def values():
    """AF_INET_OFFLOAD and AF_INET_DIRECT, from their header."""
    path = os.path.join(harness.HERE, "..", "..", "include", "osf", "proto.h")
    with open(path) as f:
        found = re.findall(r"#define AF_INET_\w+ (0x[0-9a-f]+)", f.read())
    return [int(word, 16) for word in found]


OFFLOAD, DIRECT = values()
MD5SIG, MD5SIG_EXT = 14, 32


# --- inside a program under osf ---

def of_family(family, kind=socket.SOCK_STREAM):
    """Python only knows what to do with the addresses of families it knows."""
    fd = socket.socket(family, kind).detach()
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=fd)


def listener(family):
    s = of_family(family)
    s.bind(("127.0.0.1", 0))
    s.listen(8)
    return s


def entries(*socks):
    own = sorted(glob.glob(os.path.join(os.environ["OSF_STATS_DIR"],
                                        "%d.*.osf" % os.getpid())))[-1]
    by_fd = {s.fd: s for s in harness.Segment(own).socks}
    return [by_fd[s.fileno()] for s in socks]


def expect(got, want):
    if got != want:
        raise SystemExit("%r, where %r was expected" % (got, want))


def receive(sock, n):
    data = b""
    while len(data) < n:
        part = sock.recv(n - len(data))
        if not part:
            raise SystemExit("end after %d of %d bytes" % (len(data), n))
        data += part
    return data


def reasons(*socks):
    names = harness.reason_names()
    return [names[e.reason] for e in entries(*socks)]


def is_inet(sock):
    expect(sock.getsockname()[0], "127.0.0.1")
    expect(sock.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN),
           socket.AF_INET)
    expect(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL),
           socket.IPPROTO_TCP)
    raw = (ctypes.c_uint16 * 14)()
    for call in (LIBC.getsockname, LIBC.getpeername):
        size = ctypes.c_uint32(28)
        if call(sock.fileno(), raw, ctypes.byref(size)) == 0:
            expect((raw[0], size.value), (socket.AF_INET, 16))


def exchange(one, two, n=100000):
    for a, b in ((one, two), (two, one)):
        sent = os.urandom(n)
        thread = threading.Thread(target=a.sendall, args=(sent,))
        thread.start()
        expect(receive(b, n) == sent, True)
        thread.join()


def offload_from_the_first_byte():
    for blocking in (True, False):
        with listener(OFFLOAD) as l:
            one = of_family(OFFLOAD)
            one.setblocking(blocking)
            expect(one.connect_ex(l.getsockname()),
                   0 if blocking else errno.EINPROGRESS)
            two, peer = l.accept()
            select.select([], [one], [], 10)
            one.setblocking(True)
            expect(peer, one.getsockname())
            expect(l.getsockname(), one.getpeername())
            for s in (l, one, two):
                is_inet(s)
            exchange(one, two)
            expect(reasons(one, two), ["UPGRADED"] * 2)
            expect([(e.rx_bytes_inet, e.tx_bytes_inet)
                    for e in entries(one, two)], [(0, 0)] * 2)


def offload_to_one_listener_often():
    """Who asks a listener whether it takes part stays in the backlog of its name."""
    with listener(OFFLOAD) as l:
        for _ in range(6):
            one = of_family(OFFLOAD)
            one.connect(l.getsockname())
            two, _ = l.accept()
            exchange(one, two, 100)
            expect(reasons(one, two), ["UPGRADED"] * 2)


def kernel_listener_often():
    """As above, of a listener whose connections a rule leaves to the kernel."""
    with listener(socket.AF_INET) as l:
        for _ in range(6):
            one = of_family(socket.AF_INET)
            one.connect(l.getsockname())
            two, _ = l.accept()
            for _ in range(24):
                exchange(one, two, 100)
            expect(reasons(one, two), ["PEER_KERNEL", "RULE"])


def offload_to_others_fails():
    """Their listener is one that nobody under osf has."""
    with listener(DIRECT) as l:
        for blocking in (True, False):
            s = of_family(OFFLOAD)
            s.setblocking(blocking)
            for again in range(2):
                expect(s.connect_ex(l.getsockname()), errno.EHOSTUNREACH)
            expect(reasons(s), ["NO_PEER"])
            expect(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0)
            try:
                s.getpeername()
                raise SystemExit("is connected all the same")
            except OSError as e:
                expect(e.errno, errno.ENOTCONN)
            s.setblocking(True)
            with listener(OFFLOAD) as ours:
                s.connect(ours.getsockname())
                exchange(s, ours.accept()[0])
                expect(reasons(s), ["UPGRADED"])
        to = l.getsockname()
    expect(of_family(OFFLOAD).connect_ex(to), errno.ECONNREFUSED)


def offload_fails():
    with listener(socket.AF_INET) as l:
        expect(of_family(OFFLOAD).connect_ex(l.getsockname()),
               errno.EHOSTUNREACH)


def direct_stays():
    with listener(socket.AF_INET) as l:
        one = of_family(DIRECT)
        one.connect(l.getsockname())
        two, _ = l.accept()
        is_inet(one)
        exchange(one, two)
        expect(reasons(one), ["DIRECT"])
        expect([e.rx_bytes_shm for e in entries(one, two)], [0, 0])
    with listener(DIRECT) as l:
        one = of_family(socket.AF_INET)
        one.connect(l.getsockname())
        two, _ = l.accept()
        is_inet(two)
        exchange(one, two)
        expect(reasons(l, two), ["DIRECT"] * 2)
        expect([e.rx_bytes_shm for e in entries(one, two)], [0, 0])


def set_key(sock, name):
    """A key of TCP-MD5 for 127.0.0.1, by TCP_MD5SIG or TCP_MD5SIG_EXT."""
    peer = struct.pack("=H2x4s120x", socket.AF_INET, socket.inet_aton("127.0.0.1"))
    is_ext = name == MD5SIG_EXT
    sock.setsockopt(socket.IPPROTO_TCP, name,
                    peer + struct.pack("=BBHi80s", is_ext, 32 * is_ext, 6, 0, b"secret"))


def keys_stay():
    """What signs segments is the kernel's."""
    for name in (MD5SIG, MD5SIG_EXT):
        with listener(socket.AF_INET) as l:
            one = of_family(socket.AF_INET)
            set_key(l, name)
            set_key(one, name)
            one.connect(l.getsockname())
            two, _ = l.accept()
            exchange(one, two)
            expect(reasons(one), ["OPTION"])
            expect([e.rx_bytes_shm for e in entries(one, two)], [0, 0])


def addresses_may_have_the_family():
    for family in (OFFLOAD, DIRECT):
        with listener(OFFLOAD if family == OFFLOAD else DIRECT) as l:
            s = of_family(family)
            to = bytearray(16)
            to[0:2] = family.to_bytes(2, sys.byteorder)
            to[4:8] = bytes([127, 0, 0, 1])
            expect(LIBC.bind(s.fileno(), bytes(to), 16), 0)
            to[2:4] = l.getsockname()[1].to_bytes(2, "big")
            expect(LIBC.connect(s.fileno(), bytes(to), 16), 0)
            is_inet(s)
            l.accept()


def only_tcp_has_them():
    """Anything else is the kernel's, which has never heard of them."""
    for family in (OFFLOAD, DIRECT):
        for kind, proto in ((socket.SOCK_DGRAM, 0), (socket.SOCK_RAW, 6),
                            (socket.SOCK_SEQPACKET, 0),
                            (socket.SOCK_STREAM, socket.IPPROTO_UDP),
                            (socket.SOCK_STREAM, socket.IPPROTO_SCTP),
                            (socket.SOCK_STREAM, 262)):
            try:
                socket.socket(family, kind, proto)
                raise SystemExit("%x: got type %d" % (family, kind))
            except OSError as e:
                expect(e.errno, errno.EAFNOSUPPORT)
        for flag in (0, socket.SOCK_NONBLOCK, socket.SOCK_CLOEXEC):
            for proto in (0, socket.IPPROTO_TCP):
                fd = LIBC.socket(family, socket.SOCK_STREAM | flag, proto)
                expect(fd >= 0, True)
                expect(os.get_blocking(fd), flag != socket.SOCK_NONBLOCK)
                os.close(fd)


# --- outside ---

def main():
    run = harness.Run(__file__)
    if run.is_kernel:
        harness.skip("the families are osf's")
    for scenario, env in ((offload_from_the_first_byte, {}),
                          (offload_to_one_listener_often, {}),
                          (kernel_listener_often, {"OSF_UPGRADE_TURNS": "0",
                                                   "OSF_RULES": "use os tcp_server *:*"}),
                          (offload_to_others_fails, {}),
                          (offload_fails, {"OSF_SHM": "0"}),
                          (offload_fails,
                           {"OSF_RULES": "use os tcp_client *:*"}),
                          (offload_fails,
                           {"OSF_RULES": "use os tcp_client *:*; "
                            "use os tcp_server *:*"}),
                          (direct_stays, {"OSF_UPGRADE_TURNS": "0"}),
                          (keys_stay, {"OSF_UPGRADE_TURNS": "0"}),
                          (addresses_may_have_the_family, {}),
                          (only_tcp_has_them, {})):
        run.python(__file__, "program", scenario.__name__, extra=env)
    run.done()


if len(sys.argv) > 1 and sys.argv[1] == "program":
    globals()[sys.argv[2]]()
else:
    main()
