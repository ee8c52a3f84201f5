#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/port/test_tap.py OSF TAP_SOURCE - `osf tap' writes what ports show, and tshark reads it

By process, by device, to a pipe.  Each frame names its program and has its direction; tshark has
no complaint.  Who names a process without a port is told so.
"""
import os
import shutil
import subprocess
import sys
import tempfile

OSF, SOURCE = (os.path.abspath(path) for path in sys.argv[1:3])
N = 40
DEV = "tap%d" % (os.getpid() % 100000)
FIELDS = ["frame.interface_name", "frame.interface_description", "frame.packet_flags_direction",
          "frame.comment", "tcp.flags.syn", "_ws.malformed", "tcp.analysis.flags",
          "tcp.checksum.status"]


def source(dev=DEV):
    p = subprocess.Popen([SOURCE, dev, str(N)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         text=True)
    assert p.stdout.readline() == "ready\n"
    return p


def end(p):
    p.stdin.close()
    assert p.wait(30) == 0


def tap(*args):
    got = subprocess.run([OSF, "tap", *args], capture_output=True, text=True, timeout=60)
    return got.returncode, got.stderr


def frames(path):
    """What tshark sees, a dictionary for each frame."""
    options = [word for field in FIELDS for word in ("-e", field)]
    read = subprocess.run(["tshark", "-r", path, "-o", "tcp.check_checksum:TRUE", "-T", "fields",
                           *options], capture_output=True, text=True, timeout=60)
    said = [line for line in read.stderr.split("\n") if line and "Running as user" not in line]
    assert read.returncode == 0 and not said, said
    return [dict(zip(FIELDS, line.split("\t"))) for line in read.stdout.splitlines()]


def check(seen, programs):
    assert len(seen) == N * len(programs), len(seen)
    for frame in seen:
        assert frame["frame.comment"] in programs, frame
        assert frame["frame.interface_description"] == frame["frame.comment"], frame
        assert frame["frame.interface_name"] == DEV, frame
        assert not frame["_ws.malformed"] and not frame["tcp.analysis.flags"], frame
        assert frame["tcp.checksum.status"] == "1", frame
    for name in programs:
        own = [f for f in seen if f["frame.comment"] == name]
        ways = [f["frame.packet_flags_direction"] for f in own]
        assert ways == ["0x00000002", "0x00000001"] * (N // 2), ways
        assert [f["tcp.flags.syn"] for f in own].count("1") == 2


def name_of(p):
    return "tap_source (%d)" % p.pid


def main():
    os.chdir(tempfile.mkdtemp())
    one = source()
    status, said = tap(str(one.pid), "-w", "one.pcapng", "-c", str(N))
    assert status == 0 and "%d frames, 0 missed" % N in said, said
    if not shutil.which("tshark"):
        print("skip: tshark is not there")
        end(one)
        return 77
    check(frames("one.pcapng"), [name_of(one)])

    # The device of two programs, and another one's.
    two, three, other = source(), source(), source("tapother")
    status, said = tap(DEV, "-w", "two.pcapng", "-c", str(2 * N))
    assert status == 0, said
    check(frames("two.pcapng"), [name_of(two), name_of(three)])
    for p in (one, two, three):
        end(p)

    # A process that ends ends the capture, which has what was shown last.
    last = source()
    writer = subprocess.Popen([OSF, "tap", str(last.pid), "-w", "-"], bufsize=0,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    head = writer.stdout.read(200)
    end(last)
    rest, said = writer.communicate(timeout=60)
    assert writer.returncode == 0, said
    with open("last.pcapng", "wb") as f:
        f.write(head + rest)
    check(frames("last.pcapng"), [name_of(last)])

    status, said = tap(str(os.getpid()), "-w", "none.pcapng")
    assert status == 1 and "no such process has a port" in said, said
    assert tap("-c", "0", DEV)[0] == 2 and tap()[0] == 2
    assert tap(str(other.pid), "-w", "/nowhere/file")[0] == 1
    end(other)
    print("tap: by process, by device, to a pipe")
    return 0


sys.exit(main())
