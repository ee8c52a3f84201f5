# SPDX-License-Identifier: MIT
"""
tests/trust/attacker.py - speaks the rendezvous by hand, as somebody who means harm would

    peer = attacker.Opener(port); peer.meet()     has the client's end of a connection
    attacker.number_of(client, server)            what a TCP socket shows to everybody
    attacker.reach(number)                        a unix connection to whoever offers
    attacker.as_user(uid, work)                   runs work() in a child, as that user

See src/proto/shm/rendezvous.h and notice.h for the protocol.  The numbers of the segment
come from src/proto/shm/segment.h.
"""
import array
import ctypes
import fcntl
import mmap
import os
import re
import secrets
import select
import signal
import socket
import struct
import sys
import threading
import time

import harness

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
NOBODY = 65534
PR_SET_PDEATHSIG = 1
NUMBER_MASK = (1 << 60) - 1
SHOWN = 1 << 62
SO_MAX_PACING_RATE = 47
HELLO_MAGIC = 0x316f736f
READY, TX_RING, TX_FIN, TX_BACK, FALLBACK = 1, 2, 4, 8, 128
PATIENCE_S = 60  # what each event may take on a busy machine
DATA, WRAP, FIN, BACK, SKIP = 1, 2, 3, 4, 5  # enum ring_mark
PAGE, SIDE_AT, SIDE_BYTES, READ_AT = 4096, 64, 256, 192


def run_with_device(path, programs):
    """The harness of the test at @path, which needs @programs and our RDMA device."""
    run = harness.Run(path, needs=programs)
    if run.is_kernel:
        harness.skip("the device is osf's")
    if not os.path.exists(os.path.join(run.build, "libosf-verbs.so")):
        harness.skip("built without verbs")
    return run


def seg_version():
    with open(os.path.join(ROOT, "src/proto/shm/segment.h")) as f:
        return int(re.search(r"#define SEG_VERSION (\d+)", f.read())[1])


def number_of(local_port, peer_port):
    """The number that the socket 127.0.0.1:@local_port shows, or 0."""
    ask = struct.pack("=BBBBI", socket.AF_INET, 6, 2, 0, 0xffffffff)
    ask += struct.pack(">HH", local_port, peer_port)
    ask += socket.inet_aton("127.0.0.1") + bytes(12)
    ask += socket.inet_aton("127.0.0.1") + bytes(12)
    ask += struct.pack("=III", 0, 0xffffffff, 0xffffffff)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 4) as nl:
        nl.send(struct.pack("=IHHII", 16 + len(ask), 20, 1, 1, 0) + ask)
        got = nl.recv(8192)
    if struct.unpack_from("=H", got, 4)[0] != 20:
        return 0
    at = 16 + 72
    while at + 4 <= len(got):
        size, kind = struct.unpack_from("=HH", got, at)
        if kind == 2:
            rate = struct.unpack_from("=Q", got, at + 4 + 112)[0]
            return rate & NUMBER_MASK if rate & ~NUMBER_MASK == SHOWN else 0
        at += max(4, (size + 3) & ~3)
    return 0


def name_of(number):
    return "\0osf8/%015x" % number


def show(tcp, number):
    tcp.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("=Q", SHOWN | number))


def reach(number, name=None):
    """Connects to the offer; a connection that nobody has asked for."""
    unix = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if name:
        unix.bind(name)
    unix.connect(name_of(number))
    unix.settimeout(PATIENCE_S)
    return unix


def hello(channel, fds):
    data = struct.pack("=IHHIHH16s", HELLO_MAGIC, seg_version(), 32, os.getpid(),
                       len(fds), 0, b"A" * 16)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    channel.sendmsg([data], rights)


def sealed_memory(size):
    fd = os.memfd_create("attacker", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK |
                fcntl.F_SEAL_GROW)
    return fd


