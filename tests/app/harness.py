# SPDX-License-Identifier: MIT
"""
tests/app/harness.py - unmodified programs under osf, and the proof of it

    import harness
    run = harness.Run(__file__, needs=["redis-server"])
    server = run.start(["redis-server", "--port", str(port)])
    run.wait_port(port)
    run.check(["redis-cli", "-p", str(port), "ping"])
    run.expect_offloaded(1)
    run.done()

Environment:
    OSF_BUILD        folder with osf and libosf.so (default ./build)
    OSF_TEST_KERNEL  1: everything on the bare kernel; nothing must be offloaded
    OSF_TEST_VIA     "osf": programs start through `osf run --`; default is
                     LD_PRELOAD

A test ends with 0, with 77 when something it needs is missing, or with 1.  All
programs are children of the test, are bounded in time, and are killed by pid.
The harness itself runs on the kernel.
"""
import atexit
import contextlib
import ctypes
import glob
import hashlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from ports import free_port  # noqa: F401, for the tests
from sanitizer import Sanitizer

# Seconds, of a whole test; each should take 40 at most, if the machine has nothing else to
# do.  All times to wait are longer with a sanitizer.  Who waits for one event may wait as long as is left of these, less
# REPORT_S, in which the test says what it waited for: a bound of its own would only say that
# the machine is busy.
LIMIT_S = 240
REPORT_S = 5
REPORTS_MAX = 3
REPORT_MAX = 3000  # characters
SAID_MAX = 8000  # what a program that failed has said: all notes of a connection (soak_end.c)
TABLE_MAX = 20  # processes, so that what comes before stays in sight
HERE = os.path.dirname(os.path.abspath(__file__))
SHM = "/dev/shm"

PACKAGES = {"redis-server": "redis-server", "redis-benchmark": "redis-tools",
            "redis-cli": "redis-tools", "memcached": "memcached",
            "memcslap": "libmemcached-tools",
            "memccapable": "libmemcached-tools", "nginx": "nginx",
            "wrk": "wrk", "curl": "curl", "iperf3": "iperf3",
            "sockperf": "sockperf", "socat": "socat",
            "nc.openbsd": "netcat-openbsd", "openssl": "openssl",
            "sshd": "openssh-server", "mariadbd": "mariadb-server",
            "mariadb-install-db": "mariadb-server",
            "mariadb": "mariadb-client", "mariadb-slap": "mariadb-client",
            "vsftpd": "vsftpd", "apache2": "apache2-bin",
            "dovecot": "dovecot-imapd", "postfix": "postfix",
            "proftpd": "proftpd-core", "setpriv": "util-linux",
            "ssh": "openssh-client", "sftp": "openssh-client", "scp": "openssh-client"}


# --- the statistics file: include/osf/stats.h ---

STATS_MAGIC = 0x7461747366736f1a
STATS_VERSION_MAJOR = 1
U64 = ctypes.c_uint64
U32 = ctypes.c_uint32

TOTALS = ["n_sockets", "n_connected", "n_accepted", "n_upgraded",
          "n_fallbacks", "n_broken", "n_proposals", "n_proposals_expired",
          "rx_bytes_shm", "tx_bytes_shm", "rx_bytes_inet", "tx_bytes_inet",
          "rx_ops", "tx_ops", "n_spins", "n_sleeps", "n_wakes"]
BYTES = ["rx_bytes_shm", "tx_bytes_shm", "rx_bytes_inet", "tx_bytes_inet"]


class Totals(ctypes.Structure):
    _fields_ = [(name, U64) for name in TOTALS] + [("n_reason", U64 * 64)]


class Header(ctypes.Structure):
    _fields_ = [("magic", U64), ("version", U32), ("header_size", U32),
                ("sock_size", U32), ("n_socks", U32), ("pid", U32),
                ("uid", U32), ("started_ns", U64),
                ("program", ctypes.c_char * 64), ("totals", Totals)]


