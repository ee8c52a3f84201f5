#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_routes.py - the kernel's routes say what is this host and what is not

    test_routes.py FOLDER    the folder with the modules of module_dummy.c

Each scenario is a program under osf that first moves to a network namespace of its
own.  It asks ops_route(), or connects and reads from the statistics what carried it.
"""
import ctypes
import errno
import fcntl
import glob
import ipaddress
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading

import harness

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
SO_MARK, SO_BINDTODEVICE, SO_TIMESTAMPING = 36, 25, 37
MSG_FASTOPEN = 0x20000000
NONE, LOCAL, LINK, GATEWAY = range(4)
MAPPED = bytes(10) + b"\xff\xff"
MUCH = bytes(range(251)) * (16 << 12)  # more than a connection holds


# --- inside a program under osf ---

class Route(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("kind", ctypes.c_uint32),
                ("ifindex", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
                ("hop", ctypes.c_uint8 * 16), ("source", ctypes.c_uint8 * 16)]


def need(ok, why):
    if not ok:
        raise SystemExit(why)


def expect(got, want):
    need(got == want, "%r, where %r was expected" % (got, want))


def ip(*words, text=None):
    """Return: what ip has printed."""
    env = dict(os.environ)
    env.pop("LD_PRELOAD", None)
    return subprocess.run(["ip"] + list(words), check=True, env=env, input=text,
                          text=True, stdout=subprocess.PIPE).stdout


def own_namespace():
    """With a device whose other end is another host's, 10.1.0.2."""
    need(LIBC.unshare(CLONE_NEWNET) == 0, "no namespace")
    ip("-batch", "-", text="""
        link set lo up
        link add one type veth peer name two
        link set one up
        link set two up
        addr add 10.1.0.1/24 dev one
        addr add fd01::1/64 dev one nodad
        route add 10.2.0.0/16 via 10.1.0.2
        route add fd02::/64 via fd01::2
        route add 10.3.0.0/16 via inet6 fd01::3 dev one
    """)
    # A device has its link-local route when the kernel has seen its carrier.
    for device in ("one", "two"):
        while "fe80::/64" not in ip("-6", "route", "show", "dev", device):
            pass


def address(host, port=80, scope=0):
    a = ipaddress.ip_address(host)
    if a.version == 4:
        return (socket.AF_INET.to_bytes(2, sys.byteorder) +
                port.to_bytes(2, "big") + a.packed + bytes(8))
    return (socket.AF_INET6.to_bytes(2, sys.byteorder) +
            port.to_bytes(2, "big") + bytes(4) + a.packed +
            scope.to_bytes(4, sys.byteorder))


def route(host, sock=None, **kw):
    r = Route(size=ctypes.sizeof(Route))
    to = address(host, **kw)
    expect(LIBC.ops_route(sock.fileno() if sock else -1, to, len(to),
                          ctypes.byref(r)), 0)
    return r


def kind(host, sock=None, **kw):
    return route(host, sock, **kw).kind


def is_at(packed, host):
    a = ipaddress.ip_address(host)
    expect(bytes(packed), a.packed if a.version == 6 else MAPPED + a.packed)


def kinds_of_routes():
    own_namespace()
    one = socket.if_nametoindex("one")
    for host, want in (("127.0.0.1", LOCAL), ("127.9.9.9", LOCAL),
                       ("::1", LOCAL), ("0.0.0.0", LOCAL), ("::", LOCAL),
                       ("10.1.0.1", LOCAL), ("::ffff:10.1.0.1", LOCAL),
                       ("fd01::1", LOCAL), ("10.1.0.2", LINK),
                       ("fd01::2", LINK), ("10.2.0.1", GATEWAY),
                       ("fd02::9", GATEWAY), ("10.3.0.1", GATEWAY),
                       ("10.4.0.1", NONE), ("fd04::1", NONE),
                       ("10.1.0.255", NONE), ("224.0.0.1", NONE)):
        need(kind(host) == want, "%s: %d, not %d" % (host, kind(host), want))
    for host, hop, source in (("10.1.0.2", "10.1.0.2", "10.1.0.1"),
                              ("10.2.0.1", "10.1.0.2", "10.1.0.1"),
                              ("10.3.0.1", "fd01::3", "10.1.0.1"),
                              ("fd02::9", "fd01::2", "fd01::1")):
        r = route(host)
        expect(r.ifindex, one)
        is_at(r.hop, hop)
        is_at(r.source, source)
    # A link-local neighbour is one by its device.
    expect(route("fe80::1", scope=one).ifindex, one)
    expect(kind("fe80::1", scope=socket.if_nametoindex("two")), LINK)


