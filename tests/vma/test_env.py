#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/vma/test_env.py - variables of libvma

    test_env.py BUILD

Those that have a counterpart are read, unless that is set or libxlio's; each that has no
effect is named in the log, and all are listed by `osf vma-env`.
"""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
from sanitizer import Sanitizer  # noqa: E402

TALK = """
import os, socket, sys
l = socket.create_server(("127.0.0.1", 0))
c = socket.create_connection(l.getsockname())
s = l.accept()[0]
for i in range(20):
    c.send(b"x"); s.recv(1); s.send(b"y"); c.recv(1)
if "SAY_NODELAY" in os.environ:
    print("nodelay", *[e.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for e in (l, c, s)],
          file=sys.stderr)
"""
MOVED = "peer takes part"
LEFT = "fd 4: a rule says os"
bad = 0


def need(ok, what, text=""):
    global bad
    if not ok:
        bad += 1
        print("not so: %s: %s" % (what, text))


def said(build, top, prefix=(), **env):
    """Standard error of a program that talks to itself; started by @prefix."""
    sanitizer = Sanitizer(build, os.path.join(top, "reports"))
    clean = {k: v for k, v in os.environ.items()
             if not k.startswith(("OSF_", "XLIO_", "VMA_", "LD_"))}
    lib = os.path.join(os.path.abspath(build), "src", "libosf.so")
    got = subprocess.run([*prefix, sys.executable, "-c", TALK], timeout=60, text=True,
                         stderr=subprocess.PIPE,
                         env=dict(clean, LD_PRELOAD=sanitizer.preload(lib),
                                  OSF_UPGRADE_TURNS="2", **sanitizer.env(), **env))
    return got.stderr if not got.returncode else "exit %d" % got.returncode


def test_log(build, top):
    need(said(build, top, VMA_TRACELEVEL="none") == "", "silence")
    need("info: ready" in said(build, top, VMA_TRACELEVEL="info"), "info")
    text = said(build, top, VMA_TRACELEVEL="DEBUG")
    need("dbg:" in text and "HW Dummy send support for QP = 0\n" in text, "DEBUG", text)
    need("HW Dummy" not in said(build, top, VMA_TRACELEVEL="info"), "DEBUG alone")
    text = said(build, top, VMA_TRACELEVEL="info", VMA_LOG_DETAILS="3")
    need(re.search(r"^osf\[\d+/\d+\] \d+\.\d{6} info: ready", text, re.M), "details", text)
    need("info:" not in said(build, top, VMA_TRACELEVEL="5", XLIO_TRACELEVEL="1"),
         "libxlio's goes first")
    text = said(build, top, VMA_TRACELEVEL="info", VMA_LOG_FILE=top + "/log.%d")
    names = [n for n in os.listdir(top) if n.startswith("log.")]
    need(text == "" and len(names) == 1 and names[0][4:].isdigit(), "a log file", names)


def test_effect(build, top):
    text = said(build, top, OSF_LOG="info", VMA_SPEC="latency", VMA_RX_POLL="10",
                VMA_SOCKETXTREME="1", VMA_LOG_COLORS="1")
    need("VMA_LOG_COLORS has no effect" in text, "named", text)
    need(text.count("has no effect") == 1, "not named", text)
    moved = said(build, top, OSF_LOG="dbg")
    left = said(build, top, OSF_LOG="dbg", VMA_OFFLOADED_SOCKETS="0")
    rules = os.path.join(top, "libvma.conf")
    with open(rules, "w") as f:
        f.write("# as libvma's\nuse os tcp_server *:*\nuse os tcp_client *:*\n")
    ruled = said(build, top, OSF_LOG="dbg", VMA_CONFIG_FILE=rules)
    with open(rules, "w") as f:
        f.write("application-id python3 mine\nuse os tcp_server *:*\nuse os tcp_client *:*\n")
    other = said(build, top, OSF_LOG="dbg", VMA_CONFIG_FILE=rules)
    need(MOVED in moved and LEFT not in moved, "offloaded without a word", moved)
    need(MOVED not in left and LEFT in left, "VMA_OFFLOADED_SOCKETS=0", left)
    need(MOVED not in ruled and LEFT in ruled, "rules", ruled)
    need(MOVED in other and LEFT not in other, "rules for another id", other)
    text = said(build, top, SAY_NODELAY="1", VMA_TCP_NODELAY="0")
    need("nodelay 0 0 0" in text, "TCP_NODELAY as ever", text)
    text = said(build, top, SAY_NODELAY="1", VMA_TCP_NODELAY="1")
    need(re.search("nodelay [1-9] [1-9] [1-9]", text), "VMA_TCP_NODELAY=1", text)
    text = said(build, top, SAY_NODELAY="1", XLIO_TCP_NODELAY="1", VMA_TCP_NODELAY="0",
                OSF_LOG="info")
    need(re.search("nodelay [1-9] [1-9] [1-9]", text) and "has no effect" not in text,
         "XLIO_TCP_NODELAY=1", text)
    text = said(build, top, SAY_NODELAY="1", XLIO_TCP_NODELAY="0", VMA_TCP_NODELAY="1")
    need("nodelay 0 0 0" in text, "libxlio's goes first", text)
    mine = said(build, top, OSF_LOG="dbg", VMA_CONFIG_FILE=rules,
                VMA_APPLICATION_ID="mine")
    need(MOVED not in mine and LEFT in mine, "VMA_APPLICATION_ID", mine)
    need(MOVED in said(build, top, OSF_LOG="dbg", VMA_CONFIG_FILE=top + "/none"),
         "a file that is not there")


# A /etc of the test's own, in a mount namespace of its own.
ETC = """
mount --make-rprivate / && mount -t tmpfs none "$0" && mkdir "$0/upper" "$0/work" &&
mount -t overlay none -o "lowerdir=/etc,upperdir=$0/upper,workdir=$0/work" /etc || exit 77
rm -f /etc/osf.conf /etc/libvma.conf
eval "$1"
shift
exec "$@"
"""


def test_place(build, top):
    """/etc/libvma.conf is read, unless /etc/osf.conf is there."""
    etc = os.path.join(top, "etc")
    os.mkdir(etc)

    def in_etc(script):
        return said(build, top, prefix=("unshare", "-m", "sh", "-c", ETC, etc, script),
                    OSF_LOG="dbg")

    text = in_etc(":")
    if os.geteuid() or text == "exit 77":
        print("no mount namespace: /etc/libvma.conf is not tried")
        return
    write = "printf 'use os tcp_%%s *:*\\n' server client > /etc/%s"
    need(MOVED in text, "no rules", text)
    ruled = in_etc(write % "libvma.conf")
    need(MOVED not in ruled and LEFT in ruled, "/etc/libvma.conf", ruled)
    first = in_etc(write % "libvma.conf" + "; : > /etc/osf.conf")
    need(MOVED in first and LEFT not in first, "/etc/osf.conf goes first", first)


def test_list(build):
    text = subprocess.run([os.path.join(build, "tools", "osf", "osf"), "vma-env"], text=True,
                          stdout=subprocess.PIPE, check=True, timeout=30).stdout
    names = [line for line in text.split("\n") if line and line[0] != " "]
    need(len(names) == len(set(names)) > 90, "each once", len(names))
    need(all(n.startswith("VMA_") for n in names), "names", names)
    need("VMA_RX_POLL\n" in text and "    as OSF_SPIN_US\n" in text, "a counterpart")


def main():
    build = sys.argv[1]
    with tempfile.TemporaryDirectory() as top:
        test_log(build, top)
        test_effect(build, top)
        test_place(build, top)
        test_list(build)
    sys.exit(bad > 0)


main()