class Sock(ctypes.Structure):
    _fields_ = [("in_use", U32), ("fd", ctypes.c_int32),
                ("family", ctypes.c_uint16), ("proto", ctypes.c_uint8),
                ("reason", ctypes.c_uint8), ("passive", ctypes.c_uint8),
                ("listening", ctypes.c_uint8),
                ("local_port", ctypes.c_uint16),
                ("peer_port", ctypes.c_uint16),
                ("shared", ctypes.c_uint8), ("ended", ctypes.c_uint8),
                ("local_addr", ctypes.c_uint8 * 16),
                ("peer_addr", ctypes.c_uint8 * 16),
                ("opened_ns", U64), ("since_ns", U64),
                ("rx_bytes_inet", U64), ("tx_bytes_inet", U64),
                ("rx_bytes_shm", U64), ("tx_bytes_shm", U64),
                ("rx_ops", U64), ("tx_ops", U64), ("n_spins", U64),
                ("n_sleeps", U64), ("n_wakes", U64)]


def reason_names():
    """The words of include/osf/reasons.def, in order."""
    names = []
    path = os.path.join(HERE, "..", "..", "include", "osf", "reasons.def")
    with open(path) as lines:
        for line in lines:
            if line.startswith("R("):
                names.append(line[2:line.index(",")])
    return names


class Unborn(ValueError):
    """Of a process that was killed before it had written its header."""


class Segment:
    """One process's statistics: totals, closed and open sockets together."""

    def __init__(self, path):
        # The file is long and sparse: read what is in use.
        with open(path, "rb") as f:
            data = f.read(4096)
            if len(data) >= ctypes.sizeof(Header):
                head = Header.from_buffer_copy(data)
                if head.n_socks < 1 << 21 and head.sock_size <= 4096:
                    f.seek(0)
                    data = f.read(head.header_size +
                                  head.n_socks * head.sock_size)
        if not any(data[:8]):
            raise Unborn(path)
        if len(data) < ctypes.sizeof(Header):
            raise ValueError("%s: %d bytes only" % (path, len(data)))
        head = Header.from_buffer_copy(data)
        if head.magic != STATS_MAGIC or \
                head.version >> 16 != STATS_VERSION_MAJOR:
            raise ValueError("%s: magic 0x%x, version 0x%x" %
                             (path, head.magic, head.version))
        self.pid = head.pid
        self.program = head.program.decode("utf-8", "replace")
        self.total = {name: getattr(head.totals, name) for name in TOTALS}
        self.reasons = list(head.totals.n_reason)
        self.n_entries = head.n_socks  # ever used
        self.socks = []
        for i in range(head.n_socks):
            at = head.header_size + i * head.sock_size
            if at + ctypes.sizeof(Sock) > len(data):
                break
            sock = Sock.from_buffer_copy(data, at)
            if sock.in_use:
                self.add(sock)

    def add(self, sock):
        if not sock.ended:
            self.socks.append(sock)
        self.reasons[min(sock.reason, 63)] += 1
        for name in BYTES + ["rx_ops", "tx_ops", "n_spins", "n_sleeps",
                             "n_wakes"]:
            self.total[name] += getattr(sock, name)


def family(pid):
    """@pid and all processes that it has started, its own first."""
    pids = [pid]
    for parent in pids:
        for path in glob.glob("/proc/%d/task/*/children" % parent):
            with contextlib.suppress(OSError), open(path) as f:
                pids += map(int, f.read().split())
    return pids


def read_stats(stats_dir):
    segments = []
    for path in sorted(glob.glob(os.path.join(stats_dir, "*.osf"))):
        try:
            segments.append(Segment(path))
        except Unborn:
            pass
    return segments


def sum_stats(segments):
    return {name: sum(s.total[name] for s in segments) for name in TOTALS}


