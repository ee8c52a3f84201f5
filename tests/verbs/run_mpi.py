#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/verbs/run_mpi.py - OpenMPI over libfabric's verbs provider, and over UCX, on the software RDMA device

Two ranks of mpi_pingpong.c, which checks its data.  The counters of both processes say that
the bytes went through the device.
"""
import os
import subprocess
import sys
import tempfile

import run_roce
from programs import OSF, each_counters, environment, need

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_pingpong.c")
MPIRUN = ["mpirun", "--allow-run-as-root", "-np", "2", "--mca", "btl", "^openib"]
HERE = [OSF, "run", "--"] + MPIRUN + ["--oversubscribe"]
# mpirun starts its daemon on the other host by this instead of ssh.
AGENT = """#!/bin/sh
shift
exec ip netns exec %s unshare -u sh -c 'hostname far; exec sh -c "$*"' sh "$@"
"""
# name, options, variables
OVER = [
    ("libfabric", ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "verbs;ofi_rxm"],
     {}),
    ("ucx", ["--mca", "pml", "ucx"], {"UCX_TLS": "rc_v,self", "UCX_NET_DEVICES": "osf0:1"}),
]
# 20 messages each way of 1 byte to 4 MB, each four times the last.
LEAST_BYTES = 20 * sum(4 ** i for i in range(12))
LIMIT_S = 200


def has_ucx():
    """Was this OpenMPI built with UCX?"""
    return " pml: ucx " in subprocess.run(["ompi_info"], capture_output=True, text=True, timeout=LIMIT_S).stdout


def between(hosts, folder):
    """Return: the command for a rank on each host."""
    agent = os.path.join(folder, "agent")
    with open(agent, "w") as f:
        f.write(AGENT % hosts.names[1])
    os.chmod(agent, 0o755)
    return ["ip", "netns", "exec", hosts.names[0], OSF, "run", "--"] + MPIRUN + \
        ["-H", run_roce.A + "," + run_roce.B, "--map-by", "node", "--mca", "plm_rsh_agent", agent,
         "--mca", "oob_tcp_if_include", "veth"]


def run(mpirun, program, counters, name, options, variables):
    got = subprocess.run(mpirun + options + [program],
                         env=environment(counters, **variables), capture_output=True, text=True, timeout=LIMIT_S)
    # For each process, what it has received or read.
    bytes_moved = [c["recv_bytes"] + c["read_bytes"] for c in each_counters(counters)]
    is_good = got.returncode == 0 and len(bytes_moved) == 2 and min(bytes_moved) >= LEAST_BYTES
    print("%-4s %s: status %d, bytes of each: %s" % ("ok" if is_good else "FAIL", name, got.returncode, bytes_moved), flush=True)
    if not is_good:
        print(got.stdout, got.stderr[-3000:], "wanted of each at least", LEAST_BYTES)
    return is_good


def main():
    for program in ("mpicc", "mpirun"):
        need(program, "libopenmpi-dev, openmpi-bin")
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "pingpong")
        subprocess.run(["mpicc", "-O1", SOURCE, "-o", program], check=True)
        cases = [o for o in OVER if o[0] != "ucx" or has_ucx()]
        bad = [o for o in cases if not run(HERE, program, os.path.join(folder, o[0]), *o)]
        if os.geteuid():
            print("not between hosts: that takes root")
            sys.exit(1 if bad else 0)
        with run_roce.Hosts() as hosts:
            mpirun = between(hosts, folder)
            bad += [o for o in cases if not run(mpirun, program, os.path.join(folder, "far-" + o[0]), "between hosts, " + o[0], *o[1:])]
        sys.exit(1 if bad else 0)


main()
