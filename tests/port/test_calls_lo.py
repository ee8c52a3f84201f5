#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/port/test_calls_lo.py - the scenarios of calls (tests/app) with both ends over a port

    test_calls_lo.py OSF CALLS [PATTERN ...]

A network namespace of its own, in which lo is a port and the rules say tcp.  Each scenario
must print what it prints on the kernel, but for KNOWN.  By default those run that have found
something here, and whose answers do not depend on times; make night-wire runs all.
"""
import os
import subprocess
import sys

from test_turns import RULES, fail, skip

CONF = ["net.ipv4.conf.%s.%s=1" % (dev, name) for dev in ("lo", "all")
        for name in ("route_localnet", "accept_local")]
SOME = ["epoll_nested_oneshot", "process_cancel_pending", "process_sigio*", "process_signal_closes*", "send_nonblock*",
        "send_large"]
# Scenarios that differ, and why: docs/wire.md has more.
KNOWN = {
    "dead_*": "osfd closes the connections of a dead program some moments later",
    "epoll_with_others": "how many events one epoll_wait() returns",
    "many_in_order_*": "the order of events of several connections",
    "send_siocoutq": "the ACK of a program that is away comes up to 80 ms later",
    "opt_linger_nothing_to_send": "the same",
    "errq_reaper": "the same",
    "errq_completion_in_epoll": "a completion is reported twice as an edge",
    "many_clients_at_a_hard_limit": "a connection that has moved needs two descriptors",
    "send_timeo": "a connection that is full goes back to the kernel, which has more room",
    "send_intr": "the same",
    "process_unload": "calls of a program that loads libosf.so late do not come by",
    "process_vfork_stores": "as with shared memory: known_differences.txt",
    "send_half_bad_pointer": "as with shared memory: known_differences.txt",
}
PATIENCE_S = 500


def by_scenario(text):
    parts, name = {}, None
    for line in text.split("\n"):
        if line.startswith("  ") and name:
            parts[name] += "\n" + line
        elif line:
            name = line.split(":")[0]
            parts[name] = line
    return parts


def printed(words, env=None):
    r = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
                       timeout=PATIENCE_S)
    return by_scenario(r.stdout.decode("utf-8", "replace"))


class Lo:
    """A namespace with lo as a port, gone at the end."""

    def __init__(self, osf, calls):
        self.name = "osf-%d-lo" % os.getpid()
        self.osf = osf
        self.calls = calls

    def inside(self, words):
        return ["ip", "netns", "exec", self.name] + words

    def open(self):
        if subprocess.run(["ip", "netns", "add", self.name],
                          stderr=subprocess.DEVNULL).returncode:
            skip("no network namespace can be made")
        subprocess.run(self.inside(["ip", "link", "set", "lo", "up"]), check=True)
        subprocess.run(self.inside(["sysctl", "-qw"] + CONF), check=True)
        r = subprocess.run(self.inside([self.osf, "port", "add", "lo"]),
                           stderr=subprocess.PIPE)
        if r.returncode:
            skip("no port: " + r.stderr.decode().strip())

    def close(self):
        subprocess.run(self.inside([self.osf, "port", "del", "lo"]),
                       stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "netns", "del", self.name], stderr=subprocess.DEVNULL)

    def both(self, pattern):
        words = [self.calls, "--only", pattern, "--not", "@(%s)" % "|".join(KNOWN)]
        env = dict(os.environ, OSF_RULES=RULES)
        env.pop("LD_PRELOAD", None)
        return (printed(self.inside(words)),
                printed(self.inside([self.osf, "run", "--"] + words), env))

    def segments(self):
        r = subprocess.run(self.inside([self.osf, "port", "list"]), stdout=subprocess.PIPE)
        names, lo = (line.split() for line in r.stdout.decode().split("\n")[:2])
        return int(lo[names.index("SEGMENTS")])


def compare(lo, pattern):
    """Return: how many scenarios ran, and those that differ."""
    kernel, osf = lo.both(pattern)
    bad = [name for name in sorted(set(kernel) | set(osf))
           if kernel.get(name) != osf.get(name)]
    for name in bad:
        print("kernel: %s\n   osf: %s" % (kernel.get(name), osf.get(name)))
    return len(kernel), bad


def main():
    osf, calls = (os.path.abspath(p) for p in sys.argv[1:3])
    n, bad = 0, []
    if os.geteuid():
        skip("needs root")
    lo = Lo(osf, calls)
    try:
        lo.open()
        for pattern in sys.argv[3:] or SOME:
            ran, differ = compare(lo, pattern)
            n += ran
            bad += differ
        print("%d scenarios over lo, %d segments by our TCP" % (n, lo.segments()))
        if bad:
            fail("not as on the kernel: " + ", ".join(bad))
        if not n or lo.segments() < 10 * n:
            fail("nothing went by our TCP")
    finally:
        lo.close()


if __name__ == "__main__":
    main()