def reasons_table(segments):
    """A text for humans: why connections ran where they ran."""
    names = reason_names()
    lines = []
    for seg in segments:
        words = ["%s %d" % (names[i] if i < len(names) else i, count)
                 for i, count in enumerate(seg.reasons) if count]
        t = seg.total
        lines.append("  %7d %-16s connected %d accepted %d upgraded %d "
                     "back %d broken %d shm %d/%d inet %d/%d: %s" %
                     (seg.pid, seg.program, t["n_connected"], t["n_accepted"],
                      t["n_upgraded"], t["n_fallbacks"], t["n_broken"],
                      t["rx_bytes_shm"], t["tx_bytes_shm"],
                      t["rx_bytes_inet"], t["tx_bytes_inet"],
                      ", ".join(words)))
    if len(lines) > TABLE_MAX:
        lines[:-TABLE_MAX] = ["  %d processes; the last ones:" % len(lines)]
    return "\n".join(lines)


# --- what needs no osf ---

def skip(why):
    print("skip:", why)
    sys.exit(77)


def fail(why):
    print("FAIL:", why)
    sys.exit(1)


def find(program):
    return shutil.which(program, path=os.environ.get("PATH", "") +
                        ":/usr/sbin:/sbin")


def is_listened_to(port):
    """Asked without a connection, which the program would count as one."""
    want = ":%04X" % port
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(FileNotFoundError), open(path) as f:
            for words in map(str.split, f):
                if words[1].endswith(want) and words[3] == "0A":
                    return True
    return False


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while True:
            part = f.read(1 << 20)
            if not part:
                return digest.hexdigest()
            digest.update(part)


def make_file(path, size, seed=1):
    """@size bytes that repeat only after 16 MB, none of them by block."""
    block = b"".join(hashlib.sha256(b"%d.%d" % (seed, i)).digest() * 64
                     for i in range(1 << 13))
    with open(path, "wb") as f:
        left = size
        shift = 0
        while left > 0:
            part = block[shift:] + block[:shift]
            f.write(part[:left])
            left -= len(part)
            shift = (shift + 4099) % len(block)
    return path


class Proc:
    def __init__(self, popen, log, name):
        self.popen = popen
        self.log = log
        self.name = name
        self.is_stopped = False  # by us, so its status means nothing

    def text(self):
        with open(self.log, "rb") as f:
            return f.read().decode("utf-8", "replace")


# --- a test ---

