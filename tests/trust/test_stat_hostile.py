#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_stat_hostile.py - `osf stat` of root, and segments that another user made

    segments whose sizes are as large as may be, in memory files that have no pages
    ones that are full, so that each entry is to be kept
    claims of 2^32 entries; files that shrink while they are read
    a FIFO, a link and a folder where a segment should be

The command ends soon, in little memory, and shows the processes of others.
"""
import ctypes
import os
import resource
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
import harness  # noqa: E402

USER = 12345
LIMIT_S = 20  # of the command; it needs less than 2
LIMIT_BYTES = 600 << 20
LARGE, SMALL = 4096, 248
N_LARGE = 400
libc = ctypes.CDLL(None)


# --- the other user's process ---

def segment(n_socks, sock_size, n_bytes):
    fd = os.memfd_create("osf-stats")
    os.ftruncate(fd, n_bytes)
    os.pwrite(fd, struct.pack("<QIIIIIIQ64s", harness.STATS_MAGIC, 0x10002, 4096, sock_size,
                              n_socks, os.getpid(), os.getuid(), 1, b"hostile"), 0)
    return fd


def fill(fd, n_socks, sock_size):
    part = struct.pack("<I", 1).ljust(sock_size, b"\0") * 1024
    for at in range(0, n_socks, 1024):
        os.pwrite(fd, part, 4096 + at * sock_size)


def hostile(folder):
    for _ in range(N_LARGE):
        segment(1 << 20, LARGE, 4096 + (LARGE << 20))
    segment(0xffffffff, SMALL, 4096 + (SMALL << 20))
    fill(segment(1 << 19, SMALL, 4096 + (SMALL << 19)), 1 << 19, SMALL)
    for name, what in (("%d.0.osf", os.mkfifo), ("%d.1.osf", os.mkdir)):
        what(os.path.join(folder, name % os.getpid()))
    os.symlink("/dev/zero", os.path.join(folder, "%d.2.osf" % os.getpid()))
    os.open(os.path.join(folder, "%d.0.osf" % os.getpid()), os.O_RDWR)
    shrinking = segment(1 << 16, SMALL, 4096 + (SMALL << 16))
    print("ready", flush=True)
    while True:
        os.ftruncate(shrinking, 8192)
        os.ftruncate(shrinking, 4096 + (SMALL << 16))
        time.sleep(0.001)


# --- root ---

def limited():
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))


def stat(run, *args):
    started = time.monotonic()
    try:
        got = subprocess.run([os.path.join(run.build, "osf"), "stat", *args], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             timeout=LIMIT_S * run.sanitizer.slower,
                             preexec_fn=None if run.sanitizer.names else limited)
    except subprocess.TimeoutExpired:
        run.fail("osf stat %s: no end in %d s" % (" ".join(args), LIMIT_S))
    print("osf stat %s: %.1f s" % (" ".join(args), time.monotonic() - started))
    return got


def main():
    run = harness.Run(__file__)
    if run.is_kernel or not os.path.exists(os.path.join(run.build, "osf")):
        harness.skip("no osf command")
    if os.geteuid():
        harness.skip("only root sees the processes of another user")
    folder = run.path("hostile")
    os.mkdir(folder)
    os.chown(folder, USER, USER)
    port = harness.free_port()
    good = run.start([sys.executable, "-m", "http.server", str(port)],
                     extra={"OSF_STATS_DIR": ""})
    run.wait_port(port)
    bad = run.start(["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups",
                     sys.executable, os.path.abspath(__file__), "hostile", folder],
                    osf=False)
    run.until(lambda: "ready" in bad.text(), lambda: "not ready: " + bad.text())
    got = stat(run)
    run.need(":%d\t" % port in got.stdout,
             "the server is not in\n" + got.stdout[-2000:])
    run.need("too large" in got.stdout, "nothing is too large:\n" + got.stdout[-2000:])
    stat(run, str(bad.popen.pid))
    stat(run, "--dir", folder)
    run.stop(bad)
    run.stop(good)
    run.done()


if sys.argv[1:2] == ["hostile"]:
    hostile(sys.argv[2])
else:
    main()
