#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/suites/sockperf_api.py - sockperf, built for VMA's extra API against our header

    sockperf_api.py [--quick]

Debian's package is built without that API, so Debian's source is built with it.  Ping-pong
and throughput, TCP and UDP, in each of the ways that the API adds: a filter on receiving,
zero copy, dummy sends, SocketXtreme.  Each must end, and lose nothing.
"""
import os
import re
import sys

from place import HERE, harness
from sources import built, need_program

ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
PLAIN = re.compile(r"\x1b\[[0-9;]*m")
LOST = re.compile(r"dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0")

# What it is called, and what server and client add.
WAYS = [
    ("filter", ["--vmarxfiltercb"], []),
    ("filter, epoll", ["--vmarxfiltercb", "-F", "epoll"], ["--vmarxfiltercb"]),
    ("zero copy", ["--vmazcopyread"], ["--vmazcopyread"]),
    ("zero copy, poll", ["--vmazcopyread", "-F", "poll"], ["--vmazcopyread"]),
    ("dummy sends", [], ["--dummy-send", "20000"]),
    ("SocketXtreme", ["-F", "socketxtreme"], ["-F", "socketxtreme"]),
]


def built_sockperf():
    for program, package in (("autoreconf", "autoconf"), ("automake", "automake"),
                             ("libtoolize", "libtool"), ("g++", "g++"), ("make", "make")):
        need_program(program, package)
    tree = built("sockperf", [
        ["autoreconf", "--install", "--force"],
        ["./configure", "--disable-doc", "--enable-vma-api=" + ROOT],
        ["make", "-j2"]])
    return os.path.join(tree, "sockperf")


def client(run, what, how, sockperf, args):
    text = PLAIN.sub("", run.check([sockperf, what] + args, extra=how, timeout=60))
    run.need("BandWidth" in text if what == "throughput" else LOST.search(text),
             "sockperf %s %s:\n%s" % (what, args, text))


def test_way(run, sockperf, way, tcp):
    name, server_args, client_args = way
    print(name, "TCP" if tcp else "UDP", flush=True)
    how = {"VMA_SOCKETXTREME": "1"} if "socketxtreme" in server_args else {}
    port = harness.free_port()
    at = ["-i", "127.0.0.1", "-p", str(port)] + (["--tcp"] if tcp else [])
    server = run.start([sockperf, "server"] + at + server_args, extra=how)
    if tcp and not how:
        run.wait_port(port)
    client(run, "ping-pong", how, sockperf, at + client_args + ["-t", "1", "--mps", "1000"])
    client(run, "throughput", how, sockperf, at + client_args + ["-t", "1", "-m", "1400"])
    run.need(server.popen.poll() is None, "the server ended")
    run.stop(server, harness.signal.SIGINT, 5)


def main():
    run = harness.Run(__file__)
    sockperf = built_sockperf()
    for way in WAYS:
        for tcp in (True, False):
            test_way(run, sockperf, way, tcp)
    run.done()


if __name__ == "__main__":
    sys.exit(main())
