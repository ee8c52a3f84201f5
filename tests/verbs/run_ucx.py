#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/verbs/run_ucx.py - UCX's own benchmark on the software RDMA device

Both ends of ucx_perftest may use osf0 and nothing else, on one host and between two (run_roce.py).  A case passes if both end with 0,
and if the counters of the two together say that the device moved at least what was asked for.
run_mpi.py checks data that UCX has moved.
"""
import os
import sys
import tempfile

import run_roce
from programs import counters, finish, free_port, need, show, start, wait_listening

# UCX_TLS, arguments, counter, at least.  "rc_v" is "rc_verbs" with datagrams to set it up.
CASES = [
    ("rc_v,self", "-t tag_lat -n 1000", "recv_bytes", 16000),
    ("rc_v,self", "-t tag_bw -s 5000 -n 300", "recv_bytes", 1500000),
    ("rc_v,self", "-t tag_bw -s 1000000 -n 100", "read_bytes", 100000000),
    ("rc_v,self", "-t tag_lat -n 500 -T 2 -M multi", "recv_bytes", 16000),
    ("rc_v,self", "-t stream_bw -n 1000", "recv_bytes", 8000),
    ("rc_v,self", "-t ucp_am_lat -n 500", "recv_bytes", 8000),
    ("rc_v,self", "-t ucp_put_lat -n 1000", "write_bytes", 16000),
    ("rc_v,self", "-t ucp_put_bw -s 100000 -n 200", "write_bytes", 20000000),
    ("rc_v,self", "-t ucp_get -s 4096 -n 500", "read_bytes", 2048000),
    ("rc_v,self", "-t ucp_fadd -n 500", "recvs", 500),
    ("rc_verbs", "-t fadd -d osf0:1 -x rc_verbs -n 1000", "atomics", 1000),
    ("rc_verbs", "-t cswap -d osf0:1 -x rc_verbs -n 1000", "atomics", 1000),
    ("rc_verbs", "-t put_lat -d osf0:1 -x rc_verbs -n 1000", "write_bytes", 16000),
    ("ud_verbs,self", "-t tag_lat -n 300", "recv_bytes", 4800),
    ("ud_verbs,self", "-t tag_bw -s 100000 -n 100", "recv_bytes", 10000000),
]
FAR_CASES = [
    ("rc_v,self", "-t tag_lat -n 300", "recv_bytes", 2400),
    ("rc_v,self", "-t tag_bw -s 1000000 -n 20", "read_bytes", 20000000),
    ("rc_v,self", "-t ucp_put_bw -s 100000 -n 50", "write_bytes", 5000000),
    ("rc_v,self", "-t ucp_get -s 4096 -n 100", "read_bytes", 409600),
    ("rc_verbs", "-t fadd -d osf0:1 -x rc_verbs -n 200", "atomics", 200),
    ("ud_verbs,self", "-t tag_lat -n 300", "recv_bytes", 2400),
    ("ud_verbs,self", "-t tag_bw -s 100000 -n 50", "recv_bytes", 5000000),
]


def judge(title, status, got, name, least, folder):
    is_good = status == (0, 0) and got >= least
    print("%-4s %s: %s=%d" % ("ok" if is_good else "FAIL", title, name, got), flush=True)
    if not is_good:
        print("  client and server:", status, "wanted at least", least)
        show(folder)
    return is_good


def variables(tls):
    return {"UCX_TLS": tls, "UCX_NET_DEVICES": "osf0:1"}


def run(tls, args, name, least):
    port = free_port()
    command = ["ucx_perftest", "-p", str(port)]
    with tempfile.TemporaryDirectory() as folder:
        server = start(folder, "server", command, **variables(tls))
        wait_listening(port, server)
        client = start(folder, "client", command + ["localhost", "-w", "10"] + args.split(), **variables(tls))
        status = finish(client), finish(server)
        return judge("%s %s" % (tls, args), status, counters(folder).get(name, 0), name, least, folder)


def run_far(hosts, port, tls, args, name, least):
    command = ["ucx_perftest", "-p", str(port)]
    with tempfile.TemporaryDirectory() as folder:
        server = hosts.start(0, folder, "server", command, **variables(tls))
        hosts.wait_listening(0, port, server)
        client = hosts.start(1, folder, "client", command + [run_roce.A, "-w", "10"] + args.split(), **variables(tls))
        status = finish(client), finish(server)
        got = sum(counters(folder, end).get(name, 0) for end in ("client", "server"))
        return judge("between hosts, %s %s" % (tls, args), status, got, name, least, folder)


def main():
    need("ucx_perftest", "ucx-utils")
    bad = [c for c in CASES if not run(*c)]
    if os.geteuid():
        print("not between hosts: that takes root")
        sys.exit(1 if bad else 0)
    with run_roce.Hosts() as hosts:
        bad += [c for i, c in enumerate(FAR_CASES) if not run_far(hosts, 18900 + i, *c)]
    sys.exit(1 if bad else 0)


main()