def arguments():
    r = Route(size=ctypes.sizeof(Route))
    to = address("127.0.0.1")
    call = LIBC.ops_route
    expect(call(-1, None, 16, ctypes.byref(r)), -22)
    expect(call(-1, to, 16, None), -22)
    expect(call(-1, to, 15, ctypes.byref(r)), -97)
    expect(call(-1, address("::1"), 27, ctypes.byref(r)), -97)
    expect(call(-1, bytes(16), 16, ctypes.byref(r)), -97)
    r.size = 47
    expect(call(-1, to, 16, ctypes.byref(r)), -22)
    r.size = 4096  # of a later osf
    expect(call(-1, to, 16, ctypes.byref(r)), 0)
    expect((r.size, r.kind), (48, LOCAL))


def changes_are_seen():
    own_namespace()
    for command, host, want in (
            (None, "10.5.0.1", NONE),
            ("addr add 10.5.0.1/24 dev two", "10.5.0.1", LOCAL),
            ("addr del 10.5.0.1/24 dev two", "10.5.0.1", NONE),
            ("route add local 10.5.0.0/16 dev lo", "10.5.0.1", LOCAL),
            ("route add unicast 10.5.0.0/16 via 10.1.0.9", "10.5.0.1", LOCAL),
            ("route del local 10.5.0.0/16 table local dev lo", "10.5.0.1",
             GATEWAY),
            ("rule add to 10.5.0.0/24 unreachable", "10.5.0.1", NONE),
            ("rule del to 10.5.0.0/24 unreachable", "10.5.0.1", GATEWAY),
            ("-6 rule add to fd02::/64 prohibit", "fd02::9", NONE),
            ("-6 rule del to fd02::/64 prohibit", "fd02::9", GATEWAY),
            ("route add blackhole 10.5.0.1", "10.5.0.1", NONE),
            ("nexthop add id 7 via 10.1.0.7 dev one", "10.6.0.1", NONE),
            ("route add 10.6.0.0/16 nhid 7", "10.6.0.1", GATEWAY),
            ("link set two down", "10.1.0.2", LINK),
            ("link set one down", "10.1.0.2", NONE)):
        if command:
            ip(*command.split())
        need(kind(host) == want, "%s, then %s: %d, not %d" %
             (command, host, kind(host), want))


def next_hops_that_routes_share():
    own_namespace()
    ip("nexthop", "add", "id", "7", "via", "10.1.0.7", "dev", "one")
    ip("route", "add", "10.6.0.0/16", "nhid", "7")
    is_at(route("10.6.0.1").hop, "10.1.0.7")
    ip("nexthop", "replace", "id", "7", "via", "10.1.0.8", "dev", "one")
    is_at(route("10.6.0.1").hop, "10.1.0.8")


