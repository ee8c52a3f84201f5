#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/verbs/run_programs.py - unmodified verbs programs on the software RDMA device

    run_programs.py pingpong|perftest|sizes [PATTERN]

Server and client run under `osf run`.  A program passes if both ends exit with 0, and if
the counters that the device writes at the end (OSF_RDMA_COUNTERS) say that it moved at
least the bytes or operations that the program asked for: a run over a real device fails.
An unreliable connection loses messages when the receiver gets no core for a while; the
device counts each that it drops, so that none is missing in the sum.
"""
import fnmatch
import sys
import tempfile

import programs
from programs import counters, finish, free_port, need, show, start, wait_listening

# program, arguments of both ends, what the server's counters must have at least: name,
# number
PINGPONG = [
    ("ibv_rc_pingpong", "-c", "recv_bytes", 4096 * 1000),
    ("ibv_rc_pingpong", "-c -e", "recv_bytes", 4096 * 1000),
    ("ibv_rc_pingpong", "-c -s 1 -n 2000", "recv_bytes", 2000),
    ("ibv_rc_pingpong", "-c -s 8388608 -n 6", "recv_bytes", 8388608 * 6),
    ("ibv_rc_pingpong", "-c -e -s 8388608 -n 6", "recv_bytes", 8388608 * 6),
    ("OSF_RDMA_REACH=0 ibv_rc_pingpong", "-c -s 3000000 -n 20", "recv_bytes", 60000000),
    ("OSF_RDMA_REACH=0 ibv_rc_pingpong", "-c -e -s 3000000 -n 20", "recv_bytes", 60000000),
    ("ibv_uc_pingpong", "-c", "recv_bytes", 4096 * 1000),
    ("ibv_uc_pingpong", "-c -e", "recv_bytes", 4096 * 1000),
    ("ibv_uc_pingpong", "-c -s 1000000 -n 20", "recv_bytes", 20000000),
    ("ibv_ud_pingpong", "-c", "recv_bytes", 1024 * 1000),
    ("ibv_ud_pingpong", "-c -e", "recv_bytes", 1024 * 1000),
    ("ibv_srq_pingpong", "-c", "recv_bytes", 4096 * 1000),
    ("ibv_srq_pingpong", "-c -e", "recv_bytes", 4096 * 1000),
    ("ibv_srq_pingpong", "-c -s 1000000 -n 32", "recv_bytes", 16000000),
    ("ibv_xsrq_pingpong", "-n 1000", "recv_bytes", 4096 * 1000),
    ("ibv_xsrq_pingpong", "-e -n 1000", "recv_bytes", 4096 * 1000),
    ("ibv_xsrq_pingpong", "-s 8388608 -n 6", "recv_bytes", 8388608 * 6),
]
PERFTEST = [
    ("ib_send_lat", "-n 1000", "recvs", 1000),
    ("ib_send_lat", "-c UC -n 1000", "recvs", 1000),
    ("ib_send_lat", "-c UD -n 1000", "recvs", 1000),
    ("ib_send_lat", "-e -n 1000", "recvs", 1000),
    ("ib_send_lat", "-s 1048576 -n 50", "recvs", 50),
    ("ib_write_lat", "-n 1000", "writes", 1000),
    ("ib_write_lat", "-s 1048576 -n 50", "writes", 50),
    ("ib_write_lat", "-c UC -n 1000", "writes", 1000),
    ("ib_send_bw", "-n 2000 -s 64", "recvs", 2000),
    ("ib_send_bw", "-n 500 -b", "recvs", 500),
    ("ib_send_bw", "-c UC -n 500", "recvs", 500),
    ("ib_send_bw", "-c UD -n 500", "recvs", 500),
    ("ib_send_bw", "-r 64 -n 500 --use-srq", "recvs", 500),
]
# One-sided: it is the client that works.
ONE_SIDED = [
    ("ib_write_bw", "-n 1000", "write_bytes", 65536 * 1000),
    ("ib_write_bw", "-n 200 -q 4", "write_bytes", 65536 * 200),
    ("ib_write_bw", "-c UC -n 500", "write_bytes", 65536 * 500),
    ("ib_read_lat", "-n 1000", "reads", 1000),
    ("ib_read_bw", "-n 1000", "read_bytes", 65536 * 1000),
    ("ib_read_bw", "-s 1048576 -n 100", "reads", 100),
    ("ib_atomic_lat", "-n 1000", "atomics", 1000),
    ("ib_atomic_lat", "-A CMP_AND_SWAP -n 1000", "atomics", 1000),
    ("ib_atomic_bw", "-n 1000", "atomics", 1000),
    ("OSF_RDMA_REACH=0 ib_write_lat", "-n 300", "writes", 300),
    ("OSF_RDMA_REACH=0 ib_write_bw", "-n 500", "write_bytes", 65536 * 500),
    ("OSF_RDMA_REACH=0 ib_write_bw", "-c UC -n 500", "write_bytes", 65536 * 500),
    ("OSF_RDMA_REACH=0 ib_read_bw", "-n 300", "read_bytes", 65536 * 300),
    ("OSF_RDMA_REACH=0 ib_atomic_lat", "-A CMP_AND_SWAP -n 300", "atomics", 300),
    ("OSF_RDMA_REACH=0 ib_atomic_bw", "-n 300", "atomics", 300),
]
# Each size from 1 byte to 8 MB, and many rounds.  perftest measures the clock's speed anew for each, which takes
# a second or two: for the night.  Datagrams are no longer than a packet.
SIZES = [
    ("ib_send_lat", "-a -n 100", "recvs", 2000),
    ("ib_send_lat", "-a -c UC -n 100", "recvs", 2000),
    ("ib_send_lat", "-a -c UD -n 100", "recvs", 900),
    ("ib_send_lat", "-a -R -n 100", "recvs", 2000),
    ("ib_write_lat", "-a -n 100", "writes", 2000),
    ("ib_write_lat", "-a -c UC -n 100", "writes", 2000),
    ("ib_write_lat", "-a -R -n 100", "writes", 2000),
    ("ib_send_bw", "-a -n 100", "recvs", 2000),
    ("ib_send_bw", "-a -c UC -n 100", "recvs", 2000),
    ("ib_send_bw", "-a -c UD -n 100", "recvs", 900),
    ("ib_send_bw", "-a -R -n 100", "recvs", 2000),
    *[("ibv_%s_pingpong" % kind, "-c -s %d -n %d" % (size, n), "recv_bytes", size * n)
      for kind in ("rc", "uc", "srq") for size, n in ((1, 100000), (4096, 100000), (8388608, 32))],
    *[("ibv_rc_pingpong", "-c %s-s %d -n 200" % (how, size), "recv_bytes", size * 200)
      for size in (2, 63, 1023, 8191, 8193, 32767, 32769, 100003, 1048577) for how in ("", "-e ")],
    ("ibv_ud_pingpong", "-c -s 1 -n 100000", "recv_bytes", 100000),
    ("ibv_xsrq_pingpong", "-s 1 -n 16000", "recv_bytes", 16000), # it asks for as many requests at once
]
SIZES_ONE_SIDED = [
    ("ib_write_bw", "-a -n 100", "writes", 2000),
    ("ib_write_bw", "-a -c UC -n 100", "writes", 2000),
    ("ib_write_bw", "-a -R -n 100", "writes", 2000),
    ("ib_read_lat", "-a -n 100", "reads", 2000),
    ("ib_read_lat", "-a -R -n 100", "reads", 2000),
    ("ib_read_bw", "-a -n 100", "reads", 2000),
    ("ib_read_bw", "-a -R -n 100", "reads", 2000),
]
CM = 0x106 # the port space where perftest waits with -R
PERFTEST_BYTES = 65536  # of a message, where the arguments do not say
KINDS = {"pingpong": PINGPONG, "perftest": PERFTEST, "sizes": SIZES}
PACKAGE = {"pingpong": "ibverbs-utils", "perftest": "perftest", "sizes": "perftest"}


def run(program, args, end, name, least):
    words = program.split()
    more = dict([words.pop(0).split("=")]) if "=" in words[0] else {}
    port = free_port()
    command = words + ["-d", "osf0", "-p", str(port)] + (["-g", "0"] if "ibv_" in program else ["-F"]) + args.split()
    with tempfile.TemporaryDirectory() as folder:
        server = start(folder, "server", command, "server", **more)
        wait_listening(port, server, CM if "-R" in command else "tcp")
        client = start(folder, "client", command + ["localhost"], "client", **more)
        status = finish(client), finish(server)
        got = counters(folder, end).get(name, 0)
        lost = sum(counters(folder, which).get("dropped", 0) for which in ("client", "server"))
        is_good = status == (0, 0) and 0 < got and \
            got + lost * (PERFTEST_BYTES if name.endswith("bytes") else 1) >= least and \
            (not lost or "-c U" in args)
        print("%-4s %s %s: %s %s=%d, lost=%d" % ("ok" if is_good else "FAIL", program, args,
                                                  end, name, got, lost), flush=True)
        if not is_good:
            print("  client and server:", status, "wanted at least", least)
            show(folder)
        return is_good


def main():
    kind = sys.argv[1]
    if kind == "sizes":
        programs.LIMIT_S *= 5
    pattern = sys.argv[2] if len(sys.argv) > 2 else "*"
    cases = [(*c[:2], "server", *c[2:]) for c in KINDS[kind]]
    cases += [(*c[:2], "client", *c[2:]) for c in {"perftest": ONE_SIDED, "sizes": SIZES_ONE_SIDED}.get(kind, [])]
    for program in sorted({case[0].split()[-1] for case in cases}):
        need(program, PACKAGE[kind])
    bad = [c for c in cases if fnmatch.fnmatch(c[0] + " " + c[1], pattern) and not run(*c)]
    sys.exit(1 if bad else 0)


main()
