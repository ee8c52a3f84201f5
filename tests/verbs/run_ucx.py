#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/verbs/run_ucx.py - UCX's own benchmark on the software RDMA device

Both ends of ucx_perftest may use osf0 and nothing else.  A case passes if both end with 0,
and if the counters of the two together say that the device moved at least what was asked for.
run_mpi.py checks data that UCX has moved.
"""
import sys
import tempfile

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


def run(tls, args, name, least):
    port = free_port()
    env = {"UCX_TLS": tls, "UCX_NET_DEVICES": "osf0:1"}
    command = ["ucx_perftest", "-p", str(port)]
    with tempfile.TemporaryDirectory() as folder:
        server = start(folder, "server", command, **env)
        wait_listening(port, server)
        client = start(folder, "client", command + ["localhost", "-w", "10"] + args.split(), **env)
        status = finish(client), finish(server)
        got = counters(folder).get(name, 0)
        is_good = status == (0, 0) and got >= least
        print("%-4s %s %s: %s=%d" % ("ok" if is_good else "FAIL", tls, args, name, got), flush=True)
        if not is_good:
            print("  client and server:", status, "wanted at least", least)
            show(folder)
        return is_good


def main():
    need("ucx_perftest", "ucx-utils")
    bad = [c for c in CASES if not run(*c)]
    sys.exit(1 if bad else 0)


main()
