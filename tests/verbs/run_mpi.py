#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/verbs/run_mpi.py - OpenMPI over libfabric's verbs provider on the software RDMA device

Two ranks of mpi_pingpong.c, which checks its data.  The counters of both processes say that
the bytes went through the device.
"""
import os
import shutil
import subprocess
import sys
import tempfile

OSF = os.path.join(os.environ.get("OSF_BUILD", "build"), "osf")
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_pingpong.c")
OPTIONS = ["--allow-run-as-root", "--oversubscribe", "-np", "2", "--mca", "pml", "cm", "--mca", "mtl", "ofi",
           "--mca", "mtl_ofi_provider_include", "verbs;ofi_rxm", "--mca", "btl", "^openib"]
# 20 messages each way of 1 byte to 4 MB, each four times the last.
LEAST_BYTES = 20 * sum(4 ** i for i in range(12))
LIMIT_S = 200


def moved(path):
    """Return: for each process, the bytes that it received or read."""
    with open(path) as f:
        lines = [dict(w.split("=") for w in line.split()) for line in f]
    return [int(c["recv_bytes"]) + int(c["read_bytes"]) for c in lines]


def main():
    for program in ("mpicc", "mpirun"):
        if not shutil.which(program):
            print("skip: no %s (libopenmpi-dev, openmpi-bin)" % program)
            sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        program, counters = os.path.join(folder, "pingpong"), os.path.join(folder, "counters")
        subprocess.run(["mpicc", "-O1", SOURCE, "-o", program], check=True)
        env = dict(os.environ, OSF_RDMA_COUNTERS=counters)
        env.pop("LD_PRELOAD", None)
        got = subprocess.run([OSF, "run", "--", "mpirun"] + OPTIONS + [program], env=env,
                             capture_output=True, text=True, timeout=LIMIT_S)
        bytes_moved = moved(counters) if os.path.exists(counters) else []
        print(got.stdout, "status %d, bytes of each: %s" % (got.returncode, bytes_moved))
        is_good = got.returncode == 0 and len(bytes_moved) == 2 and min(bytes_moved) >= LEAST_BYTES
        if not is_good:
            print(got.stderr[-3000:], "wanted of each at least", LEAST_BYTES)
        sys.exit(0 if is_good else 1)


main()
