#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/verbs/run_mpi.py - OpenMPI over libfabric's verbs provider on the software RDMA device

Two ranks of mpi_pingpong.c, which checks its data.  The counters of both processes say that
the bytes went through the device.
"""
import os
import subprocess
import sys
import tempfile

from programs import OSF, each_counters, environment, need

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_pingpong.c")
OPTIONS = ["--allow-run-as-root", "--oversubscribe", "-np", "2", "--mca", "pml", "cm", "--mca", "mtl", "ofi",
           "--mca", "mtl_ofi_provider_include", "verbs;ofi_rxm", "--mca", "btl", "^openib"]
# 20 messages each way of 1 byte to 4 MB, each four times the last.
LEAST_BYTES = 20 * sum(4 ** i for i in range(12))
LIMIT_S = 200


def main():
    for program in ("mpicc", "mpirun"):
        need(program, "libopenmpi-dev, openmpi-bin")
    with tempfile.TemporaryDirectory() as folder:
        program, counters = os.path.join(folder, "pingpong"), os.path.join(folder, "counters")
        subprocess.run(["mpicc", "-O1", SOURCE, "-o", program], check=True)
        got = subprocess.run([OSF, "run", "--", "mpirun"] + OPTIONS + [program], env=environment(counters),
                             capture_output=True, text=True, timeout=LIMIT_S)
        # For each process, what it has received or read.
        bytes_moved = [c["recv_bytes"] + c["read_bytes"] for c in each_counters(counters)]
        print(got.stdout, "status %d, bytes of each: %s" % (got.returncode, bytes_moved))
        is_good = got.returncode == 0 and len(bytes_moved) == 2 and min(bytes_moved) >= LEAST_BYTES
        if not is_good:
            print(got.stderr[-3000:], "wanted of each at least", LEAST_BYTES)
        sys.exit(0 if is_good else 1)


main()
