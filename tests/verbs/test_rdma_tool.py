#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/verbs/test_rdma_tool.py - `osf rdma' shows programs of the software RDMA device

Two ibv_rc_pingpong, which would go on for long, are seen as one would see them by hand: the
server alone, then both connected, and nobody when they have ended.
"""
import json
import os
import shutil
import subprocess
import sys
import time

OSF = os.path.join(os.environ.get("OSF_BUILD", "build"), "osf")
COMMAND = [OSF, "run", "--", "ibv_rc_pingpong", "-d", "osf0", "-g", "0", "-n", "100000000"]
LIMIT_S = 60


def osf_rdma(*args):
    return subprocess.run([OSF, "rdma", *args], capture_output=True, text=True, timeout=LIMIT_S)


def look_until(process, wanted):
    """Return: what `osf rdma' says of a process when wanted() is true of it."""
    end = time.monotonic() + LIMIT_S
    while True:
        got = osf_rdma("--json", str(process.pid))
        seen = json.loads(got.stdout)
        if seen and seen[0]["qps"] and wanted(seen[0]):
            assert got.returncode == 0 and not got.stderr, got
            return seen[0]
        assert process.poll() is None and time.monotonic() < end, (got, process.poll())
        time.sleep(0.01)


def check_both(server, client):
    there = look_until(client, lambda p: p["counters"]["recvs"] > 10)
    here = look_until(server, lambda p: p["counters"]["recvs"] > 10)
    a, b = here["qps"][0], there["qps"][0]
    assert (a["peer_qpn"], b["peer_qpn"]) == (b["qpn"], a["qpn"]), (a, b)
    assert a["type"] == "RC" and a["state"] == b["state"] == "RTS", (a, b)
    assert here["counters"]["recv_bytes"] >= 4096 * 10, here
    assert here["mrs"][0]["pd"] == a["pd"] and here["mrs"][0]["kind"] == "region", here
    assert 4096 <= a["bytes"] < 1 << 20, a  # of a file that is a hole at first
    queues = {q["cq"]: q for q in here["cqs"]}
    assert queues[a["send_cq"]] == {"cq": a["send_cq"], "entries": 501, "qps": 1,
                                    "is_armed": False}, here
    assert here["xrc_srqs"] == here["groups"] == [], here
    got = osf_rdma("--memory", "--queues", str(server.pid), str(client.pid))
    assert got.returncode == 0 and "ENTRIES" in got.stdout and "501" in got.stdout, got
    for word in ("ibv_rc_pingpong", "0x%06x" % a["qpn"], "0x%06x" % b["qpn"], "RTS",
                 str(server.pid), str(client.pid), "local write"):
        assert word in got.stdout, (word, got.stdout)


def main():
    if not shutil.which("ibv_rc_pingpong"):
        print("skip: no ibv_rc_pingpong (ibverbs-utils)")
        sys.exit(77)
    env = dict(os.environ)
    env.pop("LD_PRELOAD", None)
    quiet = {"env": env, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = [subprocess.Popen(COMMAND, **quiet)]
    try:
        alone = look_until(running[0], lambda p: p["qps"][0]["receives"] == 500)
        assert alone["program"] == "ibv_rc_pingpong" and alone["qps"][0]["state"] == "INIT", alone
        assert [m["bytes"] for m in alone["mrs"]] == [4096], alone
        running.append(subprocess.Popen(COMMAND + ["localhost"], **quiet))
        check_both(*running)
    finally:
        for process in running:
            process.kill()
            process.wait()
    gone = osf_rdma(str(running[0].pid))
    assert gone.returncode == 1 and "does not use osf0" in gone.stderr, gone
    assert osf_rdma("none").returncode == 2
    print("ok")


main()