def more_changes_than_are_kept():
    """The kernel says that it could not tell of all."""
    own_namespace()
    expect(kind("10.77.3.3"), NONE)
    ip("-batch", "-", text="".join("addr add 10.77.%d.%d/32 dev two\n" %
                                   (i // 200, i % 200)
                                   for i in range(1500)))
    expect(kind("10.77.3.3"), LOCAL)
    ip("addr", "flush", "dev", "two")
    expect(kind("10.77.3.3"), NONE)


def more_destinations_than_are_kept():
    own_namespace()
    for again in range(2):
        for i in range(1000):
            host = "10.%d.%d.9" % (1 + i % 4, i // 4)
            want = [LINK if i < 4 else NONE, GATEWAY, GATEWAY, NONE][i % 4]
            need(kind(host) == want, "%s: %d, not %d" %
                 (host, kind(host), want))


def sockets_have_routes_of_their_own():
    own_namespace()
    ip("-batch", "-", text="""
        addr add 10.1.0.11/24 dev one
        rule add from 10.1.0.11 to 10.2.0.0/16 unreachable
        rule add fwmark 5 to 10.2.0.0/16 prohibit
        route add default via 10.1.0.2
        addr add 10.9.0.1/24 dev two
    """)
    plain, bound, marked, device, any_addr = [socket.socket()
                                              for i in range(5)]
    bound.bind(("10.1.0.11", 0))
    any_addr.bind(("", 0))
    marked.setsockopt(socket.SOL_SOCKET, SO_MARK, 5)
    device.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, b"two")
    expect([kind("10.2.0.1", s) for s in
            (None, plain, bound, marked, any_addr)],
           [GATEWAY, GATEWAY, NONE, NONE, GATEWAY])
    expect([kind("10.1.0.2", s) for s in (plain, bound, marked)], [LINK] * 3)
    expect(route("10.9.0.7", device).ifindex, socket.if_nametoindex("two"))
    # An address that is not this host's is no reason to know nothing.
    free = socket.socket()
    free.setsockopt(socket.SOL_IP, 15, 1)  # IP_FREEBIND
    free.bind(("10.44.0.1", 0))
    expect(kind("10.2.0.1", free), GATEWAY)


def namespaces():
    """A socket goes by the routes of the namespace that it was made in."""
    with open("/proc/self/ns/net") as home:
        before = socket.socket()
        own_namespace()
        after = socket.socket()
        expect(kind("10.1.0.1", after), LOCAL)
        ip("link", "del", "one")
        expect(kind("10.1.0.1", after), NONE)
        expect(LIBC.setns(home.fileno(), CLONE_NEWNET), 0)
        expect(kind("10.1.0.1", after), NONE)  # cannot be asked from here
        expect(kind("127.0.0.1", before), LOCAL)


def forks():
    own_namespace()
    expect(kind("10.5.0.1"), NONE)
    pid = os.fork()
    if not pid:
        ip("addr", "add", "10.5.0.1/24", "dev", "two")
        expect(kind("10.5.0.1"), LOCAL)
        os._exit(0)
    expect(os.waitpid(pid, 0)[1], 0)
    expect(kind("10.5.0.1"), LOCAL)


def reasons_of(*socks):
    stats = harness.Segment(glob.glob(os.path.join(
        os.environ["OSF_STATS_DIR"], "%d.*.osf" % os.getpid()))[0])
    names = harness.reason_names()
    return {names[s.reason] for s in stats.socks
            if s.fd in [sock.fileno() for sock in socks]}


def carried_by(host):
    """What moved 100 KB between @host and a listener there."""
    with socket.socket() as l:
        l.setsockopt(socket.SOL_IP, 15, 1)
        l.bind((host, 0))
        l.listen(1)
        one = socket.create_connection(l.getsockname())
        two = l.accept()[0]
        for i in range(100):
            one.sendall(bytes(1000))
            expect(len(two.recv(1000, socket.MSG_WAITALL)), 1000)
            two.sendall(b"x")
            expect(one.recv(1), b"x")
        return reasons_of(one, two)


def whole_networks_may_be_local():
    own_namespace()
    expect(carried_by("10.1.0.1"), {"UPGRADED"})
    ip("route", "add", "local", "10.5.0.0/16", "dev", "lo")
    expect(carried_by("10.5.6.7"), {"UPGRADED"})


def connections_to_everywhere():
    """To this host, a neighbour, a host behind a gateway and nowhere."""
    own_namespace()
    for port, host in enumerate(("10.1.0.1", "10.1.0.2", "10.2.0.1",
                                 "10.4.0.1"), 1001):
        with socket.socket() as s:
            s.setblocking(False)
            s.connect_ex((host, port))


def told_of():
    """What a module hears when the next call looks."""
    own_namespace()
    kind("10.1.0.1")
    ip("addr", "add", "10.5.0.1/24", "dev", "two")
    kind("10.1.0.1")
    ip("rule", "add", "to", "10.9.0.0/16", "unreachable")
    ip("-6", "route", "add", "fd09::/64", "dev", "two")
    ip("link", "set", "one", "down")
    kind("10.1.0.1")
    print(socket.if_nametoindex("one"), socket.if_nametoindex("two"))


def teller(fifo, out):
    """Changes an address, and ends the program's wait once the module knows."""
    ip("addr", "add", "10.5.0.1/24", "dev", "two")
    two = str(socket.if_nametoindex("two"))
    with open(fifo) as lines:
        for line in lines:
            if line.split()[1:] == ["notify", "1", two, "2"]:
                break
        os.write(int(out), b"x")


def told_while_asleep(wait):
    own_namespace()
    r, w = os.pipe()
    os.set_inheritable(w, True)
    fifo = os.environ["DUMMY_LOG"]
    env = dict(os.environ)
    env.pop("LD_PRELOAD", None)
    with subprocess.Popen([sys.executable, __file__, "program", "teller",
                           fifo, str(w)], env=env, pass_fds=[w]) as p:
        expect(wait(r), True)
        expect(p.wait(), 0)


def in_poll(fd):
    p = select.poll()
    p.register(fd, select.POLLIN)
    return p.poll(10000) == [(fd, select.POLLIN)]


def in_select(fd):
    return select.select([fd], [], [], 10) == ([fd], [], [])


def in_epoll(fd, *more):
    with select.epoll() as ep:
        for f in (fd,) + more:
            ep.register(f, select.EPOLLIN)
        return ep.poll(10) == [(fd, select.EPOLLIN)]


def in_epoll_with_offloaded(fd):
    one, two = offloaded_pair()
    return in_epoll(fd, one, two)


def in_poll_with_offloaded(fd):
    one, two = offloaded_pair()
    p = select.poll()
    for f in (fd, one, two):
        p.register(f, select.POLLIN)
    return p.poll(10000) == [(fd, select.POLLIN)]


def in_poll_of_epoll(fd):
    with select.epoll() as ep:
        ep.register(fd, select.EPOLLIN)
        ep.poll(0)
        return in_poll(ep.fileno()) and ep.poll(0) == [(fd, select.EPOLLIN)]


def in_epoll_of_a_child(fd):
    """One set each: what both share would tell only one of them."""
    with select.epoll() as shared:
        shared.register(fd, select.EPOLLIN)
        shared.poll(0)
        pid = os.fork()
        if not pid:
            os._exit(0 if in_epoll(fd) else 1)
        return os.waitpid(pid, 0)[1] == 0


def offloaded_pair():
    with socket.create_server(("127.0.0.1", 0)) as l:
        one = socket.create_connection(l.getsockname())
        two = l.accept()[0]
        for i in range(100):
            one.sendall(bytes(1000))
            expect(len(two.recv(1000, socket.MSG_WAITALL)), 1000)
            two.sendall(b"x")
            expect(one.recv(1), b"x")
        expect(reasons_of(one, two), {"UPGRADED"})
        return one, two


def in_recv_of_offloaded(fd):
    return received_when_told(fd, *offloaded_pair())


def kernel_pair():
    with socket.create_server(("127.0.0.1", 0)) as l:
        return socket.create_connection(l.getsockname()), l.accept()[0]


def received_when_told(fd, one, two):
    pass_on = threading.Thread(target=lambda: two.sendall(os.read(fd, 1)))
    one.settimeout(None)
    pass_on.start()
    got = one.recv(1)
    pass_on.join()
    return got == b"x"


def in_recv_of_young(fd):
    return received_when_told(fd, *kernel_pair())


def in_recv_of_kernels(fd):
    one, two = kernel_pair()
    one.shutdown(socket.SHUT_WR)
    expect(reasons_of(one), {"HALF_CLOSED"})
    return received_when_told(fd, one, two)


def all_received_when_told(fd, one, two):
    """The first byte is there, and MSG_WAITALL waits for the others."""
    def pass_on():
        os.read(fd, 1)
        two.sendall(b"bcd")
        two.sendall(b"efgh")
    two.sendall(b"a")
    one.settimeout(None)
    rest = threading.Thread(target=pass_on)
    rest.start()
    got = one.recv(7, socket.MSG_WAITALL)
    rest.join()
    return got + one.recv(1) == b"abcdefgh"


def in_waitall_of_young(fd):
    return all_received_when_told(fd, *kernel_pair())


def in_waitall_of_kernels(fd):
    one, two = kernel_pair()
    one.shutdown(socket.SHUT_WR)
    expect(reasons_of(one), {"HALF_CLOSED"})
    return all_received_when_told(fd, one, two)


def in_splice_from(fd):
    one, two = kernel_pair()
    r, w = os.pipe()
    pass_on = threading.Thread(target=lambda: two.sendall(os.read(fd, 1)))
    one.settimeout(None)
    pass_on.start()
    expect(os.splice(one.fileno(), w, 100), 1)
    pass_on.join()
    return os.read(r, 2) == b"x"


def sent_when_told(fd, one, two, send):
    """@send sends more than the kernel holds, and ends when somebody reads."""
    got = []

    def drain():
        os.read(fd, 1)
        while True:
            some = two.recv(1 << 20)
            if not some:
                return
            got.append(some)
    reader = threading.Thread(target=drain)
    one.settimeout(None)
    reader.start()
    expect(send(one), len(MUCH))
    one.shutdown(socket.SHUT_WR)
    reader.join()
    return b"".join(got) == MUCH


def pair_of_kernels():
    """Its first end stays in the kernel, its second end learns that."""
    one, two = kernel_pair()
    one.shutdown(socket.SHUT_RD)
    expect(reasons_of(one), {"HALF_CLOSED"})
    return one, two


def in_send_of_young(fd):
    one, two = kernel_pair()
    two.shutdown(socket.SHUT_WR)
    return sent_when_told(fd, one, two, lambda s: s.send(MUCH))


def in_send_of_kernels(fd):
    return sent_when_told(fd, *pair_of_kernels(), lambda s: s.send(MUCH))


def in_sendmsg(fd):
    parts = [MUCH[:1000], MUCH[1000:1 << 20], MUCH[1 << 20:]]
    return sent_when_told(fd, *pair_of_kernels(), lambda s: s.sendmsg(parts))


def in_sendfile(fd):
    with tempfile.TemporaryFile() as f:
        f.write(MUCH)
        f.flush()
        return sent_when_told(fd, *pair_of_kernels(), lambda s:
                              os.sendfile(s.fileno(), f.fileno(), 0, len(MUCH)))


def in_splice_to(fd):
    r, w = os.pipe()

    def fill():
        left = memoryview(MUCH)
        while left:
            left = left[os.write(w, left):]

    def send(s):
        done = 0
        while done < len(MUCH):
            done += os.splice(r, s.fileno(), 1 << 20)
        return done
    filler = threading.Thread(target=fill)
    filler.start()
    told = sent_when_told(fd, *pair_of_kernels(), send)
    filler.join()
    return told


def in_sendmsg_with_control(fd):
    """The control message is about the last byte."""
    stamp = [(socket.SOL_SOCKET, SO_TIMESTAMPING, struct.pack("I", 2))]
    wrong = [(socket.SOL_SOCKET, SO_TIMESTAMPING, struct.pack("I", 1 << 30))]
    one, two = pair_of_kernels()
    try:
        one.sendmsg([MUCH], wrong)
        return False
    except OSError as e:
        expect(e.errno, errno.EINVAL)
    return sent_when_told(fd, one, two, lambda s: s.sendmsg([MUCH], stamp))


def in_send_urgent(fd):
    one, two = pair_of_kernels()
    two.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    return sent_when_told(fd, one, two,
                          lambda s: s.send(MUCH, socket.MSG_OOB))


def connects_when_told(fd, work):
    """@work(s, listener): connects s to a listener whose queue is full until there is
    something at @fd."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as l:
        first = socket.create_connection(l.getsockname())

        def room():
            os.read(fd, 1)
            l.accept()[0].close()
        accepts = threading.Thread(target=room)
        with socket.socket() as s:
            accepts.start()
            is_right = work(s, l)
            accepts.join()
            first.close()
            return is_right


def in_fastopen(fd):
    """sendto() connects, to a listener whose queue is full."""
    def work(s, l):
        expect(s.sendto(b"hello", MSG_FASTOPEN, l.getsockname()), 5)
        return l.accept()[0].recv(9) == b"hello"
    return connects_when_told(fd, work)


def in_connect(fd):
    """The listener's queue is full until somebody accepts."""
    def work(s, l):
        s.connect(l.getsockname())
        need(s.getblocking() and not fcntl.fcntl(s, fcntl.F_GETFL) &
             os.O_NONBLOCK, "connect() has left the socket non-blocking")
        l.accept()[0].sendall(b"x")
        return s.recv(1) == b"x"
    return connects_when_told(fd, work)


def in_accept(fd):
    with socket.create_server(("127.0.0.1", 0)) as l:
        def come():
            os.read(fd, 1)
            socket.create_connection(l.getsockname()).close()
        caller = threading.Thread(target=come)
        caller.start()
        l.accept()[0].close()
        caller.join()
        return True


class GroupAttr(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint)] + [
        (name, ctypes.c_void_p) for name in
        ("event", "completion", "receive", "accept")]


