#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/port/test_interop.py - our own TCP and the kernel's, over wires of many kinds

    test_interop.py OSF TURNS RELAY [MBYTES [SEED]]

Two ends take turns and compare each byte (turns.c), one of them or both under osf, in both
roles, over IPv4 and IPv6.  Each kind of wire is a line of KINDS: the MTU, whether devices
split, join and sum up frames, and which options of TCP the kernels offer.  Then a relay
between the devices loses, doubles, delays and reorders.  The ends under osf go back to the
kernel every 50 to 500 ms, and move again.  MBYTES are those of all streams together.
"""
import os
import shutil
import subprocess
import sys

import test_turns
from test_turns import PLACES, World, fail, skip, turns

# Name, MTU, offloads, what the kernels do not offer.
KINDS = (("plain", 1500, True, ()),
         ("no offloads", 1500, False, ()),
         ("MTU 9000", 9000, True, ()),
         ("MTU 9000, no offloads", 9000, False, ()),
         ("no timestamps", 1500, True, ("tcp_timestamps",)),
         ("no SACK", 1500, True, ("tcp_sack",)),
         ("no window scaling", 1500, True, ("tcp_window_scaling",)),
         ("none of them", 9000, False, ("tcp_timestamps", "tcp_sack", "tcp_window_scaling")))
# Of 10,000 frames: lost, doubled, reordered; the delay in us.
WIRES = (("1 % lost", 100, 0, 0, 200), ("doubled", 0, 500, 0, 200),
         ("reordered", 0, 0, 500, 200), ("all of it", 50, 50, 100, 500))
OPTIONS = ("tcp_timestamps", "tcp_sack", "tcp_window_scaling")
STREAMS = (("10.9.0.1", "a", ("listen",)), ("10.9.0.1", "a", ("connect",)),
           ("10.9.0.2", "b", ("listen", "connect")), ("fd09::2", "b", ("listen",)),
           ("fd09::2", "b", ("connect",)), ("fd09::1", "a", ("listen", "connect")))


class Relayed(World):
    """With a namespace between the two, where relay.c runs."""

    def name(self, place):
        return "osf-%d-%s-r" % (os.getpid(), place)

    def join(self):
        self.must(["ip", "netns", "add", self.name("r")])
        for place in PLACES:
            self.must(["ip", "link", "add", "v" + place, "netns", self.name(place), "type",
                       "veth", "peer", "name", "r" + place, "netns", self.name("r")])
            self.must(["ip", "-n", self.name("r"), "link", "set", "r" + place, "up"])

    def close(self):
        World.close(self)
        subprocess.run(["ip", "netns", "del", self.name("r")], stderr=subprocess.DEVNULL)

    def relay(self, program, numbers, seed):
        words = [program, "ra", "rb"] + [str(n) for n in numbers] + [str(seed)]
        proc = subprocess.Popen(self.inside("r", words), stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if proc.stdout.readline() != b"relays\n":
            fail("no relay: " + proc.communicate()[0].decode())
        return proc


def offloads(world, place, are_on):
    word = "on" if are_on else "off"
    dev = "v" + place
    words = ["ethtool", "-K", dev]
    for what in ("tso", "gso", "gro", "tx", "rx"):
        subprocess.run(world.inside(place, words + [what, word]), stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)


def be(world, mtu, are_on, lacks):
    for place in PLACES:
        world.must(world.inside(place, ["ip", "link", "set", "v" + place, "mtu", str(mtu)]))
        offloads(world, place, are_on)
        for option in OPTIONS:
            world.must(world.inside(place, ["sysctl", "-qw", "net.ipv4.%s=%d" %
                                            (option, option not in lacks)]))


def streams(world, program, mbytes, seed):
    for host, listener, who in STREAMS:
        turns(world, program, listener, host, who, mbytes, seed)
        seed += 1
    return seed


def kinds(osf, program, mbytes, seed):
    if not shutil.which("ethtool"):
        skip("no ethtool")
    world = World(osf)
    try:
        world.open()
        for name, mtu, are_on, lacks in KINDS:
            be(world, mtu, are_on, lacks)
            print("--- " + name)
            seed = streams(world, program, mbytes, seed)
    finally:
        world.close()
    return seed


def wires(osf, program, relay, mbytes, seed):
    world = Relayed(osf)
    try:
        world.open()
        be(world, 1500, False, ())
        for name, *numbers in WIRES:
            print("--- " + name)
            proc = world.relay(relay, numbers, seed)
            seed = streams(world, program, mbytes, seed)
            print(proc.communicate(b"\n", timeout=30)[0].decode().strip())
    finally:
        world.close()


def main():
    osf, program, relay = (os.path.abspath(p) for p in sys.argv[1:4])
    total = int(sys.argv[4]) if len(sys.argv) > 4 else 200
    seed = int(sys.argv[5]) if len(sys.argv) > 5 else int(os.environ.get("OSF_TEST_SEED", "1"))
    if os.geteuid():
        skip("needs root")
    print("seed %d" % seed)
    test_turns.MOVE_MS = "500"
    mbytes = -(-total // (len(STREAMS) * (len(KINDS) + len(WIRES))))
    test_turns.PATIENCE_S += 4 * mbytes
    seed = kinds(osf, program, mbytes, seed % 1000000)
    wires(osf, program, relay, mbytes, seed)


main()
