#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/verbs/run_cm.py - unmodified programs of librdmacm on the software RDMA device

    run_cm.py [PATTERN]

Both ends run under `osf run`, and find each other by rdma_cm.  A program passes if both
ends exit as they should, if its output says so where its status does not, and if the
counters of the device (OSF_RDMA_COUNTERS) say that at least the bytes or operations that
it asked for went through it.
"""
import fnmatch
import os
import shutil
import signal
import sys
import tempfile
import time

from programs import BUILD, LIBRSPRELOAD, LIMIT_S, counters, finish, free_port, need, own_address, preloaded, show, start, wait_listening

STREAM = os.path.join(BUILD, "tests", "plain_stream")
TCP, UDP = 0x106, 0x111
UDADDY_PORT = 7174 # it takes no other

# server, client, port space, what the ends' counters must have together: name, number
CASES = [
    ("rping -s -C 20 -v -V -p PORT", "rping -c -C 20 -v -V -p PORT -a 127.0.0.1", TCP, "write_bytes", 20 * 64),
    ("rping -s -C 50 -S 60000 -V -p PORT", "rping -c -C 50 -S 60000 -V -p PORT -a 127.0.0.1", TCP, "read_bytes", 50 * 60000),
    ("rping -s -C 20 -V -a ::1 -p PORT", "rping -c -C 20 -V -a ::1 -p PORT", TCP, "reads", 20),
    ("rping -s -C 20 -V -a :: -p PORT", "rping -c -C 20 -V -a 127.0.0.1 -p PORT", TCP, "reads", 20),
    ("rping -s -C 20 -V -a OWN -p PORT", "rping -c -C 20 -V -a OWN -p PORT", TCP, "reads", 20),
    ("rping -s -C 20 -V -q -p PORT", "rping -c -C 20 -V -q -a 127.0.0.1 -p PORT", TCP, "reads", 20),
    ("ucmatose -p PORT -C 200 -S 5000", "ucmatose -s 127.0.0.1 -p PORT -C 200 -S 5000", TCP, "recv_bytes", 2 * 200 * 5000),
    ("ucmatose -p PORT -c 20", "ucmatose -s 127.0.0.1 -p PORT -c 20", TCP, "recvs", 2 * 20 * 10),
    ("ucmatose -p PORT -m", "ucmatose -s 127.0.0.1 -p PORT -m", TCP, "recvs", 20),
    ("udaddy", "udaddy -s 127.0.0.1", UDP, "recvs", 20),
    ("udaddy -c 10 -C 50 -S 1000", "udaddy -s 127.0.0.1 -c 10 -C 50 -S 1000", UDP, "recvs", 2 * 500),
    ("rdma_server -p PORT", "rdma_client -s 127.0.0.1 -p PORT", TCP, "recv_bytes", 32),
    ("rdma_xserver -p PORT", "rdma_xclient -s 127.0.0.1 -p PORT", TCP, "recvs", 1),
    ("stdbuf -oL mckey -m 239.86.1.2 -C 50", "mckey -m 239.86.1.2 -s -C 50", UDP, "recvs", 50),
    # What they do without -S has 100000 round trips.
    ("rstream -p PORT -S 64 -C 5000", "rstream -s 127.0.0.1 -p PORT -S 64 -C 5000", TCP, "recv_bytes", 2 * 64 * 5000),
    ("rstream -p PORT -S 1000000 -C 100", "rstream -s 127.0.0.1 -p PORT -S 1000000 -C 100", TCP, "recv_bytes", 2 * 100000000),
    ("rstream -p PORT -T v -S 5000 -C 100", "rstream -s 127.0.0.1 -p PORT -T v -S 5000 -C 100", TCP, "recv_bytes", 1000000),
    ("rstream -p PORT -T n -S 5000 -C 100", "rstream -s 127.0.0.1 -p PORT -T n -S 5000 -C 100", TCP, "recv_bytes", 1000000),
    ("rstream -p PORT -T b -S 100000 -C 100", "rstream -s 127.0.0.1 -p PORT -T b -S 100000 -C 100", TCP, "recv_bytes", 20000000),
    ("rstream -p PORT -T r -S 100000 -C 100", "rstream -s 127.0.0.1 -p PORT -T r -S 100000 -C 100", TCP, "recv_bytes", 20000000),
    ("riostream -p PORT -S 64 -C 5000", "riostream -s 127.0.0.1 -p PORT -S 64 -C 5000", TCP, "write_bytes", 2 * 64 * 5000),
    ("riostream -p PORT -S 1000000 -C 100", "riostream -s 127.0.0.1 -p PORT -S 1000000 -C 100", TCP, "write_bytes", 2 * 100000000),
    ("rcopy -p PORT", "rcopy SOURCE 127.0.0.1:TARGET -p PORT", TCP, "write_bytes", 3000000),
    ("udpong -b 127.0.0.1 -p PORT -S 1000 -C 100 -T e", "udpong -s 127.0.0.1 -p PORT -S 1000 -C 100 -T e", "udp", "recv_bytes", 100000),
    ("cmtime -p PORT", "cmtime -s 127.0.0.1 -p PORT -c 100", TCP, "errors", 100),
]
# Their control connection is TCP's; -v checks the data.
LIBFABRIC = [
    ("fi_pingpong -p verbs;ofi_rxm -e rdm -v -B PORT", "fi_pingpong -p verbs;ofi_rxm -e rdm -v -P PORT 127.0.0.1", "tcp", "read_bytes", 10 << 20),
    ("fi_pingpong -p verbs -e msg -v -B PORT", "fi_pingpong -p verbs -e msg -v -P PORT 127.0.0.1", "tcp", "recv_bytes", 20 << 20),
]
# rsockets under a program of plain sockets.
RSPRELOAD = [
    ("rspreload STREAM -s PORT", "rspreload STREAM -c PORT", TCP, "recv_bytes", 10 << 20),
]
# It waits for its connections by select().
IPERF3 = [
    ("rspreload iperf3 -s -1 -p PORT", "rspreload iperf3 -c 127.0.0.1 -n 4M -p PORT", TCP, "recv_bytes", 4 << 20),
    ("rspreload iperf3 -s -1 -p PORT", "rspreload iperf3 -c 127.0.0.1 -n 4M -R -p PORT", TCP, "recv_bytes", 4 << 20),
]
PERFTEST = [
    ("ib_send_lat", "-n 1000", "recvs", 2000), ("ib_send_lat", "-c UD -n 1000", "recvs", 2000),
    ("ib_send_bw", "-n 500", "recv_bytes", 65536 * 500), ("ib_send_bw", "-s 1048576 -n 100", "recvs", 100),
    ("ib_write_lat", "-n 1000", "writes", 2000), ("ib_write_bw", "-n 500", "write_bytes", 65536 * 500),
    ("ib_write_bw", "-n 500 -q 4", "write_bytes", 65536 * 500), ("ib_read_lat", "-n 1000", "reads", 1000),
    ("ib_read_bw", "-n 500", "read_bytes", 65536 * 500), ("ib_atomic_lat", "-n 1000", "atomics", 1000),
    ("ib_atomic_bw", "-n 500", "atomics", 500),
]
CASES += [("%s -R -F -p PORT %s" % (p, a), "%s -R -F -p PORT %s 127.0.0.1" % (p, a), TCP, name, least)
          for p, a, name, least in PERFTEST]
# A server that serves for ever, and is asked to end.
ENDLESS = ("rcopy", "udpong", "cmtime")
# Statuses that are good besides 0.
GOOD = {"rcopy": (-2, 130), "udpong": (-2, 130), "cmtime": (-2, 130)}


def words(text, port, folder):
    own = own_address()
    out = [w.replace("PORT", str(port)).replace("OWN", own).replace("STREAM", STREAM)
           .replace("SOURCE", os.path.join(folder, "source"))
           .replace("TARGET", os.path.join(folder, "target")) for w in text.split()]
    return preloaded(out)


def same_files(folder):
    with open(os.path.join(folder, "source"), "rb") as a, \
            open(os.path.join(folder, "target"), "rb") as b:
        return a.read() == b.read()


def wait_saying(path, text, process):
    """A member of a group listens at no port."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end and process.poll() is None:
        with open(path) as f:
            if text in f.read():
                return
        time.sleep(0.01)