def in_poll_group(fd):
    """A handler ends the wait, once the module knows."""
    group = ctypes.c_uint64()
    no_event = ctypes.CFUNCTYPE(None)(lambda: None)
    attr = GroupAttr(event=ctypes.cast(no_event, ctypes.c_void_p))
    expect(LIBC.xlio_init(), 0)
    expect(LIBC.xlio_poll_group_create(ctypes.byref(attr),
                                       ctypes.byref(group)), 0)
    signal.signal(signal.SIGUSR1, lambda *a: None)
    over = threading.Event()

    def interrupt():
        os.read(fd, 1)
        while not over.wait(0.01):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
    thread = threading.Thread(target=interrupt)
    thread.start()
    expect(LIBC.osf_group_wait(group, 10000), -errno.EINTR)
    over.set()
    thread.join()
    expect(LIBC.xlio_poll_group_destroy(group), 0)
    return True


WAITS = (in_recv_of_young, in_recv_of_kernels, in_send_of_young,
         in_send_of_kernels, in_sendmsg, in_sendfile, in_connect, in_accept,
         in_waitall_of_young, in_waitall_of_kernels, in_splice_from,
         in_splice_to, in_sendmsg_with_control, in_send_urgent, in_fastopen,
         in_recv_of_offloaded, in_poll_group, in_poll,
         in_select, in_epoll, in_poll_with_offloaded,
         in_epoll_with_offloaded, in_poll_of_epoll, in_epoll_of_a_child)

