#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_manual.py - the first example of osf(1) works as it is printed

Its two commands are taken from docs/osf.1 and run by a shell that finds osf along
PATH.  The client must say that its connections went over shared memory.
"""
import os
import re
import socket

import harness


def first_example():
    path = os.path.join(harness.HERE, "..", "..", "docs", "osf.1")
    with open(path) as f:
        text = f.read().split(".SH EXAMPLES")[1]
    block = re.search(r"\.EX\n(.*?)\.EE", text, re.DOTALL).group(1)
    lines = [line.replace("\\-", "-").replace("\\(aq", "'")
             for line in block.splitlines()]
    return [line[2:] for line in lines if line.startswith("$ ")]


def is_free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def main():
    run = harness.Run(__file__, needs=["redis-server", "redis-benchmark"])
    if run.is_kernel or not os.path.exists(os.path.join(run.build, "osf")):
        harness.skip("no osf command")
    server, client = first_example()
    run.need(server.endswith(" &"), server)
    port = int(re.search(r"--port (\d+)", server).group(1))
    if not is_free(port):
        harness.skip("somebody else has port %d" % port)
    path = {"PATH": run.build + ":" + os.environ["PATH"], "OSF_STATS_DIR": ""}
    if run.sanitizer.runtime:
        path["LD_PRELOAD"] = run.sanitizer.runtime
    run.start(["sh", "-c", "exec " + server[:-2]], osf=False, extra=path)
    run.wait_port(port)
    said = run.check(["sh", "-c", client + " 2>&1"], osf=False, extra=path)
    found = re.search(r"(\d+) opened, 0 accepted, (\d+) upgraded", said)
    run.need(found and int(found.group(2)) > 0, said)
    bytes_shm = re.search(r"over shm: (\S+) in", said)
    run.need(bytes_shm and bytes_shm.group(1) != "0", said)
    run.done()


main()