def run(server_line, client_line, space, name, least):
    program = server_line.split()[0]
    port = UDADDY_PORT if program == "udaddy" else free_port()
    more = {"OSF_RDMA_WIRE": "0"} if "mckey" in server_line else {} # nothing to groups of this network
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "source"), "wb") as f:
            f.write(os.urandom(3000000))
        server = start(folder, "server", words(server_line, port, folder), **more)
        if "mckey" in server_line:
            wait_saying(os.path.join(folder, "server.out"), "receiving data", server)
        else:
            wait_listening(port, server, space)
        client_status = finish(start(folder, "client", words(client_line, port, folder), **more))
        if program in ENDLESS:
            server.send_signal(signal.SIGINT)
        server_status = finish(server)
        got = counters(folder).get(name, 0)
        is_good = client_status == 0 and got >= least and \
            (server_status == 0 or server_status in GOOD.get(program, ()))
        if program == "rcopy":
            is_good = is_good and same_files(folder)
        print("%-4s %s: %s=%d" % ("ok" if is_good else "FAIL", client_line, name, got), flush=True)
        if not is_good:
            print("  client and server:", client_status, server_status, "wanted at least", least)
            show(folder)
        return is_good


def main():
    pattern = sys.argv[1] if len(sys.argv) > 1 else "*"
    for program in sorted({case[1].split()[0] for case in CASES}):
        need(program, "perftest" if program[:3] == "ib_" else "rdmacm-utils")
    cases = CASES + (LIBFABRIC if shutil.which("fi_pingpong") else []) + \
        (RSPRELOAD if LIBRSPRELOAD and os.path.exists(STREAM) else []) + \
        (IPERF3 if LIBRSPRELOAD and shutil.which("iperf3") else [])
    bad = [c for c in cases if fnmatch.fnmatch(c[1], pattern) and not run(*c)]
    sys.exit(1 if bad else 0)


main()
