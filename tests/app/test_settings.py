#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_settings.py - what a preloaded program does with settings that are wrong

Each case is a small program under osf, with LD_PRELOAD: it prints why a socket of
its own runs where it runs, read from its statistics.  A wrong setting must cost it
one line on standard error and nothing else.
"""
import glob
import os
import socket
import sys

import harness


# --- inside a program under osf ---

def own_segment():
    paths = glob.glob(os.path.join(os.environ["OSF_STATS_DIR"],
                                   "%d.*.osf" % os.getpid()))
    return harness.Segment(sorted(paths)[-1]) if paths else None


def show_reason():
    """The reason of a socket, or "off" in a program that osf leaves alone."""
    sock = socket.socket()
    segment = own_segment()
    if segment is None:
        print("off")
        return
    names = harness.reason_names()
    print([names[s.reason] for s in segment.socks if s.fd == sock.fileno()][0])


# --- outside ---

def outcome(run, env):
    """Return: what the program printed, and the lines of its warnings."""
    err = run.path("stderr")
    out = run.check(["sh", "-c", 'exec "$@" 2>"$0"', err, sys.executable,
                     os.path.abspath(__file__), "program"], extra=env)
    with open(err) as f:
        return out.strip(), [line for line in f if "osf" in line]


def expect(run, what, env, word, *warnings):
    """Each warning once; the shell in between has its own standard error."""
    got, lines = outcome(run, env)
    run.need(got == word, "%s: %s, not %s; %r" % (what, got, word, lines))
    run.need(len(lines) == len(warnings), "%s: %d warnings: %r" %
             (what, len(lines), lines))
    for warning in warnings:
        run.need(sum(warning in line for line in lines) == 1,
                 "%s: %r is not in %r" % (what, warning, lines))


def test_rules(run):
    bad = run.path("bad.conf")
    with open(bad, "w") as f:
        f.write("use os tcp_client *:80\nuse os tcp_clyent *:81\n")
    expect(run, "a file with a mistake", {"OSF_CONFIG_FILE": bad}, "RULES",
           bad + ":2:8: expected a role")
    expect(run, "OSF_RULES with a mistake", {"OSF_RULES": "use"}, "RULES",
           "OSF_RULES:1:4: expected a provider")
    expect(run, "a file that is not there", {"OSF_CONFIG_FILE": "/no/such"},
           "RULES", "/no/such cannot be read")
    expect(run, "an unknown provider", {"OSF_RULES": "use oss tcp_client *:*"},
           "RULES", "os, inet, osf, vma, xlio, shm, tcp, sdp, sa")
    expect(run, "good rules", {"OSF_RULES": "use os tcp_client *:*; "
                               "use os tcp_server *:*"}, "RULE")


def test_disable(run):
    for value in ("0", "", "no", "off", "false"):
        expect(run, "OSF_DISABLE=%s" % value, {"OSF_DISABLE": value}, "NONE")
    for value in ("1", "yes", "on", "true"):
        expect(run, "OSF_DISABLE=%s" % value, {"OSF_DISABLE": value}, "off")
    expect(run, "OSF_DISABLE=perhaps", {"OSF_DISABLE": "perhaps"}, "off",
           "OSF_DISABLE is 'perhaps', where 0 or 1 is expected")


WRONG = [("OSF_SHM", "2"), ("OSF_SPIN_US", "-1"), ("OSF_SPIN_US", "fast"),
         ("OSF_UPGRADE_PINGPONGS", "5 times"), ("OSF_UPGRADE_PINGPONGS", "4294967296"),
         ("OSF_UPGRADE_TURNS", "5 times"),  # its older name
         ("OSF_UPGRADE_BYTES", "1t"), ("OSF_RING", "1k"), ("OSF_RING", "2g"),
         ("OSF_IO_URING", "file"), ("OSF_ALLOW_UIDS", "root"),
         ("OSF_ALLOW_UIDS", "1,,2"), ("OSF_MODULES", "/no/such.so")]
RIGHT = [("OSF_SHM", "1"), ("OSF_SPIN_US", "0"), ("OSF_UPGRADE_PINGPONGS", "0x10"),
         ("OSF_UPGRADE_BYTES", "1M"), ("OSF_RING", "16k"), ("OSF_RING", "1g"),
         ("OSF_IO_URING", "files"), ("OSF_ALLOW_UIDS", "0,1000"),
         ("OSF_MODULES", ""), ("OSF_RING", ""), ("OSF_APPLICATION_ID", "x")]


def test_values(run):
    for name, value in WRONG:
        expect(run, "%s=%s" % (name, value), {name: value}, "NONE", name)
    for name, value in RIGHT:
        expect(run, "%s=%s" % (name, value), {name: value}, "NONE")
    expect(run, "OSF_LOG=loud", {"OSF_LOG": "loud", "OSF_LOG_FILE":
                                 run.path("log")}, "NONE", "OSF_LOG is 'loud'")
    expect(run, "a log that cannot be written", {"OSF_LOG": "info",
           "OSF_LOG_FILE": "/no/such"}, "NONE", "OSF_LOG_FILE")
    expect(run, "statistics that cannot be written",
           {"OSF_STATS_DIR": "/no/such"}, "off", "OSF_STATS_DIR")


def main():
    run = harness.Run(__file__)
    if run.is_kernel:
        harness.skip("the settings are osf's")
    if os.environ.get("OSF_TEST_VIA") == "osf":
        harness.skip("osf run refuses some of them before the program starts")
    test_rules(run)
    test_disable(run)
    test_values(run)
    run.done()


if sys.argv[1:] == ["program"]:
    show_reason()
else:
    main()
