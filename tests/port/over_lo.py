# SPDX-License-Identifier: MIT
"""tests/port/over_lo.py - runs a program over our own TCP on lo, for tests of other folders

The program gets a network namespace of its own, in which lo is a port.  It takes root.
"""
import os
import re
import subprocess

RULES = "use tcp tcp_client *:*; use tcp tcp_server *:*"
# Loopback addresses reach a port on lo only with these (docs/wire.md).
LO = "ip link set lo up && sysctl -qw %s && exec \"$@\"" % " ".join(
    "net.ipv4.conf.%s.%s=1" % (of, what) for of in ("lo", "all")
    for what in ("accept_local", "route_localnet"))


def may_run():
    return not os.geteuid() and not subprocess.run(["unshare", "-n", "true"]).returncode


def words(command, build, more=()):
    """Return: the command over our own TCP; @more: options of osf run."""
    osf = os.path.join(os.path.abspath(build), "osf")
    return ["unshare", "-n", "sh", "-c", LO, "sh", osf, "run", "--port", "lo", *more,
            "--"] + command


def run(command, env, build, limit):
    """Return: the exit status; 1 if nothing has moved."""
    got = subprocess.run(words(command, build, ["--stats"]), env=dict(env, OSF_RULES=RULES),
                         timeout=limit, text=True, stderr=subprocess.PIPE)
    print(got.stderr)
    moved = re.search(r"([0-9.]+)k? upgraded", got.stderr)
    if not moved or not float(moved[1]):
        print("no connection has moved to our own TCP")
        return 1
    return got.returncode
