#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/suites/over_tcp.py - the suites over our own TCP: lo is a port

    over_tcp.py [--quick] [NAME ...]     or: make suites-tcp [NAMES="redis nginx"]

    a network namespace -> osf port add lo -> the rules say tcp -> run.py, inside

The other end of each connection is there, too, so both ends take frames from lo.  A
connection moves when it has taken turns and is quiet, so the gates are lower than those of
shared memory: OSF_SUITES_GATE is the share of them, in percent.  Differences that are known
are those of known/NAME.txt and known/NAME-tcp.txt.  Sources must be there already, which
`make suites' gets: the namespace has no network.  Needs root.
"""
import os
import subprocess
import sys

from place import BUILD, HERE

GATE = "1"
RULES = "use tcp tcp_client *:*\nuse tcp tcp_server *:*"
CONF = ("net.ipv4.conf.lo.route_localnet=1", "net.ipv4.conf.lo.accept_local=1",
        "net.ipv4.conf.all.route_localnet=1", "net.ipv4.conf.all.accept_local=1")


def main():
    ns = "osf-suites-%d" % os.getpid()
    inside = ["ip", "netns", "exec", ns]
    osf = os.path.join(BUILD, "osf")
    if os.geteuid() or subprocess.run(["ip", "netns", "add", ns],
                                      stderr=subprocess.DEVNULL).returncode:
        print("skip: no network namespace can be made")
        sys.exit(77)
    try:
        subprocess.run(inside + ["ip", "link", "set", "lo", "up"], check=True)
        subprocess.run(inside + ["sysctl", "-qw", *CONF], check=True)
        if subprocess.run(inside + [osf, "port", "add", "lo"]).returncode:
            sys.exit(77)
        env = dict(os.environ, OSF_RULES=RULES, OSF_SUITES_WIRE="tcp")
        env.setdefault("OSF_SUITES_GATE", GATE)
        run = subprocess.run(inside + [sys.executable, os.path.join(HERE, "run.py"),
                                       *sys.argv[1:]], env=env)
        listed = subprocess.run(inside + [osf, "port", "list"], stdout=subprocess.PIPE)
        print(listed.stdout.decode().strip())
        sys.exit(run.returncode)
    finally:
        subprocess.run(inside + [osf, "port", "del", "lo"], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "netns", "del", ns], stderr=subprocess.DEVNULL)


main()
