#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/xlio/test_env.py - variables of libxlio

    test_env.py BUILD

Those that have a counterpart are read, unless that is set; the others are named in the
log, each once.
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
from sanitizer import Sanitizer  # noqa: E402

SHOW = """
import socket, threading
l = socket.create_server(("127.0.0.1", 0))
c = socket.create_connection(l.getsockname())
s = l.accept()[0]
for i in range(20):
    c.send(b"x"); s.recv(1); s.send(b"y"); c.recv(1)
"""


class Runs:
    def __init__(self, build, top):
        lib = os.path.join(os.path.abspath(build), "src", "libosf.so")
        self.sanitizer = Sanitizer(build, os.path.join(top, "reports"))
        self.preload = self.sanitizer.preload(lib)
        self.bad = 0

    def said(self, program=SHOW, **env):
        """Standard error of a program that talks to itself."""
        clean = {k: v for k, v in os.environ.items()
                 if not k.startswith(("OSF_", "XLIO_", "LD_"))}
        got = subprocess.run([sys.executable, "-c", program], timeout=60, text=True,
                             stderr=subprocess.PIPE,
                             env=dict(clean, LD_PRELOAD=self.preload,
                                      **self.sanitizer.env(), **env))
        return got.stderr if not got.returncode else "exit %d" % got.returncode

    def need(self, ok, what, text=""):
        if not ok:
            self.bad += 1
            print("not so: %s: %s" % (what, text))


def test_log(r, top):
    r.need(r.said() == "", "silent unless asked")
    for level in ("0", "none", "panic", "-1"):
        r.need(r.said(XLIO_TRACELEVEL=level) == "", "level %s is silence" % level)
    for level in ("3", "info", "details", "4"):
        text = r.said(XLIO_TRACELEVEL=level)
        r.need("info: ready" in text and "dbg:" not in text, level, text)
    for level in ("1", "error", "2", "warn"):
        r.need("info:" not in r.said(XLIO_TRACELEVEL=level), level)
    for level in ("5", "debug", "all", "func"):
        r.need("dbg:" in r.said(XLIO_TRACELEVEL=level), level)
    r.need("info:" not in r.said(XLIO_TRACELEVEL="5", OSF_LOG="err"), "ours goes first")
    text = r.said(XLIO_TRACELEVEL="info", XLIO_LOG_FILE=top + "/log.%d")
    names = [name for name in os.listdir(top) if name.startswith("log.")]
    r.need(text == "" and len(names) == 1 and names[0][4:].isdigit(), "a log file", names)


def test_others(r):
    text = r.said(OSF_LOG="info", XLIO_TX_BUFS="1", XLIO_SPEC="latency", XLIO_="",
                  XLIO_RX_POLL="0", XLIO_MEMORY_LIMIT="2GB", XLIO_TRACELEVEL="1")
    for name in ("XLIO_TX_BUFS", "XLIO_SPEC"):
        r.need(text.count(name + " has no effect") == 1, name, text)
    for name in ("XLIO_RX_POLL", "XLIO_MEMORY_LIMIT", "XLIO_TRACELEVEL"):
        r.need(name not in text, name, text)
    r.need("has no effect" not in r.said(OSF_LOG="warn", XLIO_SPEC="latency"),
           "only at info")


def test_sockets(r, top):
    moved = "peer takes part"
    always = {"OSF_LOG": "dbg", "OSF_UPGRADE_TURNS": "0"}
    r.need(moved in r.said(**always), "moved", r.said(**always))
    r.need(moved not in r.said(XLIO_OFFLOADED_SOCKETS="0", **always), "left")
    r.need(moved in r.said(XLIO_OFFLOADED_SOCKETS="1", **always), "not left")
    with open(top + "/rules", "w") as f:
        f.write("application-id * mine\nuse os tcp_client *:*\nuse os tcp_server *:*\n")
    rules = {"XLIO_CONFIG_FILE": top + "/rules"}
    r.need(moved in r.said(**rules, **always), "rules of another application")
    r.need(moved not in r.said(XLIO_APPLICATION_ID="mine", **rules, **always), "rules")
    r.need(moved in r.said(XLIO_APPLICATION_ID="mine", XLIO_USE_NEW_CONFIG="1", **rules,
                           **always), "JSON is no rule file")
    r.need(moved in r.said(XLIO_CONFIG_FILE=top + "/none", **always), "no rule file")
    r.need(moved in r.said(XLIO_RX_POLL="-1", **always), "a wait for ever")


def main():
    with tempfile.TemporaryDirectory() as top:
        r = Runs(sys.argv[1], top)
        test_log(r, top)
        test_others(r)
        test_sockets(r, top)
        for text in r.sanitizer.reports():
            r.need(False, "no report of a sanitizer", text)
    sys.exit(1 if r.bad else 0)


main()
