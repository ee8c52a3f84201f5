#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/osf_command.py - the command osf: what it says, and its exit statuses

    osf_command.py PATH-OF-OSF        (or OSF=PATH in the environment)

Needs no libosf.so: a library without code that has its name stands in for it.
Statistics files
are written by this file, good ones and broken ones.  Nothing but loopback, a
temporary directory and child processes is touched.  Exit 77: cannot run here.
"""
import ctypes
import glob
import json
import os
import pty
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

OSF = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("OSF", "")
TMP = tempfile.TemporaryDirectory(prefix="osf-command.")
N_FAILED = 0


def need(ok, why):
    if not ok:
        print("skip:", why)
        sys.exit(77)


def make_library(name, soname):
    """A shared library that may be preloaded into anything."""
    path = os.path.join(TMP.name, name)
    try:
        subprocess.run(["cc", "-shared", "-nostdlib", "-o", path, "-x", "c",
                        "-Wl,-soname," + soname, os.devnull], check=True,
                       capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return path


LIB = make_library("libosf.so", "libosf.so")
PATIENCE_S = 90  # of one command, on a busy machine
ENV = {"PATH": os.environ["PATH"], "HOME": "/", "LC_ALL": "C",
       "TMPDIR": TMP.name, "OSF_LIB": LIB or "",
       "OSF_CONFIG_FILE": os.path.join(TMP.name, "osf.conf")}
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LD_LIBRARY_PATH"):
    if name in os.environ:
        ENV[name] = os.environ[name]


def osf(*args, **env):
    return subprocess.run([OSF, *args], env={**ENV, **env}, timeout=PATIENCE_S,
                          stdin=subprocess.DEVNULL, capture_output=True,
                          cwd=TMP.name,
                          text=True)


def expect(what, got, status, out=None, err=None):
    """One line for each promise; what was seen instead when it is broken."""
    global N_FAILED
    lines = got.stderr.splitlines()
    ok = got.returncode == status
    ok = ok and (out is None or out in got.stdout)
    if err is not None:
        ok = ok and (err in got.stderr if err else not lines)
    print("ok  " if ok else "FAIL", what)
    if not ok:
        N_FAILED += 1
        print(f"     status {got.returncode}, not {status}\n"
              f"     stdout {got.stdout[-500:]!r}, wanted {out!r}\n"
              f"     stderr {got.stderr[-500:]!r}, wanted {err!r}")


def check(what, ok, seen=""):
    global N_FAILED
    print("ok  " if ok else "FAIL", what, "" if ok else repr(seen))
    N_FAILED += not ok


def write(name, data, mode=0o644):
    path = os.path.join(TMP.name, name)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())
    os.chmod(path, mode)
    return path


# A program of no library: exit(7), for the machine this test runs on.
CODE = {"x86_64": (62, bytes.fromhex("bf07000000b83c0000000f05")),
        "aarch64": (183, bytes.fromhex("e00080d2a80b80d2010000d4"))}


def elf64(machine, code, interp=b""):
    base, n = 0x400000, 2 if interp else 1
    start = 64 + 56 * n
    size = start + len(code) + len(interp)
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, machine,
                       1, base + start, 64, 0, 0, 64, 56, n, 0, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 4096)
    name = struct.pack("<IIQQQQQQ", 3, 4, start + len(code), 0, 0,
                       len(interp), len(interp), 1) if interp else b""
    return head + load + name + code + interp


def test_usage():
    expect("--version", osf("--version"), 0, "osf 0.1", "")
    expect("--help", osf("--help"), 0, "bench", "")
    expect("help", osf("help"), 0, "COMMAND", "")
    for name in ("run", "stat", "bench"):
        expect(f"{name} --help", osf(name, "--help"), 0, f"osf {name}", "")
        expect(f"help {name}", osf("help", name), 0, f"osf {name}", "")
    expect("no command", osf(), 2, "", "Usage")
    expect("an unknown command", osf("fly"), 2, "", "'fly'")
    expect("help for an unknown command", osf("help", "fly"), 2, "", "'fly'")
    expect("an unknown option", osf("stat", "--fly"), 2, "", "--fly")
    expect("an unknown option of osf", osf("--fly"), 2, "", "osf: unrecognized")
    expect("run without a command", osf("run"), 125, "", "no command")
    expect("port with an unknown word", osf("port", "fly"), 2, "", "not 'fly'")
    expect("port without a device", osf("port", "add"), 2, "", "which device")
    expect("rdma of no process", osf("rdma", "fly"), 2, "", "'fly'")
    expect("run with a wrong level", osf("run", "--log", "loud", "true"), 125,
           "", "'loud'")


def test_run_status():
    expect("the status is the command's", osf("run", "--", "sh", "-c",
           "exit 3"), 3, "", "")
    expect("-- may be left out", osf("run", "sh", "-c", "exit 4"), 4, "", "")
    expect("options after the command are its own",
           osf("run", "echo", "--stats"), 0, "--stats", "")
    expect("a command that is not there", osf("run", "no-such-command"), 127,
           "", "osf: no-such-command: command not found\n")
    expect("a path that is not there", osf("run", "/no/such"), 127, "",
           "not found")
    expect("a file that may not be executed",
           osf("run", write("plain", "x")), 126, "", "Permission denied")
    expect("a directory", osf("run", TMP.name), 126, "", "directory")
    expect("a script without its interpreter",
           osf("run", write("lost", "#!/no/such\n", 0o755)), 126, "",
           "interpreter")
    expect("a script without #! is run by sh",
           osf("run", write("bare", "exit 6\n", 0o755)), 6, "", "")
    got = osf("run", "sh", "-c", "kill -KILL $$")
    check("a signal is the command's own", got.returncode == -9, got)


def test_run_environment():
    show = ("sh", "-c", 'echo "$LD_PRELOAD|$OSF_LOG|$OSF_RULES"')
    verbs = os.path.join(os.path.dirname(LIB), "libosf-verbs.so")
    ours = f"{verbs}:{LIB}" if os.path.exists(verbs) else LIB
    expect("the library is preloaded", osf("run", *show), 0, f"{ours}||\n", "")
    expect("before what was", osf("run", *show, LD_PRELOAD=LIB), 0,
           f"{ours}:{LIB}|", "")
    expect("--log", osf("run", "--log", "dbg", *show), 0, "|dbg|", "")
    rules = ["use os tcp_client *:80", "use osf tcp_server *:*"]
    expect("--rule, twice", osf("run", "--rule", rules[0], "--rule", rules[1],
           *show), 0, "|" + "\n".join(rules), "")
    expect("--rule, after OSF_RULES", osf("run", "--rule", rules[1], *show,
           OSF_RULES=rules[0]), 0, "|" + "\n".join(rules), "")
    expect("--lib", osf("run", "--lib", LIB, *show, OSF_LIB="/no"), 0, LIB, "")
    expect("a library that is not there", osf("run", "--lib", "/no/such",
           "true"), 125, "", "/no/such")
    expect("a library that is none", osf("run", "true",
           OSF_LIB=write("lib.so", "text")), 125, "", "not a shared library")
    other = make_library("other.so", "libother.so")
    expect("a library that is another", osf("run", "--lib", other, "true"),
           125, "", f"{other} is a shared library, but not libosf.so\n")
    spaced = os.path.join(TMP.name, "a b.so")
    os.symlink(LIB, spaced)
    expect("a link is followed", osf("run", "--lib", spaced, *show), 0, LIB,
           "")


def test_rules():
    bad = "use os tcp_clyent *:80"
    expect("a bad --rule", osf("run", "--rule", bad, "echo", "started"), 125,
           None, "line 1, column 8")
    check("the command was not started", "started" not in
          osf("run", "--rule", bad, "echo", "started").stdout)
    expect("a bad second line", osf("run", "--rule", f"use os tcp_client *:1\n"
           f"{bad}", "true"), 125, "", "line 2, column 8")
    expect("a bad OSF_RULES", osf("run", "true", OSF_RULES=bad), 125, "",
           "osf: OSF_RULES: line 1")
    expect("an unknown provider", osf("run", "--rule", "use oss tcp_client "
           "*:*", "true"), 125, "", "os, inet, osf, vma, xlio, shm, tcp, sdp, sa")
    expect("which may be a module's", osf("run", "--rule", "use oss tcp_client "
           "*:*", "true", OSF_MODULES="/some/module.so"), 0, "", "")
    path = write("bad.conf", f"# a comment\n\n{bad}\n")
    expect("a bad file", osf("run", "true", OSF_CONFIG_FILE=path), 125, "",
           f"osf: {path}: line 3, column 8")
    expect("a file that was named and is not there",
           osf("run", "true", OSF_CONFIG_FILE="/no/such"), 125, "", "/no/such")


def test_not_preloadable():
    machine, code = CODE.get(os.uname().machine, (0, b""))
    if not code:
        return
    static = write("static", elf64(machine, code), 0o755)
    expect("a static program runs", osf("run", static), 7, "",
           f"osf: {static} cannot be preloaded because it is statically "
           "linked; it runs on the kernel\n")
    expect("not with --strict", osf("run", "--strict", static), 125, "",
           "not started")
    script = write("script", f"#! {static} -x\n", 0o755)
    expect("nor a script for it", osf("run", "--strict", script), 125, "",
           f"its interpreter {static} is statically linked")
    foreign = write("foreign", elf64(8, code, b"/lib/ld.so.1\0"), 0o755)
    expect("another machine", osf("run", "--strict", foreign), 125, "",
           "another machine")
    if os.geteuid() == 0:
        setuid = write("setuid", open("/bin/true", "rb").read())
        os.chown(setuid, 65534, 65534)
        os.chmod(setuid, 0o4755)
        expect("set-user-ID", osf("run", setuid), 0, "", "is set-user-ID")


GO_NOTE = r"""
__asm__(".section .note.go.buildid,\"a\",@note\n"
        ".long 4, 4, 4\n.ascii \"Go\\0\\0\"\n.ascii \"abcd\"\n.text\n");
