#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/port/test_tap_live.py OSF - `osf tap' on a device whose port is in use

redis-server under osf, on a port, serves a client of the kernel.  What the tap writes is read by
tshark: both directions of the server's connections, whole, and named after the program.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time

from test_turns import World, fail, skip

N = 2000
FIELDS = ["frame.packet_flags_direction", "frame.comment", "tcp.port", "_ws.malformed"]


def serve(world):
    proc = world.start("b", ["redis-server", "--port", "6398", "--bind", "10.9.0.2", "--save", "",
                             "--protected-mode", "no"], True)
    ping = world.inside("a", ["redis-cli", "-h", "10.9.0.2", "-p", "6398", "ping"])
    for _ in range(100):
        if subprocess.run(ping, capture_output=True).stdout.strip() == b"PONG":
            return proc
        time.sleep(0.05)
    fail("redis-server does not answer")


def tapped(world, osf, path):
    server = serve(world)
    bench = subprocess.Popen(world.inside("a", ["redis-benchmark", "-h", "10.9.0.2", "-p", "6398",
                                                "-c", "2", "-n", "200000", "-t", "set", "-q"]),
                             stdout=subprocess.DEVNULL)
    try:
        elsewhere = subprocess.run(world.inside("a", ["timeout", "-s", "INT", "1.5", osf, "tap", "vb", "-w",
                                                      path]), capture_output=True, text=True, timeout=60)
        if " 0 frames" not in " " + elsewhere.stderr or "no device 'vb'" not in elsewhere.stderr:
            fail("a device of another namespace: " + elsewhere.stderr)
        return subprocess.run(world.inside("b", [osf, "tap", "vb", "-w", path, "-c", str(N)]),
                              capture_output=True, text=True, timeout=60)
    finally:
        for p in (bench, server):
            p.terminate()
            p.wait(30)


def main():
    if os.geteuid():
        skip("needs root")
    for tool in ("redis-server", "redis-benchmark", "tshark"):
        if not shutil.which(tool):
            skip("no " + tool)
    osf = os.path.abspath(sys.argv[1])
    path = os.path.join(tempfile.mkdtemp(), "live.pcapng")
    world = World(osf)
    try:
        world.open()
        tap = tapped(world, osf, path)
    finally:
        world.close()
    if tap.returncode or "%d frames" % N not in tap.stderr:
        fail("osf tap: %d, %s" % (tap.returncode, tap.stderr))
    options = [word for field in FIELDS for word in ("-e", field)]
    read = subprocess.run(["tshark", "-r", path, "-T", "fields", *options], capture_output=True,
                          text=True, timeout=60)
    said = [line for line in read.stderr.split("\n") if line and "Running as user" not in line]
    frames = [line.split("\t") for line in read.stdout.splitlines()]
    if read.returncode or said or len(frames) != N:
        fail("tshark: %d frames, %s" % (len(frames), said))
    for way, comment, ports, malformed in frames:
        if not comment.startswith("redis-server (") or "6398" not in ports or malformed:
            fail("a frame: %s %s %s %s" % (way, comment, ports, malformed))
    if {frame[0] for frame in frames} != {"0x00000001", "0x00000002"}:
        fail("one direction only")
    print("tap: %d frames of redis-server's connections" % N)


main()