def lingering(seconds):
    """A socket whose last close() sleeps, and its far end, which never reads."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        out = socket.create_connection(listener.getsockname())
        far_end = listener.accept()[0]
    out.setblocking(False)
    try:
        while True:
            out.send(bytes(65536))
    except BlockingIOError:
        pass
    out.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, seconds))
    return out, far_end


def close_aside(fd):
    """Closes what the victim was sent.  The victim may have closed its copy before us; then it
    is our close() that sleeps, in a thread that nobody waits for."""
    threading.Thread(target=os.close, args=(fd,), daemon=True).start()


class Opener:
    """Has one end of a connection to 127.0.0.1:@port, and offers."""

    def __init__(self, port):
        number = secrets.randbits(60)
        self.offer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.offer.bind(name_of(number))
        self.offer.listen(8)
        self.offer.setblocking(False)
        self.tcp = socket.socket()
        show(self.tcp, number)
        self.tcp.settimeout(PATIENCE_S)
        self.tcp.connect(("127.0.0.1", port))
        self.n = 0

    def meet(self, pace_s=None):
        """The victim looks for an offer when bytes come, and not each time, so bytes come
        until it has found ours: the next one when it has answered.  For a victim that does
        not answer each, the next one after @pace_s.  Return: the channel to the victim, with
        all bytes answered unless there is a @pace_s; or None."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            self.tcp.sendall(b"x")
            self.n += 1
            is_there = pace_s is None or \
                self.tcp in select.select([self.tcp, self.offer], [], [], pace_s)[0]
            if is_there and not self.tcp.recv(100):
                raise ConnectionError("the victim has closed the connection")
            try:
                channel = self.offer.accept()[0]
                channel.settimeout(PATIENCE_S)
                return channel
            except BlockingIOError:
                pass
        return None

    def take(self, channel):
        """Maps what the victim has sent."""
        self.fds = array.array("i")
        for _, kind, data in channel.recvmsg(200, socket.CMSG_SPACE(64))[1]:
            if kind == socket.SCM_RIGHTS:
                self.fds.frombytes(data)
        self.seg = mmap.mmap(self.fds[0], 0)
        self.ring = struct.unpack_from("=I", self.seg, 12)[0]

    def u32(self, at, value):
        struct.pack_into("=I", self.seg, at, value)

    def ready(self, pid, fd):
        """Says which process and descriptor the recall is to use."""
        side = SIDE_AT + SIDE_BYTES
        struct.pack_into("=Q", self.seg, side + 8, self.n)
        self.u32(side + 24, pid)
        self.u32(side + 28, fd)
        self.u32(side, READY | TX_RING)

    def side(self, word, value, size="I", side=1):
        """A word of a side, by its place in struct seg_side; 1 is the opener's."""
        struct.pack_into("=" + size, self.seg, SIDE_AT + side * SIDE_BYTES + word, value)

    def say(self, flags, tcp_bytes=None):
        """From now on we send by ring, behind @tcp_bytes of TCP."""
        self.side(8, self.n if tcp_bytes is None else tcp_bytes, "Q")
        self.side(24, os.getpid())
        self.side(0, flags)

    def header(self, at, mark, length=0):
        struct.pack_into("=Q", self.seg, PAGE + self.ring + at, mark << 32 | length)

    def has_read(self):
        """Has the other side read a record of our ring?"""
        return struct.unpack_from("=I", self.seg, SIDE_AT + READ_AT)[0]

    def record(self, at, data):
        """A record of @data at the offset @at of our ring."""
        base = PAGE + self.ring + at
        self.seg[base + 8:base + 8 + len(data)] = data
        struct.pack_into("=Q", self.seg, base, 1 << 32 | len(data))


def ends_with_parent():
    """This process, which may have become another user, does not outlive a test that is killed."""
    assert not ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def as_user(uid, work):
    """A child in which work() runs.  Return: its pid; see ended()."""
    pid = os.fork()
    if pid:
        return pid
    try:
        if uid:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
        ends_with_parent()
        work()
        sys.stdout.flush()
        os._exit(0)
    except BaseException as why:  # whatever it is, the test must see it
        print("attacker: %r" % why, flush=True)
        os._exit(1)


def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def listens(port):
    """Is there a listener?  Asked without a connection to it."""
    with open("/proc/net/tcp") as f:
        return " 0100007F:%04X 00000000:0000 0A" % port in f.read()


def until(what, seconds=PATIENCE_S):
    """Polls what() until it is true.  Return: what it is in the end."""
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.001)
    return what()
