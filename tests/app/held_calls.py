# SPDX-License-Identifier: MIT
"""
tests/app/held_calls.py - processes whose system calls wait until a test lets them go on

    end = held_calls.End(run, script, role, number, args)
    end.is_armed = True     from now on its calls of @number with @args wait
    end.is_held()           one does
    end.release()           they go on, and later ones do not wait

    end = held_calls.End(run, script, role, number, args, (another, its_args), ...)
    end.waits[number] = tid only those wait, and only of that thread; ANY: of any
    end.release(number)     those go on

seccomp reports the calls.  @role and the number of a channel's descriptor are what the script is
started with; tell() and answer() are words in that channel.
"""
import array
import contextlib
import ctypes
import fcntl
import os
import platform
import queue
import select
import socket
import struct
import subprocess
import sys
import threading

PATIENCE_S = 60
TURNS = 40

# x86-64
SYS_CLOSE, SYS_POLL, SYS_SENDTO, SYS_DUP3, SYS_SECCOMP, SYS_PIDFD_GETFD = 3, 7, 44, 292, 317, 438
# In which a call waits: ppoll(), select(), recvfrom() and their kin.  No poll(), which may be one
# that the supervisor looks at.
SLEEPS = {"0", "23", "45", "47", "232", "270", "271", "281", "441"}
SPIN_TICKS = 2
ANY = 0  # thread
PR_SET_NO_NEW_PRIVS, SECCOMP_SET_MODE_FILTER, NEW_LISTENER = 38, 1, 8
ALLOW, REPORT = 0x7fff0000, 0x7fc00000
NOTIF_RECV, NOTIF_SEND, NOTIF_BYTES, CONTINUE = 0xc0502100, 0xc0182101, 80, 1
ARG = 16  # in struct seccomp_data: the low words of the arguments


class Insn(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8),
                ("k", ctypes.c_uint32)]


class Program(ctypes.Structure):
    _fields_ = [("n", ctypes.c_uint16), ("insns", ctypes.POINTER(Insn))]


def can_report():
    with contextlib.suppress(OSError), open("/proc/sys/kernel/seccomp/actions_avail") as f:
        return platform.machine() == "x86_64" and "user_notif" in f.read()
    return False


def report_calls(to, calls):
    """Before exec(): @calls, each a number and its arguments {index: value}, go to a listener,
    which is passed to @to."""
    insns = []
    for number, args in calls:
        words = [(0, number)] + [(ARG + 8 * i, value) for i, value in args.items()]
        for i, (at, value) in enumerate(words):
            insns += [Insn(0x20, 0, 0, at), Insn(0x15, 0, 2 * (len(words) - i) - 1, value)]
        insns += [Insn(0x06, 0, 0, REPORT)]
    insns += [Insn(0x06, 0, 0, ALLOW)]
    program = Program(len(insns), (Insn * len(insns))(*insns))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    fd = libc.syscall(SYS_SECCOMP, SECCOMP_SET_MODE_FILTER, NEW_LISTENER,
                      ctypes.byref(program))
    socket.send_fds(to, [b"fd"], [fd])
    os.close(fd)


class End:
    """A process with one end, whose reported calls wait while is_armed, or as waits says."""

    def __init__(self, run, script, role, number, args, *more):
        self.ctl, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ctl.settimeout(PATIENCE_S)
        words = [sys.executable, os.path.abspath(script), role, theirs.fileno()]
        self.popen = subprocess.Popen(
            run.command(words, True), env=run.env(eager=True), pass_fds=[theirs.fileno()],
            preexec_fn=lambda: report_calls(theirs, [(number, args), *more]))
        theirs.close()
        self.listener = socket.recv_fds(self.ctl, 10, 1)[1][0]
        self.is_armed = False
        self.waits = {}
        self.held = queue.Queue()
        self.seen, self.see = os.pipe()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        try:
            while True:
                notif = array.array("B", bytes(NOTIF_BYTES))
                fcntl.ioctl(self.listener, NOTIF_RECV, notif)
                ident, tid, _, number = struct.unpack_from("QIIi", notif)
                if not self.is_armed and self.waits.get(number) not in (ANY, tid):
                    self.go_on(ident)
                    continue
                self.held.put((number, ident))
                os.write(self.see, b"x")
        except OSError:
            pass  # it has ended

    def go_on(self, ident):
        fcntl.ioctl(self.listener, NOTIF_SEND, struct.pack("QqiI", ident, 0, 0, CONTINUE))

    def release(self, number=None):
        """All calls that wait, or those of @number, and those to come."""
        self.is_armed = False
        for one in list(self.waits) if number is None else [number]:
            self.waits.pop(one, None)
        for _ in range(self.held.qsize()):
            held = self.held.get()
            if number in (None, held[0]):
                self.go_on(held[1])
            else:
                self.held.put(held)

    def is_held(self):
        """Waits until one more call waits, or the process has answered."""
        ready = select.select([self.seen, self.ctl], [], [], PATIENCE_S)[0]
        assert ready, "neither a call nor an answer"
        return self.seen in ready and os.read(self.seen, 1) == b"x"

    def n_sleeps(self, tid):
        with open("/proc/%d/task/%d/status" % (self.popen.pid, tid)) as f:
            return int(f.read().split("\nvoluntary_ctxt_switches:")[1].split()[0])

    def await_sleep(self, tid, or_spins=False, after=-1):
        """Waits until thread @tid sleeps in a call that waits, or has ended.  @after: not before
        it has slept more than so many times, see n_sleeps()."""
        path = "/proc/%d/task/%d/" % (self.popen.pid, tid)
        ticks = None
        while True:
            try:
                with open(path + "syscall") as f:
                    call = f.read().split()[0]
                with open(path + "stat") as f:
                    used = int(f.read().rsplit(")")[1].split()[11])
            except OSError:
                return
            ticks = used if ticks is None else ticks
            if (call in SLEEPS and self.n_sleeps(tid) > after) or (or_spins and used - ticks >= SPIN_TICKS):
                return

    def tell(self, word):
        self.ctl.send(word.encode())

    def answer(self):
        return self.ctl.recv(1000).decode()

    def do(self, word):
        self.tell(word)
        return self.answer()

    def end(self):
        self.release()
        self.ctl.close()
        self.popen.wait(PATIENCE_S)
        for fd in self.listener, self.seen, self.see:
            os.close(fd)


# --- what a connection begins with ---

def moved(conn, fd):
    """@conn as @fd, which survives exec()."""
    os.dup2(conn.fileno(), fd)
    conn.close()
    return socket.socket(fileno=fd)


def turns(conn, mine):
    """By then it has moved to shared memory."""
    for _ in range(TURNS):
        if mine:
            conn.send(b"x")
        conn.recv(1)
        if not mine:
            conn.send(b"x")