class Run:
    """@not_with: {sanitizer: why the test cannot run with it}"""

    def __init__(self, path, needs=(), not_with=None):
        self.name = os.path.basename(path)
        self.is_kernel = os.environ.get("OSF_TEST_KERNEL") == "1"
        self.build = os.path.abspath(os.environ.get("OSF_BUILD", "build"))
        self.lib = os.path.join(self.build, "libosf.so")
        for program in needs:
            if not find(program):
                skip("no %s (Debian package %s)" %
                     (program, PACKAGES.get(program, program)))
        if not self.is_kernel and not os.path.exists(self.lib):
            skip("no %s; set OSF_BUILD, or OSF_TEST_KERNEL=1" % self.lib)
        self.tmp = tempfile.mkdtemp(prefix="osf-test.")
        os.chmod(self.tmp, 0o755)
        # There may be ten thousand of these files, which a disk takes its time to remove.
        self.stats = tempfile.mkdtemp(
            prefix="test-stats.", dir=SHM if os.access(SHM, os.W_OK) else self.tmp)
        os.chmod(self.stats, 0o777)
        self.own_stats = self.stats  # a test may set another one
        self.sanitizer = Sanitizer(self.build, self.path("reports"))
        why_not = self.sanitizer.why_not(needs, not_with or {})
        if why_not:
            self.remove()
            skip(why_not)
        self.procs = []
        self.serial = itertools.count()
        self.started = time.monotonic()
        atexit.register(self.clean)
        signal.signal(signal.SIGALRM, self.too_long)
        signal.signal(signal.SIGTERM, lambda *a: fail("stopped"))
        signal.alarm(LIMIT_S * self.sanitizer.slower)

    def left(self):
        """Seconds that the test may still wait."""
        return max(1, self.started + LIMIT_S * self.sanitizer.slower - REPORT_S -
                   time.monotonic())

    def until(self, what, why):
        """Waits until what() is true, and returns what it is."""
        end = time.monotonic() + self.left()
        while True:
            got = what()
            if got:
                return got
            self.need(time.monotonic() < end, why() if callable(why) else why)
            time.sleep(0.01)

    def too_long(self, *unused):
        for proc in self.procs:
            print("--- %s:\n%s" % (proc.name, proc.text()[-2000:]))
        self.fail("took more than %d s" % (LIMIT_S * self.sanitizer.slower))

    def clean(self):
        for proc in self.procs:
            self.stop(proc)
        for pid in self.relays():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self.remove()

    def remove(self):
        for path in (self.tmp, self.own_stats):
            shutil.rmtree(path, ignore_errors=True)

    def fail(self, why):
        if not self.is_kernel:
            print(reasons_table(read_stats(self.stats)))
        for text in self.sanitizer.reports()[:REPORTS_MAX]:
            print(text[:REPORT_MAX])
        fail("%s: %s" % (self.name, why))

    def need(self, ok, why):
        if not ok:
            self.fail(why)

    def path(self, name):
        return os.path.join(self.tmp, name)

    # programs

    def env(self, osf=True, eager=False, extra=None):
        """@eager: upgrade from the first byte, not when it has proved worth
        it."""
        env = dict(os.environ, **self.sanitizer.env())
        env.pop("LD_PRELOAD", None)
        if osf and not self.is_kernel:
            env["OSF_STATS_DIR"] = self.stats
            if eager:
                env["OSF_UPGRADE_TURNS"] = "0"
            if os.environ.get("OSF_TEST_VIA") != "osf":
                env["LD_PRELOAD"] = self.sanitizer.preload(self.lib)
        env.update(extra or {})
        return env

    def command(self, cmd, osf):
        cmd = [find(cmd[0]) or cmd[0]] + [str(word) for word in cmd[1:]]
        if osf and not self.is_kernel and \
                os.environ.get("OSF_TEST_VIA") == "osf":
            cmd = [os.path.join(self.build, "osf"), "run", "--"] + cmd
        return cmd

    def start(self, cmd, osf=True, eager=False, extra=None, stdin=None,
              cwd=None):
        """Starts a program that stays; its output goes to a log."""
        log = self.path("log.%d" % next(self.serial))
        with open(log, "wb") as f:
            popen = subprocess.Popen(self.command(cmd, osf), stdout=f,
                                     stderr=subprocess.STDOUT,
                                     stdin=stdin or subprocess.DEVNULL,
                                     cwd=cwd or self.tmp,
                                     env=self.env(osf, eager, extra))
        proc = Proc(popen, log, cmd[0])
        self.procs.append(proc)
        return proc

    def stop(self, proc, how=signal.SIGTERM, patience=5):
        """Return: the exit status."""
        proc.is_stopped = True
        if proc.popen.poll() is None:
            proc.popen.send_signal(how)
            try:
                proc.popen.wait(patience)
            except subprocess.TimeoutExpired:
                proc.popen.kill()
                proc.popen.wait(5)
        return proc.popen.returncode

    def wait(self, proc, status=0):
        """Until the program has ended."""
        timeout = self.left()
        try:
            got = proc.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.stop(proc)
            self.fail("%s did not end in %d s:\n%s" %
                      (proc.name, timeout, proc.text()[-2000:]))
        self.need(got == status, "%s ended with %s:\n%s" %
                  (proc.name, got, proc.text()[-2000:]))

    def check(self, cmd, osf=True, eager=False, extra=None, status=0, stdin=None,
              text=True, timeout=None):
        """Runs a program to its end.  Return: what it printed."""
        timeout = timeout * self.sanitizer.slower if timeout else self.left()
        serial = next(self.serial)
        out_path = self.path("out.%d" % serial)
        err_path = self.path("err.%d" % serial)
        with open(out_path, "wb") as out, open(err_path, "wb") as err:
            popen = subprocess.Popen(self.command(cmd, osf), stdout=out,
                                     stderr=err,
                                     stdin=stdin or subprocess.DEVNULL,
                                     cwd=self.tmp,
                                     env=self.env(osf, eager, extra))
            try:
                got = popen.wait(timeout)
            except subprocess.TimeoutExpired:
                popen.kill()
                popen.wait()
                got = "no end in %d s" % timeout
        with open(out_path, "rb") as f:
            printed = f.read()
        if got != status:
            with open(err_path, "rb") as f:
                said = printed[-2000:] + f.read()[-SAID_MAX:]
            self.fail("%s: %s\n%s" % (" ".join(str(w) for w in cmd), got,
                                      said.decode("utf-8", "replace")))
        os.unlink(out_path)
        os.unlink(err_path)
        return printed.decode("utf-8", "replace") if text else printed

    def python(self, script, *args, **kw):
        """Runs a part of the test itself as a program of its own."""
        return self.check([sys.executable, script] + list(args), **kw)

    def is_open(self, port, host):
        for proc in self.procs:
            self.need(proc.is_stopped or proc.popen.poll() in (None, 0),
                      "%s ended early:\n%s" % (proc.name, proc.text()[-2000:]))
        try:
            socket.create_connection((host, port), self.left()).close()
            return True
        except OSError:
            return False

    def wait_port(self, port, host="127.0.0.1"):
        self.until(lambda: self.is_open(port, host), "nobody listens at port %d" % port)

    def wait_listening(self, port):
        """As wait_port(), but the program sees no connection."""
        self.until(lambda: is_listened_to(port), "nobody listens at port %d" % port)

    # proof

    def expect_offloaded(self, n_conns=1, min_bytes=0):
        """At least @n_conns connections moved to shared memory, with
        @min_bytes through it; either end counts, so both are halved."""
        if self.is_kernel:
            return
        segments = read_stats(self.stats)
        total = sum_stats(segments)
        conns = total["n_upgraded"] // 2
        got = min(total["rx_bytes_shm"], total["tx_bytes_shm"])
        self.need(segments, "no statistics in %s" % self.stats)
        self.need(total["n_broken"] == 0, "%d segments broken" %
                  total["n_broken"])
        self.need(conns >= n_conns, "%d connections offloaded, %d expected" %
                  (conns, n_conns))
        self.need(got >= min_bytes, "%d bytes offloaded, %d expected" %
                  (got, min_bytes))
        print("offloaded: %d connections, %.1f MB" % (conns, got / 1e6))

    def expect_on_kernel(self):
        """Nothing was offloaded, and osf was there to see it."""
        if self.is_kernel:
            return
        segments = read_stats(self.stats)
        total = sum_stats(segments)
        self.need(total["n_connected"] + total["n_accepted"] > 0,
                  "the program did not run under osf")
        self.need(total["n_upgraded"] == 0, "%d connections offloaded" %
                  total["n_upgraded"])

    def relays(self):
        """The relays (src/file/relay.h) that programs of this test have left.  They have the
        programs' environment."""
        pids = []
        for path in glob.glob("/proc/[0-9]*"):
            with contextlib.suppress(OSError):
                with open(path + "/comm") as comm, open(path + "/environ", "rb") as environ:
                    if comm.read() == "osf-relay\n" and self.tmp.encode() in environ.read():
                        pids.append(int(os.path.basename(path)))
        return pids

    def expect_no_relays(self):
        """Each ends when both of its connections have ended."""
        self.until(lambda: not self.relays(),
                   lambda: "relays that do not end: %s" % self.relays())

    def done(self):
        for proc in self.procs:
            self.need(proc.is_stopped or proc.popen.poll() in (None, 0),
                      "%s ended with %s:\n%s" % (proc.name,
                                                 proc.popen.returncode,
                                                 proc.text()[-2000:]))
        if all(proc.popen.poll() is not None for proc in self.procs):
            self.expect_no_relays()
        n_reports = len(self.sanitizer.reports())
        self.need(n_reports == 0, "%d reports of a sanitizer" % n_reports)
        print("ok: %s on %s, %.1f s" %
              (self.name, "the kernel" if self.is_kernel else "osf",
               time.monotonic() - self.started))
