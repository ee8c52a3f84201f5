#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_core_dump.py - osf's memory is in no core dump

A ring is hundreds of times as large as what is in use of it, and the kernel writes memory
files and shared memory whole.  So each such mapping of a program under osf is left out:
its VmFlags in /proc/PID/smaps have "dd".
"""
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
import harness  # noqa: E402

TURNS = 40
SMALL_KB = 64


# --- inside a program under osf ---

def mappings():
    """Of this process: (first line of smaps, kilobytes, flags)."""
    head, size = "", 0
    with open("/proc/self/smaps") as f:
        for line in f:
            words = line.split()
            if "-" in words[0] and ":" not in words[0]:
                head = line.strip()
            elif words[0] == "Size:":
                size = int(words[1])
            elif words[0] == "VmFlags:":
                yield head, size, words[1:]


def program():
    listener = socket.create_server(("127.0.0.1", 0))
    a = socket.create_connection(listener.getsockname())
    b = listener.accept()[0]
    for _ in range(TURNS):
        a.sendall(b"x")
        b.recv(1)
        b.sendall(b"y")
        a.recv(1)
    for head, size, flags in mappings():
        if " rw-s " in head or " r--s " in head:
            print("%s %d kB %s" % ("out" if "dd" in flags or size <= SMALL_KB else "IN",
                                   size, head))


# --- outside ---

def main():
    run = harness.Run(__file__)
    if run.is_kernel:
        harness.skip("the memory is osf's")
    said = run.check([sys.executable, os.path.abspath(__file__), "program"], eager=True)
    lines = said.strip().split("\n")
    run.need(any("osf-segment" in line for line in lines), "no segment in %r" % lines)
    dumped = [line for line in lines if line.startswith("IN")]
    run.need(not dumped, "in a dump:\n" + "\n".join(dumped))
    run.expect_offloaded(1)
    run.done()


if sys.argv[1:2] == ["program"]:
    program()
else:
    main()
