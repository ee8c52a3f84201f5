#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/vma/test_dropin.py - libosf.so in the place of libvma.so

    test_dropin.py BUILD
    test_dropin.py load LIBRARY        a program that loads it, see "inside a program"

By LD_PRELOAD under libvma's names, and by dlopen() with dlsym() of each function, as
sockperf's --load-vma does.  Connections must move to shared memory either way.
"""
import ctypes
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
import harness  # noqa: E402

# What libvma has under these names.
NAMES = """socket close __res_iclose shutdown listen accept accept4 bind connect setsockopt
    getsockopt fcntl fcntl64 ioctl getsockname getpeername read __read_chk readv recv
    __recv_chk recvmsg recvmmsg recvfrom __recvfrom_chk write writev send sendmsg sendmmsg
    sendto sendfile sendfile64 select pselect poll __poll_chk ppoll __ppoll_chk epoll_create
    epoll_create1 epoll_ctl epoll_wait epoll_pwait socketpair pipe open creat dup dup2 fork
    vfork daemon sigaction signal clone""".split()
TURNS = 2000


# --- inside a program ---

def address(port):
    return struct.pack("<HH4s8x", socket.AF_INET, socket.htons(port),
                       socket.inet_aton("127.0.0.1"))


def pair(lib, accept):
    lst = lib.socket(socket.AF_INET, socket.SOCK_STREAM, 0)
    at, size = ctypes.create_string_buffer(16), ctypes.c_int(16)
    assert lib.bind(lst, address(0), 16) == 0 and lib.listen(lst, 5) == 0
    assert lib.getsockname(lst, at, ctypes.byref(size)) == 0
    a = lib.socket(socket.AF_INET, socket.SOCK_STREAM, 0)
    assert lib.connect(a, at, 16) == 0
    return a, accept(lst)


def talk(lib, a, b):
    """Each call that receives and sends, in turns."""
    buf = ctypes.create_string_buffer(100)
    iov = (ctypes.c_void_p * 2)(ctypes.addressof(buf), 100)
    ten = (ctypes.c_void_p * 2)(ctypes.addressof(buf), 10)
    send = [lambda s: lib.send(s, buf, 10, 0), lambda s: lib.write(s, buf, 10),
            lambda s: lib.sendto(s, buf, 10, 0, None, 0), lambda s: lib.writev(s, ten, 1)]
    recv = [lambda s: lib.recv(s, buf, 100, 0), lambda s: lib.read(s, buf, 100),
            lambda s: lib.recvfrom(s, buf, 100, 0, None, None),
            lambda s: lib.readv(s, iov, 1)]
    for i in range(TURNS):
        assert send[i % 4](a) == 10 and recv[i // 4 % 4](b) == 10
        assert send[i // 4 % 4](b) == 10 and recv[i % 4](a) == 10


def load(path):
    lib = ctypes.CDLL(path, mode=os.RTLD_LAZY)
    missing = [name for name in NAMES if not hasattr(lib, name)]
    if missing:
        sys.exit("not there: %s" % missing)
    at, size = ctypes.c_void_p(), ctypes.c_uint32(8)
    assert lib.getsockopt(-1, socket.SOL_SOCKET, 2800, ctypes.byref(at), ctypes.byref(size)) == 0
    assert at.value
    talk(lib, *pair(lib, lambda lst: lib.accept(lst, None, None)))
    talk(lib, *pair(lib, lambda lst: lib.accept4(lst, None, None, 0)))


# --- outside ---

class DropIn:
    def __init__(self, run):
        self.run = run
        self.folder = os.path.join(run.build, "src", "vma")

    def env(self, **extra):
        env = self.run.env(osf=False, extra=dict(extra, OSF_STATS_DIR=self.run.stats))
        return {k: v for k, v in env.items() if v}

    def moved(self, n, what):
        """At least @n ends of connections have moved; then begins anew."""
        total = harness.sum_stats(harness.read_stats(self.run.stats))
        self.run.need(total["n_upgraded"] >= n and total["rx_bytes_shm"] > 1000,
                      "%s: %d moved, %d bytes" % (what, total["n_upgraded"],
                                                  total["rx_bytes_shm"]))
        for name in os.listdir(self.run.stats):
            os.unlink(os.path.join(self.run.stats, name))

    def test_dlopen(self):
        for name in ("libvma.so", "libvma.so.9"):
            self.run.check([sys.executable, os.path.abspath(__file__), "load",
                            os.path.join(self.folder, name)], osf=False, extra=self.env())
            self.moved(4, name)

    def test_preload(self):
        for name in ("libvma.so", "libvma.so.9"):
            env = self.env(LD_LIBRARY_PATH=self.folder, OSF_UPGRADE_TURNS="2",
                           LD_PRELOAD=self.run.sanitizer.preload(name))
            self.run.check([sys.executable, "-c", """
import os, socket
l = socket.create_server(("127.0.0.1", 0))
c = socket.create_connection(l.getsockname()); s = l.accept()[0]
for i in range(500):
    c.send(b"x" * 10); s.recv(10); s.send(b"y" * 10); c.recv(10)
assert any("libosf" in line for line in open("/proc/self/maps"))
"""], osf=False, extra=env)
            self.moved(2, name)

    def test_dummy(self):
        """Under libvma's name, VMA_SND_FLAGS_DUMMY needs no table."""
        env = self.env(LD_LIBRARY_PATH=self.folder, OSF_UPGRADE_TURNS="2",
                       LD_PRELOAD=self.run.sanitizer.preload("libvma.so"))
        self.run.check([sys.executable, "-c", """
import socket
l = socket.create_server(("127.0.0.1", 0))
c = socket.create_connection(l.getsockname()); s = l.accept()[0]
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("127.0.0.1", 0))
for i in range(100):
    assert c.send(b"dummy" * 9, 0x400) == 45
    c.send(b"x" * 10); assert s.recv(99) == b"x" * 10
    s.send(b"y" * 10); c.recv(99)
assert u.sendto(b"dummy", 0x400, u.getsockname()) == 5
u.sendto(b"true", u.getsockname())
assert u.recv(99) == b"true"
"""], osf=False, extra=env)
        self.moved(2, "dummies")

    def test_sockperf(self):
        """Loads the library itself."""
        if not shutil.which("sockperf"):
            print("no sockperf")
            return
        path = "--load-vma=" + os.path.join(self.folder, "libvma.so")
        for tcp in (["--tcp"], []):
            at = ["-i", "127.0.0.1", "-p", str(harness.free_port())] + tcp
            server = self.run.start(["sockperf", "server", path] + at, osf=False,
                                    extra=self.env())
            if tcp:
                self.run.wait_port(int(at[3]))
            for what in (["ping-pong", "--mps", "1000"], ["throughput", "-m", "1400"],
                         ["ping-pong", "--mps", "1000", "--dummy-send", "20000"]):
                text = self.run.check(["sockperf"] + what + ["-t", "1", path] + at,
                                      osf=False, extra=self.env())
                self.run.need("dropped messages = 0" in text or what[0] == "throughput", text)
            self.run.stop(server, harness.signal.SIGINT, 5)
            if tcp:
                self.moved(4, "sockperf --load-vma")


def main():
    if sys.argv[1] == "load":
        load(sys.argv[2])
        return
    os.environ["OSF_BUILD"] = sys.argv[1]
    run = harness.Run(__file__, not_with={"address": "it must come first",
                                          "thread": "it must come first"})
    test = DropIn(run)
    for name in [n for n in dir(test) if n.startswith("test_")]:
        print(name, flush=True)
        getattr(test, name)()
    run.done()


main()