int main(void) { return 9; }
"""


def test_go():
    """A dynamic program whose system calls do not come by: say so."""
    path = os.path.join(TMP.name, "gopher")
    subprocess.run(["cc", "-o", path, "-x", "c", "-"], input=GO_NOTE,
                   text=True, check=True)
    expect("a program of Go runs", osf("run", path), 9, "",
           f"osf: {path} cannot be offloaded because it is written in Go, "
           "whose system calls do not go through the C library; it runs on "
           "the kernel\n")
    expect("not with --strict", osf("run", "--strict", path), 125, "",
           "not started")


def test_run_stats():
    expect("--stats keeps the status", osf("run", "--stats", "sh", "-c",
           "exit 5"), 5, "", "osf: no process ran under osf")
    expect("and says 128 + signal", osf("run", "--stats", "sh", "-c",
           "kill -TERM $$"), 143)
    stats = segment(pid=1, socks=[sock(rx_bytes_shm=5000)], n_upgraded=2,
                    n_connected=3, tx_bytes_inet=42, reasons={7: 1})
    write("one.seg", stats)
    got = osf("run", "--stats", "sh", "-c",
              f'ls -ld "$OSF_STATS_DIR" && cp {TMP.name}/one.seg '
              '"$OSF_STATS_DIR"/1.0.osf && echo "$OSF_STATS_DIR"')
    expect("sums up", got, 0, "drwx------", "1 process: 3 opened, 0 accepted, "
           "2 upgraded")
    expect("the bytes", got, 0, None, "over shm: 5.0k in, 0 out; over the "
           "kernel: 0 in, 42 out")
    expect("and the reasons", got, 0, None,
           "1 on the kernel: the peer does not run under osf")
    check("and cleans up", not os.path.exists(got.stdout.splitlines()[-1]),
          got.stdout)
    expect("127 without a summary", osf("run", "--stats", "no-such-command"),
           127, "", "osf: no-such-command: command not found\n")


def test_run_signals():
    trap = 'trap "echo term; exit 9" TERM; echo up; sleep 20 & wait'
    p = subprocess.Popen([OSF, "run", "--stats", "sh", "-c", trap], env=ENV,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         start_new_session=True, text=True)
    p.stdout.readline()
    p.send_signal(signal.SIGTERM)
    line = p.stdout.readline()
    status = p.wait(timeout=PATIENCE_S)
    try:
        os.killpg(p.pid, signal.SIGKILL)  # the sleep
    except ProcessLookupError:
        pass  # it had not been started yet
    check("a signal is passed on", (line, status) == ("term\n", 9),
          (line, status))
    p.stdout.close()
    p.stderr.close()


def test_run_terminal():
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(OSF, [OSF, "run", "--stats", "sh", "-c", "echo up; sleep 20"],
                  ENV)
    while b"up" not in os.read(fd, 1000):
        pass
    os.write(fd, b"\x03")
    status = os.waitpid(pid, 0)[1]
    os.close(fd)
    check("^C ends both, and the status says so", os.WIFEXITED(status) and
          os.WEXITSTATUS(status) == 130, status)


# --- statistics files, as include/osf/stats.h has them ------------------

MAGIC, VERSION, HEADER, SOCK = 0x7461747366736f1a, 0x00010000, 752, 144
SOCK_1_2 = 176
TOTALS = ("n_sockets n_connected n_accepted n_upgraded n_fallbacks n_broken "
          "n_proposals n_proposals_expired rx_bytes_shm tx_bytes_shm rx_bytes_inet "
          "tx_bytes_inet rx_ops tx_ops n_spins n_sleeps n_wakes").split()
COUNTS = ("rx_bytes_inet tx_bytes_inet rx_bytes_shm tx_bytes_shm rx_ops "
          "tx_ops n_spins n_sleeps n_wakes").split()
START = time.time_ns() - 90 * 10**9


def sock(in_use=1, fd=5, family=2, proto=2, reason=1, passive=0, listening=0,
         flags=0, local=("7f000001", 1234), peer=("7f000001", 80), **counts):
    ports = (local[1], peer[1], 0)
    addrs = [bytes.fromhex(a[0]).ljust(16, b"\0") for a in (local, peer)]
    return struct.pack("<IiHBBBBHHH16s16s4xQQ9Q", in_use, fd, family, proto,
                       reason, passive, listening, *ports, *addrs, START,
                       START, *[counts.get(n, 0) for n in COUNTS]) + \
        (struct.pack("<QQQII", 0, 0, 0, flags, 0) if flags else b"")


def segment(pid=1, socks=(), magic=MAGIC, version=VERSION, header=HEADER,
            sock_size=SOCK, n_socks=None, program=b"prog", reasons=None,
            **totals):
    n = len(socks) if n_socks is None else n_socks
    head = struct.pack("<QIIIIIIQ64s17Q64Q", magic, version, header, sock_size,
                       n, pid, os.getuid(), START, program,
                       *[totals.get(n, 0) for n in TOTALS],
                       *[(reasons or {}).get(i, 0) for i in range(64)])
    return head.ljust(max(header, HEADER), b"\0")[:max(header, HEADER)] + \
        b"".join(s.ljust(sock_size, b"\0") for s in socks)


def stat_dir(*segments):
    path = tempfile.mkdtemp(dir=TMP.name)
    for i, data in enumerate(segments):
        with open(f"{path}/{i}.0.osf", "wb") as f:
            f.write(data)
    return path


BIG = 2**63 + 12345  # a double would lose its end
GOOD = segment(pid=4242, n_connected=7, n_upgraded=6, rx_bytes_shm=BIG,
               reasons={6: 3}, socks=[
                   sock(rx_bytes_shm=1000, tx_bytes_shm=2_500_000, rx_ops=3),
                   sock(in_use=0, fd=9),
                   sock(fd=6, family=10, proto=1, reason=6,
                        local=("0" * 31 + "1", 1), peer=("20010db8", 443),
                        rx_bytes_inet=8),
                   sock(fd=3, proto=0, reason=3, listening=1,
                        peer=("00", 0))])


def test_stat_json():
    got = osf("stat", "--json", "--dir", stat_dir(GOOD))
    expect("stat --json", got, 0, None, "")
    doc = json.loads(got.stdout)
    p = doc["processes"][0]
    check("top level", doc["osf_stat"] == 1 and len(doc["processes"]) == 1)
    check("process", (p["pid"], p["program"], p["version"]) ==
          (4242, "prog", "1.0"), p)
    check("started is RFC 3339", p["started"].endswith("Z") and
          "T" in p["started"], p["started"])
    t = p["totals"]
    check("totals are exact", t["rx_bytes_shm"] == BIG and
          t["rx_bytes_shm_all"] == BIG + 1000 and
          t["rx_bytes_inet_all"] == 8 and t["n_upgraded"] == 6, t)
    check("reasons", t["reasons"] == {"remote": 3} and t["reasons_all"] ==
          {"upgraded": 1, "listener": 1, "remote": 4}, t)
    s = {x["fd"]: x for x in p["sockets"]}
    check("free entries are skipped", sorted(s) == [3, 5, 6], s)
    check("protocols", [s[i]["proto"] for i in (3, 5, 6)] ==
          ["listen", "shm", "kernel"], s)
    check("addresses", (s[5]["peer"], s[6]["local"], s[6]["peer"],
          s[3]["peer"]) == ("127.0.0.1:80", "[::1]:1", "[2001:db8::]:443",
                            "*"), s)


def test_stat_text():
    where = stat_dir(GOOD, segment(pid=7, program=b"\x1b[2J\xff\t"))
    got = osf("stat", "--dir", where)
    rows = [r.split("\t") for r in got.stdout.splitlines()]
    expect("stat in a pipe", got, 0, None, "")
    check("one width, a heading", {len(r) for r in rows} == {24} and
          rows[0][0] == "pid", rows)
    check("exact numbers", rows[1][8] == "2500000", rows)
    got = osf("stat", "--closed", "--dir", where)
    check("--closed adds a line for each process",
          sum("\tclosed\t" in r for r in got.stdout.splitlines()) == 2,
          got.stdout)
    check("names cannot hold escapes", "\x1b" not in got.stdout and
          "?[2J??" in got.stdout, got.stdout)
    expect("a process by number", osf("stat", "--dir", where, "4242"), 0,
           "4242\tprog", "")
    expect("one that is not there", osf("stat", "--dir", where, "1"), 1, None,
           "process 1 has no statistics")


def on_terminal(args, **env):
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(OSF, [OSF, *args], {**ENV, **env})
    text = b""
    try:
        while chunk := os.read(fd, 65536):
            text += chunk
    except OSError:
        pass
    os.close(fd)
    os.waitpid(pid, 0)
    return text.decode()


def test_stat_terminal():
    where = stat_dir(GOOD)
    text = on_terminal(["stat", "--dir", where])
    check("a table on a terminal", "2.5M" in text and "peer takes" in text,
          text)
    check("with colours", "\x1b[32m" in text, text)
    text = on_terminal(["stat", "--dir", where], NO_COLOR="1")
    check("without, for NO_COLOR", "\x1b" not in text, text)
    check("cut to the width, and it says so",
          max(map(len, text.splitlines())) <= 80 and "--wide" in text, text)
    text = on_terminal(["stat", "--wide", "--dir", where], NO_COLOR="1")
    check("or not", "peer takes part" in text and "--wide" not in text and
          "WAKES" in text and max(map(len, text.splitlines())) > 80, text)


def test_stat_broken():
    cases = {
        "half a header": (GOOD[:100], "truncated"),
        "text": (b"x" * 5000, "not a statistics file"),
        "another major version": (segment(version=0x20000), "version 2.0"),
        "a small header": (segment(header=8), "impossible sizes"),
        "a huge header": (GOOD[:12] + struct.pack("<I", 2**31) + GOOD[16:],
                          "impossible sizes"),
        "small sockets": (segment(sock_size=1), "impossible sizes"),
        "no sockets' size": (segment(sock_size=0), "impossible sizes"),
        "too many sockets": (segment(n_socks=2**32 - 1), "impossible sizes"),
        "missing sockets": (segment(n_socks=3, socks=[sock()]), "truncated"),
    }
    for what, (data, why) in cases.items():
        expect(f"stat: {what}", osf("stat", "--dir", stat_dir(data)), 1, None,
               why)
    got = osf("stat", "--json", "--dir", stat_dir(b"bad", GOOD))
    expect("the others are shown all the same", got, 1, '"pid":\t4242',
           "truncated")
    where = stat_dir()
    os.mkfifo(f"{where}/1.0.osf")
    expect("a pipe is not waited for", osf("stat", "--dir", where), 1, None,
           "not a regular file")
    expect("one that is being born", osf("stat", "--dir", stat_dir(
        b"\0" * 5000)), 0, None, "")
    expect("one that has no size yet", osf("stat", "--dir", stat_dir(b"")), 0, None, "")
    expect("no directory", osf("stat", "--dir", "/no/such"), 1, "", "/no/such")
    expect("an empty one", osf("stat", "--dir", stat_dir()), 0, None, "")


def test_stat_uncounted():
    """Bytes that the library has not counted, of a process that is gone."""
    where = stat_dir(segment(sock_size=SOCK_1_2, socks=[
        sock(proto=1, reason=7, flags=1, rx_bytes_inet=5, rx_ops=1)]))
    got = osf("stat", "--dir", where)
    rows = [dict(zip(*(line.split("\t") for line in pair))) for pair in
            [got.stdout.splitlines()]]
    check("a column says that it was not counted",
          [rows[0][c] for c in ("rx_bytes_inet", "tx_bytes_inet", "rx_ops",
                                "tx_ops", "rx_bytes_shm")] ==
          ["-", "-", "-", "-", "0"], rows)
    check("and what would change the reason", rows[0]["advice"] ==
          "start the peer with osf run, too", rows)
    doc = json.loads(osf("stat", "--json", "--dir", where).stdout)
    s = doc["processes"][0]["sockets"][0]
    check("in JSON it is null", (s["rx_bytes_inet"], s["rx_ops"],
          s["rx_bytes_shm"]) == (None, None, 0) and
          doc["processes"][0]["totals"]["n_uncounted_all"] == 1, s)
    two = stat_dir(segment(pid=1, n_accepted=3), segment(pid=2, n_accepted=4),
                   segment(pid=3, program=b"other"))
    doc = json.loads(osf("stat", "--json", "--dir", two).stdout)
    check("a sum for each program", [(p["program"], p["n_processes"],
          p["n_accepted"]) for p in doc["programs"]] ==
          [("prog", 2, 7), ("other", 1, 0)], doc["programs"])
    text = on_terminal(["stat", "--dir", two], NO_COLOR="1")
    check("a line for each program of several processes",
          "prog: 2 processes" in text and "other:" not in text, text)


def test_stat_growth():
    newer = segment(version=VERSION + 3, header=HEADER + 64,
                    sock_size=SOCK + 16, socks=[sock(fd=77)])
    got = osf("stat", "--json", "--dir", stat_dir(newer))
    check("a newer minor version is read", got.returncode == 0 and
          json.loads(got.stdout)["processes"][0]["sockets"][0]["fd"] == 77,
          got)
    odd = segment(socks=[sock(proto=200, reason=200, family=99)])
    got = osf("stat", "--json", "--dir", stat_dir(odd))
    s = json.loads(got.stdout)["processes"][0]["sockets"][0]
    check("unknown numbers have a name", (s["proto"], s["reason"], s["local"])
          == ("unknown", "unknown", "*"), s)


def memfd_create(name):
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.memfd_create(name, 1)


def test_stat_processes():
    me = os.getpid()
    fd = memfd_create(b"osf-stats")
    here = socket.socket()
    os.write(fd, segment(pid=me, program=b"me", socks=[
        sock(fd=here.fileno(), proto=0, reason=0, local=("00", 0),
             peer=("00", 0)), sock(fd=1 << 20)]))
    child = subprocess.Popen(["sleep", "20"], pass_fds=[fd])
    got = osf("stat", "--json")
    pids = [p["pid"] for p in json.loads(got.stdout)["processes"]]
    check("running processes are found, once", pids.count(me) == 1, pids)
    mine = [p for p in json.loads(got.stdout)["processes"] if p["pid"] == me]
    check("a row that nobody holds is not shown",
          [s["fd"] for s in mine[0]["sockets"]] == [here.fileno()], mine)
    mine = json.loads(osf("stat", "--json", "--closed", str(me)).stdout)
    check("but with --closed, marked", [s["gone"] for s in
          mine["processes"][0]["sockets"]] == [False, True], mine)
    newborn = memfd_create(b"osf-stats")
    expect("by number, beside one that has no size yet", osf("stat", str(me)), 0, f"{me}\tme", "")
    os.close(newborn)
    expect("an inherited segment is not the child's",
           osf("stat", str(child.pid)), 1, None, "does not run under osf")
    child.kill()
    child.wait()
    expect("a process that is gone", osf("stat", str(child.pid)), 1, None,
           f"there is no process {child.pid}")
    os.ftruncate(fd, 800)
    expect("a segment cut off", osf("stat", str(me)), 1, None, "truncated")
    os.close(fd)
    expect("a process without one", osf("stat", str(me)), 1, None,
           "does not run under osf")
    expect("not a number", osf("stat", "1x"), 2, "", "'1x'")
    expect("a number that is none", osf("stat", "-1"), 2, "", None)


def test_stat_watch():
    path = f"{stat_dir(GOOD)}"
    p = subprocess.Popen([OSF, "stat", "--json", "--watch=0.1", "--dir", path],
                         env=ENV, stdout=subprocess.PIPE, text=True)
    p.stdout.readline()
    more = GOOD.replace(struct.pack("<Q", 1000), struct.pack("<Q", 9000))
    with open(glob.glob(f"{path}/*.osf")[0], "r+b") as f:
        f.write(more)
    docs = [json.loads(p.stdout.readline()) for _ in range(3)]
    p.kill()
    p.wait()
    p.stdout.close()
    rates = [d["processes"][0]["sockets"][0]["rx_bytes_per_s"] for d in docs]
    check("--watch shows rates", max(rates) > 0, rates)
    for args in (["-w", "0.1"], ["--watch", "0.1"], ["-w0.1"]):
        p = subprocess.Popen([OSF, "stat", *args, "--json", "--dir", path],
                             env=ENV, stdout=subprocess.PIPE, text=True)
        docs = [json.loads(p.stdout.readline()) for _ in range(3)]
        p.kill()
        p.wait()
        p.stdout.close()
        check(" ".join(args) + " is understood", len(docs[0]["processes"]) == 1,
              docs)
    expect("a number of seconds, or a process?", osf("stat", "-w", "4242"), 2,
           "", "--watch=4242")
    expect("too short a time", osf("stat", "-w", "0.001"), 2, "", "'0.001'")


def test_bench_arguments():
    got = osf("bench", "--list")
    expect("bench --list", got, 0, "pingpong", "")
    check("names every bench", all(n in got.stdout for n in (
          "latency", "stream", "messages", "redis", "memcached", "nginx",
          "oneshot", "passthrough", "idle", "asleep", "engine", "crowd",
          "pgbench", "wire-pingpong", "rdma-send-lat")),
          got.stdout)
    expect("an unknown bench", osf("bench", "fly"), 2, "", "'fly'")
    expect("no seconds", osf("bench", "--seconds", "0"), 2, "", "--seconds")
    expect("no runs", osf("bench", "--runs", "x"), 2, "", "--runs")


def test_bench_judges():
    got = osf("bench", "--json", "--seconds", "0.1", "--runs", "1", "asleep",
              "passthrough", "oneshot")
    doc = json.loads(got.stdout)
    b = {x["name"]: x for x in doc["benches"]}
    check("bench --json", doc["osf_bench"] == 1 and
          sorted(b) == ["asleep", "oneshot", "passthrough"], doc)
    check("what ran on the kernel is a failure",
          b["asleep"]["result"] == "not offloaded" and got.returncode == 1, b)
    check("every sample is there", all(
          len(b[n][side]["samples"]) == 1 and b[n][side]["median"] > 0
          for n in b for side in ("kernel", "osf")), b)
    check("a bar has a value", b["oneshot"]["bars"][0]["value"] > 0, b)


LEAVES_SEGMENT = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void leave(void)
{
	static char path[4096], data[65536];
	const char *dir = getenv("OSF_STATS_DIR");
	FILE *from = fopen(SEGMENT, "r"), *to;

	snprintf(path, sizeof(path), "%s/%d.0.osf", dir ? dir : "", getpid());
	if (!dir || !from || !(to = fopen(path, "w")))
		return;
	fwrite(data, 1, fread(data, 1, sizeof(data), from), to);
	fclose(to);
}
"""