SCENARIOS = (kinds_of_routes, arguments, changes_are_seen,
             next_hops_that_routes_share, more_changes_than_are_kept,
             more_destinations_than_are_kept,
             sockets_have_routes_of_their_own, namespaces, forks,
             whole_networks_may_be_local)


# --- outside ---

SELF_ROUTING, TO_LOCAL, TO_REMOTE, BY_GATEWAY = 1, 2, 4, 64


def with_module(run, folder, scenario, **env):
    """Return: what the module logged, by words, and what the program printed."""
    log = run.path("module.%d" % len(os.listdir(run.tmp)))
    env.update(OSF_MODULES=os.path.join(folder, "module_dummy.so"),
               DUMMY_LOG=log)
    out = run.python(__file__, "program", scenario.__name__, extra=env)
    with open(log) as f:
        return [line.split() for line in f], out.split()


def modules_are_asked_by_route(run, folder):
    for caps, rule, ports in (
            (TO_LOCAL, "", {1001}),
            (TO_REMOTE, "", {1002}),
            (TO_REMOTE | BY_GATEWAY, "", {1002, 1003}),
            (TO_LOCAL | TO_REMOTE | BY_GATEWAY, "", {1001, 1002, 1003}),
            (BY_GATEWAY, "", set()),
            (TO_REMOTE, "use dummy tcp_client *:*", {1002, 1003}),
            (SELF_ROUTING, "", {1001, 1002, 1003, 1004}),
            (SELF_ROUTING, "use os tcp_client 10.2.0.0/16:*",
             {1001, 1002, 1004})):
        lines, _ = with_module(run, folder, connections_to_everywhere,
                               DUMMY_CAPS=hex(caps), OSF_RULES=rule)
        got = {int(line[2]) for line in lines if line[1] == "connect"}
        run.need(got == ports, "caps %x, rule %r: asked for %s, not %s" %
                 (caps, rule, got, ports))


