#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/verbs/test_bench_rdma.py - `osf bench rdma` measures the software RDMA device, and nothing else

    test_bench_rdma.py LIBRARIES

No figure is judged.  The streams run once, on the kernel and on the device; without UCX, whose
programs spin on both cores.  Then a program that prints figures, and has moved nothing, is
found out; what is missing is named.

LIBRARIES: the folder with libosf.so
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

from programs import OSF, need

PATIENCE_S = 200
STREAMS = {"rdma-write-bw": "ib_write_bw", "rdma-read-bw-cma": "ib_read_bw"}
NAMES = set(STREAMS) | {"rdma-send-lat", "rdma-write-lat", "rdma-write-lat-cma", "rdma-read-lat-cma",
                        "rdma-atomic-lat", "rdma-send-rate", "rdma-idle-memory", "roce-send-lat", "roce-send-bw"}
# The server listens, as perftest's does, and ends with the client's connection.
LIAR = """#!%s
import socket, sys
port = int(sys.argv[sys.argv.index("-p") + 1])
if sys.argv[-1] == "127.0.0.1":
    socket.create_connection(("127.0.0.1", port)).close()
    print(" #bytes #iterations peak average rate\\n 1048576 1000 20000 20000 0.02")
else:
    with socket.create_server(("127.0.0.1", port)) as s:
        s.accept()
""" % sys.executable


def bench(path, *words):
    got = subprocess.run([OSF, "bench", "--json", "-n", "1", "-t", "0.1", *words], text=True,
                         env=dict(os.environ, PATH=path), stdout=subprocess.PIPE, timeout=PATIENCE_S)
    return {b["name"]: b for b in json.loads(got.stdout)["benches"]}


def check(what, ok, why):
    print("%-4s %s" % ("ok" if ok else "FAIL", what), flush=True)
    if not ok:
        print("  ", why)
        sys.exit(1)


def measures(folder):
    for program in STREAMS.values():
        os.symlink(shutil.which(program), os.path.join(folder, program))
    got = bench(folder, *STREAMS)
    b = bench(os.environ["PATH"], "rdma-idle-memory")["rdma-idle-memory"]
    check("rdma-idle-memory: at most 16 KB", b["result"] == "ok", b)
    for name in STREAMS:
        b = got[name]
        check("%s: %s" % (name, b["result"]), b["result"] in ("ok", "not judged") and
              all(b[side]["median"] > 0 for side in ("kernel", "osf")), b)


def finds_out_who_moves_nothing(folder):
    path = os.path.join(folder, "ib_write_bw")
    with open(path, "w") as f:
        f.write(LIAR)
    os.chmod(path, 0o755)
    b = bench(folder, "rdma-write-bw")["rdma-write-bw"]
    check("a program that moved nothing", b["result"] == "not offloaded" and "osf0" in b["note"], b)


def names_what_is_missing(folder, libraries):
    got = bench(folder, "rdma")
    check("every benchmark of the group", set(got) == NAMES, sorted(got))
    check("no perftest", all(b["result"] == "skipped" and "perftest" in b["note"]
                             for name, b in got.items() if name != "rdma-idle-memory"), got)
    lib = os.path.join(folder, "libosf.so")
    shutil.copy(os.path.join(libraries, "libosf.so"), lib)
    b = bench(os.environ["PATH"], "--lib", lib, "rdma-write-bw")["rdma-write-bw"]
    check("no device", b["result"] == "skipped" and "libosf-verbs.so" in b["note"], b)


def main():
    libraries = os.path.abspath(sys.argv[1])
    need("ib_write_bw", "perftest")
    for test in (lambda folder: names_what_is_missing(folder, libraries), finds_out_who_moves_nothing, measures):
        with tempfile.TemporaryDirectory() as folder:
            test(folder)


main()