def library_of(name, code, *flags):
    """One that is called libosf.so, of @code."""
    path = os.path.join(TMP.name, name)
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libosf.so", "-o",
                    path, "-x", "c", "-", "-x", "none", *flags], input=code,
                   text=True, check=True, capture_output=True)
    return path


def test_bench_against():
    few = ("bench", "--seconds", "0.1", "--runs", "2")
    got = osf(*few, "--json", "--against", LIB, "passthrough", "engine-rx-1")
    doc = json.loads(got.stdout)
    b = {x["name"]: x for x in doc["benches"]}
    ours = b["passthrough"]
    check("the older build has samples of its own", doc["against"] == LIB and
          len(ours["against"]["samples"]) == 2 and
          ours["ratio_against"] > 0, got.stdout)
    check("what is in the command itself has none",
          "against" not in b["engine-rx-1"] and
          b["engine-rx-1"]["ratio_against"] is None, got.stdout)
    got = osf(*few, "--against", LIB, "passthrough")
    check("the table has a column for it", "TO OLD" in got.stdout, got.stdout)
    got = osf(*few, "--json", "passthrough")
    check("and neither when it is not asked for",
          json.loads(got.stdout)["against"] is None, got.stdout)

    write("other.seg", segment(version=VERSION + 0x10000))
    path = os.path.join(TMP.name, "other.seg")
    older = library_of("older.so", LEAVES_SEGMENT, f'-DSEGMENT="{path}"')
    got = osf(*few, "--json", "--against", older, "oneshot")
    b = json.loads(got.stdout)["benches"][0]
    check("other statistics are told, and the build is timed",
          "its statistics have another version" in b["note"] and
          len(b["against"]["samples"]) == 2 and b["result"] != "failed", b)

    expect("an older build that is not there", osf(*few, "--against",
           "/no/such", "passthrough"), 2, "", "/no/such")
    expect("one without a name", osf(*few, "--against", ""), 2, "",
           "--against")
    gone = library_of("gone.so", "int gone(void) { return 1; }",
                      "-Wl,-soname,libgone.so")
    lost = library_of("lost.so", "int gone(void); "
                      "int lost(void) { return gone(); }", gone)
    os.unlink(gone)
    expect("one that cannot be loaded", osf(*few, "--against", lost,
           "passthrough"), 2, "", "lost.so cannot be loaded\n")


def test_bench_busy():
    """The loops that keep the cores busy end with the benchmark."""
    got = osf("bench", "--json", "--seconds", "0.1", "--runs", "1",
              "nginx-busy")
    b = json.loads(got.stdout)["benches"][0]
    check("nginx-busy runs, or says what is missing", b["result"] != "failed",
          b)
    left = subprocess.run(["pgrep", "-f", f"^{OSF} bench-peer busy"],
                          capture_output=True, text=True).stdout
    check("no busy loop is left", left == "", left)


def test_bench_skips():
    got = osf("bench", "--json", "redis-1", PATH="/no/such")
    if got.returncode == 0:  # unless it lies in /usr/sbin
        b = json.loads(got.stdout)["benches"][0]
        check("a missing program is named", b["result"] == "skipped" and
              "install" in b["note"], b)


def main():
    need(OSF and os.access(OSF, os.X_OK), "the osf command is not built")
    need(sys.byteorder == "little", "segments are written little-endian")
    need(LIB, "no compiler makes a library to stand in for libosf.so")
    write("osf.conf", "# nothing\n")
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
    print(f"{N_FAILED} failed")
    return N_FAILED != 0


if __name__ == "__main__":
    sys.exit(main())