def modules_are_told(run, folder):
    """Of the kind, the device and the family: include/osf/proto.h."""
    lines, (one, two) = with_module(run, folder, told_of)
    heard = {tuple(line[2:]) for line in lines if line[1] == "notify"}
    for event in (("1", two, "2"), ("4", two, "2"), ("5", "0", "2"),
                  ("4", two, "10"), ("3", one, "0")):
        run.need(event in heard, "%s is not in %s" % (event, heard))


def modules_are_told_at_once(run, folder):
    """Also in a process that only waits."""
    for wait in WAITS:
        fifo = run.path("fifo." + wait.__name__)
        os.mkfifo(fifo)
        keep = os.open(fifo, os.O_RDWR)  # so that nobody waits for a reader
        run.python(__file__, "program", wait.__name__, eager=True,
                   extra={"DUMMY_LOG": fifo, "OSF_MODULES":
                          os.path.join(folder, "module_dummy.so"),
                          "DUMMY_REFUSE": "dummy"})
        os.close(keep)


def main():
    run = harness.Run(__file__)
    if run.is_kernel:
        harness.skip("routes are asked of osf")
    if os.geteuid():
        harness.skip("network namespaces need root")
    if not harness.find("ip"):
        harness.skip("no ip (Debian package iproute2)")
    for scenario in SCENARIOS:
        run.python(__file__, "program", scenario.__name__, eager=True)
    folder = os.path.abspath(sys.argv[1])
    modules_are_asked_by_route(run, folder)
    modules_are_told(run, folder)
    modules_are_told_at_once(run, folder)
    run.done()


if len(sys.argv) > 1 and sys.argv[1] == "program":
    if sys.argv[2] in [wait.__name__ for wait in WAITS]:
        told_while_asleep(globals()[sys.argv[2]])
    else:
        globals()[sys.argv[2]](*sys.argv[3:])
else:
    main()
