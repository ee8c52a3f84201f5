#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_vma_stats.py - vma_stats(8): its views say what programs have done

    test_vma_stats.py               the test
    test_vma_stats.py inside        a program that does what its input says
    test_vma_stats.py without_copies COMMAND    on a kernel without pidfd_getfd()
    test_vma_stats.py zombie PID    a zombie in the pid namespace of PID

The program under test holds its sockets and runs one line of Python for each line of
its input, so that what it has sent, received and been refused is known.
"""
import ctypes
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading

import harness

COUNTS = ["pkt", "kbyte", "eagain", "error"]


# --- inside a program ---

API = ctypes.c_void_p  # each member of the table
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_size_t, API, API, API)
DUMMY = 0x400
FATE = [1]  # what the callback returns: 0 drop, 1 receive, 2 hold


def vma_table():
    libc = ctypes.CDLL(None, use_errno=True)
    at, size = API(), ctypes.c_uint32(ctypes.sizeof(API))
    if libc.getsockopt(-1, socket.SOL_SOCKET, 2800, ctypes.byref(at),
                       ctypes.byref(size)):
        return None
    return ctypes.cast(at, ctypes.POINTER(API * 21)).contents


def register(table, sock, callback):
    call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, CALLBACK, API)(table[0])
    return call(sock.fileno(), callback, None)


@CALLBACK
def callback(*unused):
    return FATE[0]


def pair():
    lst = socket.create_server(("127.0.0.1", 0))
    a = socket.create_connection(lst.getsockname())
    b = lst.accept()[0]
    return lst, a, b


def talk(a, b, turns, there=100, back=200):
    for _ in range(turns):
        a.sendall(b"x" * there)
        receive(b, there)
        b.sendall(b"y" * back)
        receive(a, back)


STOP = threading.Event()


def chat(a, b):
    """A thread: never more than 64 bytes under way, until STOP is set."""
    def run():
        while not STOP.is_set():
            talk(a, b, 1, 64, 64)
    thread = threading.Thread(target=run)
    thread.start()
    return thread


def receive(sock, n):
    while n:
        n -= len(sock.recv(n))


def refused(sock, n):
    sock.setblocking(False)
    for _ in range(n):
        try:
            sock.recv(1)
        except BlockingIOError:
            pass
    sock.setblocking(True)


def errors(sock):
    """Two sends after the peer has gone, besides one that it answers by a reset."""
    for _ in range(3):
        try:
            sock.send(b"x")
        except OSError:
            pass


def udp(host="127.0.0.1"):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((host, 0))
    return sock


def inside():
    names = dict(globals())
    print("ready", flush=True)
    for line in sys.stdin:
        exec(line, names)
        print(names.pop("answer", "did"), flush=True)


# --- outside ---

AS_NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
PIDFD_GETFD, NO_NEW_PRIVS, SECCOMP_MODE, FILTER, ENOSYS = 438, 38, 22, 2, 38


def without_copies(argv):
    """Runs @argv where the kernel does not know pidfd_getfd()."""
    rules = struct.pack("HBBI" * 4, 0x20, 0, 0, 0, 0x15, 0, 1, PIDFD_GETFD,
                        0x06, 0, 0, 0x50000 | ENOSYS, 0x06, 0, 0, 0x7fff0000)
    at = ctypes.create_string_buffer(rules)
    program = struct.pack("HxxxxxxP", 4, ctypes.addressof(at))
    libc = ctypes.CDLL(None)
    assert libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(SECCOMP_MODE, FILTER, ctypes.create_string_buffer(program)) == 0
    os.execvp(argv[0], argv)


def zombie(pid):
    """A process in the pid namespace of @pid, which is not waited for before our input ends."""
    with open("/proc/%d/ns/pid" % pid) as f:
        assert ctypes.CDLL(None).setns(f.fileno(), 0) == 0
    child = os.fork()
    if child == 0:
        while True:
            signal.pause()
    print("lives", flush=True)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    print("dead", flush=True)
    sys.stdin.read()


class Program:
    """One that runs under osf, and does what it is told."""

    def __init__(self, run, python=sys.executable, prefix=(), **extra):
        self.err = run.path("err.%d" % next(run.serial))
        with open(self.err, "ab") as f:
            self.popen = subprocess.Popen(
                run.command([*prefix, python, os.path.abspath(__file__), "inside"], True),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=f, text=True,
                env=run.env(extra={"OSF_STATS_DIR": "", "OSF_UPGRADE_TURNS": "2", **extra}))
        self.proc = harness.Proc(self.popen, self.err, "program")
        run.procs.append(self.proc)
        assert self.popen.stdout.readline() == "ready\n"
        self.pid = self.popen.pid

    def do(self, line):
        self.popen.stdin.write(line + "\n")
        self.popen.stdin.flush()
        return self.popen.stdout.readline().strip()

    def said(self):
        with open(self.err) as f:
            return f.read()

    def end(self):
        self.popen.stdin.close()
        status = self.popen.wait(20)
        self.popen.stdout.close()
        self.proc.is_stopped = True
        return status


class Test:
    def __init__(self, run):
        self.run = run
        self.zero = run.path("zero")
        os.mkdir(self.zero)

    def stats(self, *args, status=0, prefix=(), name="vma_stats"):
        got = subprocess.run([*prefix, os.path.join(self.run.build, name), "-k", self.zero,
                              *map(str, args)], text=True, timeout=60,
                             env=self.run.env(osf=False), capture_output=True)
        self.run.need(got.returncode == status, "vma_stats %s: %d\n%s%s" %
                      (args, got.returncode, got.stdout, got.stderr))
        return got.stdout + got.stderr

    def short(self, pid, *args):
        """Return: {fd: {"Rx": {...}, "Tx": {...}}} of view 1."""
        rows, fd = {}, None
        for line in self.stats("-p", pid, "-c", 1, *args).split("\n"):
            got = re.match(r" (\d*) +([RT]x): (.*)$", line)
            if not got:
                continue
            fd = int(got[1]) if got[1] else fd
            words = got[3].split()
            if got[2] == "Rx":
                words.pop(4)  # poll%
            rows.setdefault(fd, {})[got[2]] = dict(
                zip(COUNTS + ["os_" + name for name in COUNTS], map(int, words)))
        return rows

    def block(self, pid, fd, *args):
        """Return: the lines of view 3 about @fd."""
        text = self.stats("-p", pid, "-v", 3, "-c", 1, "-s", fd, *args)
        self.run.need(text.count("Fd=[") == 1 and "\tFd=[%d]\n" % fd in text, text)
        return text

    # --- views ---

    def test_counts(self):
        p = Program(self.run)
        p.do("l, a, b = pair(); talk(a, b, 3000); refused(a, 5)")
        a, b = (int(p.do("answer = %s.fileno()" % s)) for s in "ab")
        rows = self.short(p.pid)
        rx, tx = rows[a]["Rx"], rows[a]["Tx"]
        need = self.run.need
        need(rx["pkt"] + rx["os_pkt"] == 3000 and rx["os_pkt"] < 10, rows)
        need(tx["pkt"] + tx["os_pkt"] == 3000, rows)
        need(rx["kbyte"] in (584, 585) and tx["kbyte"] in (291, 292, 293), rows)
        need(rx["eagain"] == 5 and rx["error"] == tx["error"] == 0, rows)
        need(rows[b]["Tx"]["pkt"] + rows[b]["Tx"]["os_pkt"] == 3000, rows)
        p.do("b.sendall(b'z' * 5000)")
        text = self.block(p.pid, a)
        for line in ("- TCP, Blocked\n", "- Foreign Address = [127.0.0.1:",
                     "Rx byte: cur 5000 / max 5000 / dropped 0",
                     " / 5 / 0 [kilobytes/packets/eagains/errors]\n"):
            need(line in text, "%r in\n%s" % (line, text))
        table = self.stats("-p", p.pid, "-v", 5)
        need(re.search(r"^tcp   Yes       5000   0      127\.0\.0\.1:\d+ +127\.0\.0\.1:\d+ +"
                       r"ESTABLISHED \d+ +%d/python" % p.pid, table, re.M), table)
        need(re.search(r"^tcp   No        0      0 .* LISTEN ", table, re.M), table)
        p.do("b.close(); refused(a, 1); errors(a)")
        rows = self.short(p.pid)
        need(rows[a]["Rx"]["error"] == 0 and rows[a]["Tx"]["error"] == 2, rows)
        need(p.end() == 0, "the end")

    def test_kernel(self):
        """A connection that stays with the kernel counts on the other side."""
        p = Program(self.run, OSF_SHM="0", OSF_UPGRADE_TURNS="1000000")
        p.do("l, a, b = pair(); talk(a, b, 50); refused(a, 3)")
        a = int(p.do("answer = a.fileno()"))
        rows = self.short(p.pid)
        self.run.need(rows[a]["Rx"]["pkt"] == 0 and rows[a]["Rx"]["os_kbyte"] == 9, rows)
        p.end()

    def test_views(self):
        python = self.run.path("named%d" % os.getpid())
        os.symlink(os.path.realpath(sys.executable), python)
        p = Program(self.run, python)
        p.do("l, a, b = pair(); u = udp(); m = udp('0.0.0.0'); u.sendto(b'abc', u.getsockname());"
             "m.setsockopt(0, socket.IP_ADD_MEMBERSHIP, socket.inet_aton('239.1.2.3') + "
             "socket.inet_aton('127.0.0.1'))")
        m, u, a = (int(p.do("answer = %s.fileno()" % s)) for s in "mua")
        need = self.run.need
        text = self.stats("-p", p.pid, "-v", 2, "-c", 1)
        need("---- queue pkt -----" in text and " drop \n" in text, text)
        need("- UDP, Blocked, MC Loop Enabled" in self.block(p.pid, u), "UDP")
        text = self.stats("-p", p.pid, "-v", 5)
        need(len(re.findall(r"^udp   No ", text, re.M)) == 2, text)
        wide = self.stats("-p", p.pid, "-c", 1, name="xlio_stats")
        need(re.search(r"^ %-3d Rx: {10}0 {20}0 {8}0 {7}0    0.0 {7}0 {20}0 {7}0 {7}0$" % a,
                       wide, re.M), wide)
        text = self.stats("-p", p.pid, "-v", 4)
        if os.geteuid() == 0:
            need(re.search(r"^\[239\.1\.2\.3\] +%d $" % m, text, re.M), text)
            need("- Member of = [239.1.2.3]\n" in self.block(p.pid, m), "member")
        need(set(self.short(p.pid, "-s", "%d,%d-%d" % (a, m, m))) == {a, m}, "-s")
        p.do("talk(a, b, 100)")
        text = self.stats("-p", p.pid, "-d", 2, "-i", 0, "-c", 2)
        need("pkt/s" in text and text.count(" %d " % a) == 2, text)
        name = os.path.basename(python)
        need(" %-3d Rx: " % a in self.stats("-n", name, "-c", 1), "-n")
        need("xliostat: " in self.stats("-n", "no-such", status=1, name="xlio_stats"), "-n")
        p.end()

    def test_queue_of_a_busy_stream(self):
        """What moves while the counters are read was never in the queue."""
        p = Program(self.run)
        p.do("l, a, b = pair(); talk(a, b, 100, 64, 64); t = chat(a, b)")
        for name in "ab":
            block = self.block(p.pid, int(p.do("answer = %s.fileno()" % name)))
            got = re.search(r"Rx byte: cur (\d+) / max (\d+) ", block)
            self.run.need(got and all(int(n) <= 64 for n in got.groups()), block)
        p.do("STOP.set(); t.join()")
        p.end()

    def test_api(self):
        """Sends, drops, dummies and packets that are held, by VMA's extra API."""
        p = Program(self.run)
        p.do("l, a, b = pair(); u = udp(); t = vma_table()")
        p.do("register(t, u, callback); register(t, b, callback); "
             "[u.sendto(b'x' * 1024, u.getsockname()) for i in range(9)]")
        p.do("[u.recv(2000) for i in range(4)]; FATE[0] = 2; refused(u, 1); FATE[0] = 0")
        p.do("[u.sendto(b'x' * 1024, u.getsockname()) for i in range(3)]; refused(u, 1)")
        p.do("[a.send(b'x' * 10, DUMMY) for i in range(6)]; a.send(b'x' * 7); refused(b, 1)")
        p.do("v = udp(); u.connect(v.getsockname()); u.send(b'x' * 1024); os.write(u.fileno(), b'x'); "
             "u.sendmsg([b'x'])")
        p.do("v.close(); errors(u)")
        u, a, b = (int(p.do("answer = %s.fileno()" % s)) for s in "uab")
        text = self.block(p.pid, u)
        for line in ("Tx OS info: 13 / 17 / 0 / 1 [",
                     "Rx OS info: 7 / 7 / 2 / 0 [", "dropped 3\n",
                     "Rx zero copy buffers: cur 5\n", "/ dropped 3072 /"):
            self.run.need(line in text, "%r in\n%s" % (line, text))
        self.run.need("Tx Dummy messages : 6\n" in self.block(p.pid, a), "dummies")
        # recv(1) makes packets of one byte each.
        self.run.need("dropped 7\n" in self.block(p.pid, b), self.block(p.pid, b))
        p.end()

    # --- what changes something ---

    def test_zero(self):
        p = Program(self.run)
        p.do("l, a, b = pair(); talk(a, b, 500)")
        a = int(p.do("answer = a.fileno()"))
        need = self.run.need
        text = self.stats("-p", p.pid, "-z", "-c", 1)
        need("Zero counters..." in text, text)
        need(not any(self.short(p.pid)[a]["Rx"].values()), self.short(p.pid))
        need(os.stat(os.path.join(self.zero, "vmastat.%d" % p.pid)).st_mode & 0o777 == 0o600,
             "mode")
        p.do("talk(a, b, 7); m = pair(); talk(m[1], m[2], 3)")
        need(self.short(p.pid)[a]["Rx"]["pkt"] == 7, self.short(p.pid))
        m = int(p.do("answer = m[1].fileno()"))
        rx = self.short(p.pid)[m]["Rx"]
        need(rx["pkt"] + rx["os_pkt"] == 3, rx)
        text = subprocess.run([os.path.join(self.run.build, "osf"), "stat", str(p.pid)],
                              text=True, capture_output=True).stdout
        counted = [line.split("\t") for line in text.split("\n")[1:] if line]
        need(any(row[2] == str(a) and row[11] == "507" for row in counted), text)
        p.end()
        self.stats("-F", "-n", "no-such", status=1)
        need(os.listdir(self.zero), "-F removed a file")
        self.stats("-n", "no-such", status=1)
        need(not os.listdir(self.zero), os.listdir(self.zero))

    def test_zero_of_others(self):
        """Files that others may have put there."""
        p = Program(self.run)
        p.do("l, a, b = pair(); talk(a, b, 50)")
        a = int(p.do("answer = a.fileno()"))
        victim = self.run.path("victim")
        at = os.path.join(self.zero, "vmastat.%d" % p.pid)
        for data in (b"", b"x" * 5000, struct.pack("<QQII", 0x31306f72657a736f, 0, 2 ** 32 - 1, 144)):
            with open(victim, "wb") as f:
                f.write(data)
            os.symlink(victim, at)
            rx = self.short(p.pid)[a]["Rx"]
            self.run.need(rx["pkt"] + rx["os_pkt"] == 50, rx)
            os.unlink(at)
            with open(at, "wb") as f:
                f.write(data)
            rx = self.short(p.pid)[a]["Rx"]
            self.run.need(rx["pkt"] + rx["os_pkt"] == 50, rx)
            os.unlink(at)
        os.symlink(victim, at)
        self.stats("-p", p.pid, "-z", "-c", 1)
        self.run.need(not os.path.islink(at), "a link was followed")
        with open(victim, "rb") as f:
            self.run.need(f.read() == data, "a stranger's file was written")
        other = os.path.join(self.zero, "vmastat.2147483000")
        with open(other, "w") as f:
            f.write("not ours")
        self.stats("-p", p.pid, "-c", 1)
        self.run.need(os.path.exists(other), "a stranger's file was removed")
        os.unlink(other)
        p.end()

    def test_log(self):
        p = Program(self.run)
        p.do("l, a, b = pair(); talk(a, b, 50)")
        need = self.run.need
        need(p.said() == "", p.said())
        self.stats("-p", p.pid, "-l", "debug", "-c", 1)
        p.do("m = pair(); talk(m[1], m[2], 50)")
        need(re.search(r"^osf\[\d+\] dbg: fd \d+: peer takes part$", p.said(), re.M), p.said())
        self.stats("-p", p.pid, "-D", "3", "-c", 1)
        p.do("n = pair(); talk(n[1], n[2], 50)")
        need(re.search(r"^osf\[\d+/\d+\] \d+\.\d+ dbg: ", p.said(), re.M), p.said())
        self.stats("-p", p.pid, "-l", "none", "-c", 1)
        was = p.said()
        p.do("o = pair(); talk(o[1], o[2], 50)")
        need(p.said() == was, "after none: " + p.said())
        p.end()

    def test_log_of_a_closed_descriptor(self):
        """Number 2 is the program's own file by now: nothing is written to it."""
        p = Program(self.run)
        mine = self.run.path("mine")
        p.do("os.close(2); assert os.open(%r, os.O_CREAT | os.O_WRONLY) == 2" % mine)
        self.stats("-p", p.pid, "-l", "all", "-c", 1)
        p.do("l, a, b = pair(); talk(a, b, 50)")
        p.do("os.close(2)")
        self.run.need(os.stat(mine).st_size == 0 and p.said() == "", p.said())
        self.run.need(p.end() == 0, "the end")

    def test_dump(self):
        p = Program(self.run)
        p.do("l, a, b = pair(); talk(a, b, 50)")
        a = int(p.do("answer = a.fileno()"))
        need = self.run.need
        self.stats("-p", p.pid, "-S", a)
        need("\tFd=[%d]\n- TCP, Blocked\n" % a in p.said() and p.said().count("Fd=[") == 1,
             p.said())
        self.stats("-p", p.pid, "-S", 0, "info")
        need(p.said().count("Fd=[") == 4, p.said())
        text = self.stats("-p", p.pid, "-S", "%d,fine" % a)
        need(p.said().count("Fd=[") == 4 and "leaves that level out" in text, text)
        self.stats("-p", p.pid, "-S", 999, status=1)
        p.do("u = udp()")
        self.stats("-p", p.pid, "-S", p.do("answer = u.fileno()"))
        if os.geteuid() == 0:
            need("- UDP, Blocked, MC Loop Enabled" in p.said(), p.said())
        p.end()

    def test_dump_that_nobody_reads(self):
        """The program's standard error is a pipe that is full."""
        p = Program(self.run)
        p.do("l, a, b = pair(); r, w = os.pipe(); os.set_blocking(w, False); "
             "exec('try:\\n while os.write(w, b\\'x\\' * 4096): pass\\n"
             "except OSError: pass'); os.set_blocking(w, True); os.dup2(w, 2)")
        text = self.stats("-p", p.pid, "-S", 0)
        self.run.need("cannot be written" in text and text.count("Fd=[") == 3, text)
        p.do("os.close(2)")
        p.end()

    def test_dump_for_who_may_not_write(self):
        """Root writes no file that the program itself could not write."""
        if os.geteuid() != 0 or not harness.find("setpriv"):
            return
        old_kernel = [sys.executable, os.path.abspath(__file__), "without_copies"]
        roots = self.run.path("roots")
        p = Program(self.run, prefix=AS_NOBODY)
        with open(roots, "w"):
            os.chmod(roots, 0o644)
        p.do("l, a, b = pair()")
        for flags in (os.O_RDONLY | os.O_APPEND, os.O_PATH, os.O_PATH | os.O_APPEND):
            p.do("os.close(2); assert os.open(%r, %d) == 2" % (roots, flags))
            for prefix in ((), old_kernel):
                text = self.stats("-p", p.pid, "-S", 0, prefix=prefix)
                self.run.need("cannot be written" in text and os.stat(roots).st_size == 0,
                              "%o: %s" % (flags, text))
        p.end()
        mine = Program(self.run)
        mine.do("l, a, b = pair()")
        self.stats("-p", mine.pid, "-S", 0, prefix=old_kernel)
        self.run.need(mine.said().count("Fd=[") == 3, mine.said())
        mine.end()

    def watch(self, pid):
        """vma_stats that shows @pid until it ends, and has begun to."""
        watching = subprocess.Popen([os.path.join(self.run.build, "vma_stats"), "-k", self.zero,
                                     "-p", str(pid), "-i", "0"], text=True,
                                    env=self.run.env(osf=False), stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT)
        watching.stdout.readline()
        return watching

    def need_end(self, watching):
        text = watching.communicate(timeout=60)[0]
        self.run.need(watching.returncode == 0 and "ended" in text, text[-300:])

    def test_program_that_is_ending(self):
        """It has no files any more, and its number is not free yet: the first process of a
        pid namespace ends when all others there have, and one is a zombie of ours."""
        if os.geteuid() != 0 or not harness.find("unshare"):
            return
        p = Program(self.run, prefix=["unshare", "--pid", "--fork"])
        with open("/proc/%d/task/%d/children" % (p.pid, p.pid)) as f:
            pid = int(f.read())
        zombie = subprocess.Popen([sys.executable, os.path.abspath(__file__), "zombie", str(pid)],
                                  text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.run.need(zombie.stdout.readline() == "lives\n", "no process beside it")
        watching = self.watch(pid)
        p.popen.stdin.close()
        self.run.need(zombie.stdout.readline() == "dead\n", "it did not begin to end")
        self.need_end(watching)
        self.run.need("no process" in self.stats("-p", pid, status=1), "it is found")
        self.run.need(p.popen.poll() is None, "it has ended")
        zombie.communicate()
        self.run.need(p.end() == 0, "the end")

    def test_refusals(self):
        p = Program(self.run)
        need = self.run.need
        for args in (["-v", 9], ["-v", "x"], ["-d", 3], ["-l", "loud"], ["-D", 4], ["-p", "x"],
                     ["-s", "4-x"], ["-S", "x"], ["-i", -1], ["--fly"]):
            self.stats("-p", p.pid, *args, status=1)
        need("no process" in self.stats("-p", 2 ** 31 - 1, status=1), "no process")
        need("not found" in self.stats("-p", os.getpid(), status=1), "no osf")
        need("vma_stats" in self.stats("-V"), "-V")
        need("--log_level" in self.stats("-h"), "-h")
        if os.geteuid() == 0 and harness.find("setpriv"):
            os.chmod(self.zero, 0o777)
            for args in (["-c", 1], ["-z"], ["-l", "all"], ["-S", 0]):
                text = self.stats("-p", p.pid, *args, status=1, prefix=AS_NOBODY)
                need("another user" in text, text)
        watching = self.watch(p.pid)
        p.end()
        self.need_end(watching)


def main():
    if sys.argv[1:] == ["inside"]:
        inside()
        return
    if sys.argv[1:2] == ["without_copies"]:
        without_copies(sys.argv[2:])
    if sys.argv[1:2] == ["zombie"]:
        zombie(int(sys.argv[2]))
        return
    run = harness.Run(__file__)
    if run.is_kernel or not os.path.exists(os.path.join(run.build, "vma_stats")):
        harness.skip("no vma_stats")
    test = Test(run)
    for name in [n for n in dir(test) if n.startswith("test_")]:
        print(name, flush=True)
        getattr(test, name)()
    run.done()


main()
