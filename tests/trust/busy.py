# SPDX-License-Identifier: MIT
"""
tests/trust/busy.py - a thread that keeps a socket busy

    peer = unread(port)   a connection that has moved; the victim has not read all of the ring
    busy = Busy(fd)       on return a thread is inside a send() on fd, for good; a process that is
                          not root has made its userfaultfd() while it was
    busy.end()            that send() fails, and has sent nothing

The send() waits for a page of its buffer that never comes: userfaultfd(2), and a file of FUSE
does the same without privileges.  All calls on the socket wait for that thread, and no signal
ends them.
"""
import ctypes
import fcntl
import os
import struct
import threading

import attacker
import harness

SYS_USERFAULTFD = {"x86_64": 323, "aarch64": 282}.get(os.uname().machine)
UFFDIO_API, UFFDIO_REGISTER = 0xc018aa3f, 0xc020aa00
MISSING = 1
UNREAD = b"unread bytes"
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p


def userfaultfd():
    return libc.syscall(SYS_USERFAULTFD, os.O_CLOEXEC) if SYS_USERFAULTFD else -1


def skip_without():
    fd = userfaultfd()
    if fd < 0:
        harness.skip("no userfaultfd")
    os.close(fd)


class Busy:
    def __init__(self, fd, fault_fd=None):
        self.fault_fd = userfaultfd() if fault_fd is None else fault_fd
        fcntl.ioctl(self.fault_fd, UFFDIO_API, struct.pack("=QQQ", 0xaa, 0, 0))
        self.at = libc.mmap(None, ctypes.c_size_t(attacker.PAGE), 3, 0x22, -1, ctypes.c_long(0))
        fcntl.ioctl(self.fault_fd, UFFDIO_REGISTER,
                    struct.pack("=QQQQ", self.at, attacker.PAGE, MISSING, 0))
        self.thread = threading.Thread(target=libc.send, daemon=True, args=(
            fd, ctypes.c_void_p(self.at), ctypes.c_size_t(64), 0))
        self.thread.start()
        os.read(self.fault_fd, 32)

    def end(self):
        libc.munmap(ctypes.c_void_p(self.at), ctypes.c_size_t(attacker.PAGE))
        os.close(self.fault_fd)
        self.thread.join()


def unread(port, what=UNREAD, ends=False):
    """For a victim that reads no further than END__.  @ends: @what is the last of the stream."""
    peer = attacker.Opener(port)
    channel = peer.meet()
    if not channel:
        raise RuntimeError("the victim never came")
    peer.take(channel)
    attacker.hello(channel, [peer.fds[1]])
    peer.ready(os.getpid(), peer.tcp.fileno())
    peer.record(0, b"END__")
    if what:
        peer.record(64, what)
    if ends:
        peer.header(128 if what else 64, attacker.FIN)
        peer.u32(attacker.SIDE_AT + attacker.SIDE_BYTES,
                 attacker.READY | attacker.TX_RING | attacker.TX_FIN)
    peer.tcp.send(b"B")  # a doorbell
    peer.u32(attacker.SIDE_AT + attacker.SIDE_BYTES + 16, 1)
    if not attacker.until(lambda: peer.has_read() >= 64):
        raise RuntimeError("the connection did not move")
    return peer
