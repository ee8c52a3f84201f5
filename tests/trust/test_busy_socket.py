#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_busy_socket.py - a peer keeps its own end of the connection busy

To give unread bytes back, the victim has them written into the peer's socket.  A thread of
the peer is inside a send() on that socket, and waits there for a page of its buffer that
never comes (userfaultfd; a file of FUSE does the same without privileges).  All calls on the
socket wait for that thread, and no signal ends them.  The victim passes the connection on,
while the peer keeps its socket busy.
"""
import ctypes
import fcntl
import os
import struct
import sys
import threading

import attacker
import harness

HERE = os.path.dirname(os.path.abspath(__file__))
VICTIM = os.path.join(HERE, "victim.py")
SYS_USERFAULTFD = {"x86_64": 323, "aarch64": 282}.get(os.uname().machine)
UFFDIO_API, UFFDIO_REGISTER = 0xc018aa3f, 0xc020aa00
MISSING = 1
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p


def userfaultfd():
    return libc.syscall(SYS_USERFAULTFD, os.O_CLOEXEC) if SYS_USERFAULTFD else -1


def keep_busy(fd):
    """On return a thread is inside a send() on @fd, for good."""
    fault_fd = userfaultfd()
    fcntl.ioctl(fault_fd, UFFDIO_API, struct.pack("=QQQ", 0xaa, 0, 0))
    at = libc.mmap(None, ctypes.c_size_t(attacker.PAGE), 3, 0x22, -1, ctypes.c_long(0))
    fcntl.ioctl(fault_fd, UFFDIO_REGISTER,
                struct.pack("=QQQQ", at, attacker.PAGE, MISSING, 0))
    threading.Thread(target=libc.send, daemon=True,
                     args=(fd, ctypes.c_void_p(at), ctypes.c_size_t(64), 0)).start()
    os.read(fault_fd, 32)


def attack(port, fifo):
    peer = attacker.Opener(port)
    channel = peer.meet()
    if not channel:
        raise RuntimeError("the victim never came")
    peer.take(channel)
    attacker.hello(channel, [peer.fds[1]])
    peer.ready(os.getpid(), peer.tcp.fileno())
    peer.record(0, b"END__")
    peer.record(64, b"unread bytes")
    peer.tcp.send(b"B")  # a doorbell
    peer.u32(attacker.SIDE_AT + attacker.SIDE_BYTES + 16, 1)
    if not attacker.until(lambda: peer.has_read() >= 64):
        raise RuntimeError("the connection did not move")
    keep_busy(peer.tcp.fileno())
    os.close(os.open(fifo, os.O_WRONLY))
    threading.Event().wait()


def main():
    run = harness.Run(__file__)
    fault_fd = userfaultfd()
    if fault_fd < 0:
        harness.skip("no userfaultfd")
    os.close(fault_fd)
    port, fifo = harness.free_port(), run.path("fifo")
    os.mkfifo(fifo)
    victim = run.start([sys.executable, VICTIM, "pass", port, run.path("file"), fifo],
                       eager=True)
    run.need(attacker.until(lambda: attacker.listens(port)), "nobody listens")
    pid = attacker.as_user(0, lambda: attack(port, fifo))
    is_done = attacker.until(lambda: "locked" in victim.text())
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    run.need(is_done, "the victim hangs: " + victim.text())
    run.wait(victim)
    print(victim.text())
    run.done()


main()
