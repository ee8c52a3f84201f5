#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/verbs/run_roce.py - unmodified verbs programs between two hosts, by RoCEv2

    run_roce.py [sizes]       sizes: each size and many rounds, for the night

The hosts are two network namespaces with a veth between them.  Programs check their data
(-c), and the device's counters say that it moved it (programs.py).  Also: several
processes of a host share the UDP port, while one of them is stopped or has been killed;
and tshark decodes what is on the wire.
"""
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import zlib

import programs
from programs import finish, need, show

A, B = "10.99.0.1", "10.99.0.2"
GID = "1"  # the IPv4 address's
PROGRAMS = [
    ("ibv_rc_pingpong", "-c", "recv_bytes", 4096 * 1000),
    ("ibv_rc_pingpong", "-c -e -n 300", "recv_bytes", 4096 * 300),
    ("ibv_rc_pingpong", "-c -s 1 -n 500", "recv_bytes", 500),
    ("ibv_rc_pingpong", "-c -s 1000003 -n 4", "recv_bytes", 4000012),
    ("ibv_rc_pingpong", "-g 2 -c -s 70000 -n 20", "recv_bytes", 1400000),
    ("ibv_uc_pingpong", "-c -s 3000 -n 300", "recv_bytes", 900000),
    ("ibv_ud_pingpong", "-c -n 300", "recv_bytes", 1024 * 300),
    ("ibv_ud_pingpong", "-c -e -n 300", "recv_bytes", 1024 * 300),
    ("ibv_srq_pingpong", "-c -e -n 200", "recv_bytes", 4096 * 200),
    ("ibv_xsrq_pingpong", "-n 300", "recv_bytes", 4096 * 300),
    ("ibv_xsrq_pingpong", "-e -n 20 -s 100000", "recv_bytes", 2000000),
]
# perftest: who has counters, and what they must say at least.
PERFTEST = [
    ("ib_send_lat", "-n 300", 0, "recvs", 300), ("ib_send_lat", "-c UD -n 300", 0, "recvs", 300),
    ("ib_send_bw", "-n 300", 0, "recv_bytes", 65536 * 300),
    # All of UC's messages fit into the socket's queue: nobody sends again what gets lost there.
    ("ib_send_bw", "-c UC -s 1024 -n 300", 0, "recvs", 300),
    ("ib_write_lat", "-n 300", 0, "writes", 300), ("ib_write_bw", "-n 300", 1, "write_bytes", 65536 * 300),
    ("ib_read_lat", "-n 300", 1, "reads", 300), ("ib_read_bw", "-n 300", 1, "read_bytes", 65536 * 300),
    ("ib_atomic_lat", "-n 300", 1, "atomics", 300), ("ib_atomic_bw", "-n 300", 1, "atomics", 300),
]
# For the night.  A longer message of an unreliable connection does not fit into the socket's queue.
PROGRAMS_SIZES = [
    ("ibv_rc_pingpong", "-c -n 100000", "recv_bytes", 4096 * 100000),
    ("ibv_rc_pingpong", "-c -e -n 20000", "recv_bytes", 4096 * 20000),
    *[(program, "-c -s %d -n %d" % (size, n), "recv_bytes", size * n)
      for program in ("ibv_rc_pingpong", "ibv_srq_pingpong") for size, n in ((1, 20000), (1023, 200), (1025, 200), (8388608, 32))],
    ("ibv_uc_pingpong", "-c -s 1 -n 20000", "recv_bytes", 20000),
    ("ibv_ud_pingpong", "-c -s 1 -n 20000", "recv_bytes", 20000),
    ("ibv_xsrq_pingpong", "-s 8388608 -n 16", "recv_bytes", 8388608 * 16),
]
PERFTEST_SIZES = [(program, "-a -n 100", end, name, 2000) for program, end, name in (
    ("ib_send_lat", 0, "recvs"), ("ib_send_bw", 0, "recvs"), ("ib_write_lat", 0, "writes"), ("ib_write_bw", 1, "writes"),
    ("ib_read_lat", 1, "reads"), ("ib_read_bw", 1, "reads"))]
# Server, client, port space of rdma_cm, what the server's counters must have at least.
TCP, UDP = 0x106, 0x111
CM = [
    ("rping -s -C 10 -V -S 3000 -p PORT", "rping -c -a ADDRESS -C 10 -V -S 3000 -p PORT", TCP, "reads", 10),
    ("ucmatose -c 5 -p PORT", "ucmatose -c 5 -s ADDRESS -p PORT", TCP, "recvs", 50),
    ("udaddy", "udaddy -s ADDRESS", UDP, "recvs", 10),
    ("rdma_server -p PORT", "rdma_client -s ADDRESS -p PORT", TCP, "recvs", 1),
    ("rstream -p PORT -S 200000 -C 10", "rstream -s ADDRESS -p PORT -S 200000 -C 10", TCP, "recvs", 10),
    ("riostream -p PORT -S 100000 -C 20", "riostream -s ADDRESS -p PORT -S 100000 -C 20", TCP, "write_bytes", 2000000),
    ("rdma_xserver -p PORT", "rdma_xclient -s ADDRESS -p PORT", TCP, "recvs", 1),
    ("ib_send_bw -R -F -n 300 -p PORT", "ib_send_bw -R -F -n 300 -p PORT ADDRESS", TCP, "recvs", 300),
]
CM_SIZES = [("%s -R -F -a -n 100 -p PORT" % program, "%s -R -F -a -n 100 -p PORT ADDRESS" % program, TCP, name, 2000)
            for program, name in (("ib_send_lat", "recvs"), ("ib_send_bw", "recvs"), ("ib_write_lat", "writes"))]
# The same of libfabric, whose servers wait on a port of TCP.
LIBFABRIC = [
    ("fi_pingpong -p verbs -e msg -c -I 20 -B PORT", "fi_pingpong -p verbs -e msg -c -I 20 -P PORT ADDRESS", "tcp", "recv_bytes", 20 << 20),
    ("fi_pingpong -p verbs;ofi_rxm -e rdm -c -I 10 -B PORT", "fi_pingpong -p verbs;ofi_rxm -e rdm -c -I 10 -P PORT ADDRESS", "tcp", "read_bytes", 10 << 20),
]
# rsockets under a program of plain sockets.
IPERF3 = [
    ("rspreload iperf3 -s -1 -p PORT", "rspreload iperf3 -c ADDRESS -n 4M -p PORT", TCP, "recv_bytes", 4 << 20),
]
CAPTURE = """
import socket, struct, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.bind(("veth", 0))
s.settimeout(60)
with open(sys.argv[1], "wb") as f:
    f.write(struct.pack("<IHHIIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
    print("ready", flush=True)
    while True:
        p = s.recv(65536)
        f.write(struct.pack("<IIII", 0, 0, len(p), len(p)) + p)
        f.flush()
"""


class Hosts:
    """Two network namespaces."""

    def __enter__(self):
        self.names = ["osf-roce-%d-%s" % (os.getpid(), place) for place in "ab"]
        for i, name in enumerate(self.names):
            if subprocess.run(["ip", "netns", "add", name], stderr=subprocess.DEVNULL).returncode:
                self.__exit__()
                print("skip: may not make network namespaces (root)")
                sys.exit(77)
        self.ip("link", "add", "veth", "netns", self.names[0], "type", "veth", "peer", "name", "veth",
                "netns", self.names[1])
        for i, name in enumerate(self.names):
            self.ip("-n", name, "addr", "add", [A, B][i] + "/24", "dev", "veth")
            self.ip("-n", name, "addr", "add", "fd99::%d/64" % (i + 1), "dev", "veth", "nodad")
            self.ip("-n", name, "link", "set", "lo", "up")
            self.ip("-n", name, "link", "set", "veth", "up")
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)

    def ip(self, *words):
        subprocess.run(["ip"] + list(words), check=True)

    def start(self, i, folder, end, command, **more):
        with open(os.path.join(folder, end + ".out"), "w") as out:
            return subprocess.Popen(
                ["ip", "netns", "exec", self.names[i], programs.OSF, "run", "--"] + command, stdout=out,
                stderr=subprocess.STDOUT, env=programs.environment(os.path.join(folder, end), **more))

    def wait_cm(self, i, port, space, process):
        """Until a process listens for rdma_cm's connections."""
        want = "@osf-cm/%d/%d/" % (space, port)
        while process.poll() is None:
            names = subprocess.run(["ip", "netns", "exec", self.names[i], "cat", "/proc/net/unix"],
                                   capture_output=True, text=True, check=False).stdout
            if any(want in line and " 00010000 " in line for line in names.split("\n")):
                return

    def wait_listening(self, i, port, process):
        """As programs.wait_listening(), in the namespace."""
        want = ":%04X" % port
        while process.poll() is None:
            tables = subprocess.run(["ip", "netns", "exec", self.names[i], "cat", "/proc/net/tcp", "/proc/net/tcp6"],
                                    capture_output=True, text=True, check=False).stdout
            if any(len(w) > 3 and w[1].endswith(want) and w[3] == "0A" for w in map(str.split, tables.split("\n"))):
                return


def pair(hosts, folder, name, command, port):
    """Start a server on host 0 and a client on host 1."""
    gid = [] if "-g" in command else ["-g", GID]
    command = [command[0], "-d", "osf0", "-p", str(port)] + gid + command[1:]
    server = hosts.start(0, folder, name + "-server", command)
    hosts.wait_listening(0, port, server)
    return server, hosts.start(1, folder, name + "-client", command + [A])


def ends_well(hosts, name, command, port, want=None, folder=None):
    with tempfile.TemporaryDirectory() as own:
        folder = folder or own
        server, client = pair(hosts, folder, name, command, port)
        status = [finish(client), finish(server)]
        moved = programs.counters(folder, name + "-server")
        good = status == [0, 0] and (not want or moved.get(want[0], 0) >= want[1])
        print("%-4s %s %s" % ("ok" if good else "FAIL", name, " ".join(command)), flush=True)
        if not good:
            print("  status", status, "moved", moved)
            show(folder)
        return good


def measures(hosts, port, program, arguments, end, name, least):
    """perftest."""
    need(program, "perftest")
    command = [program, "-d", "osf0", "-x", GID, "-F", "-p", str(port)] + arguments.split()
    with tempfile.TemporaryDirectory() as folder:
        server = hosts.start(0, folder, "0", command)
        hosts.wait_listening(0, port, server)
        client = hosts.start(1, folder, "1", command + [A])
        status = [finish(client), finish(server)]
        moved = programs.counters(folder, str(end)).get(name, 0)
        good = status == [0, 0] and moved >= least
        print("%-4s %s %s: %s=%d" % ("ok" if good else "FAIL", program, arguments, name, moved), flush=True)
        if not good:
            print("  status", status, "wanted at least", least)
            show(folder)
        return good


def connects(hosts, row, port, name="cm"):
    """Programs of rdma_cm."""
    commands = [programs.preloaded(text.replace("PORT", str(port)).replace("ADDRESS", A).split()) for text in row[:2]]
    need(commands[0][0], "rdmacm-utils, perftest")
    with tempfile.TemporaryDirectory() as folder:
        server = hosts.start(0, folder, name + "-server", commands[0])
        if row[2] == "tcp":
            hosts.wait_listening(0, port, server)
        else:
            hosts.wait_cm(0, 7174 if row[2] == UDP else port, row[2], server)  # udaddy takes no other port
        client = hosts.start(1, folder, name + "-client", commands[1])
        status = [finish(client), finish(server)]
        moved = programs.counters(folder, name + "-server")
        good = status == [0, 0] and moved.get(row[3], 0) >= row[4]
        print("%-4s %s %s" % ("ok" if good else "FAIL", name, " ".join(commands[1])), flush=True)
        if not good:
            print("  status", status, "moved", moved)
            show(folder)
        return good


def groups(hosts, group, addresses):
    """Datagrams to a group: two processes of the other host get them, and one of the sender's, each once."""
    need("mckey", "rdmacm-utils")
    n = 50
    with tempfile.TemporaryDirectory() as folder:
        members = []
        for i, host in enumerate((0, 0, 1)):
            command = ["stdbuf", "-oL", "mckey", "-m", group, "-b", addresses[host], "-C", str(n)]
            members.append(hosts.start(host, folder, "member%d" % i, command))
            out = os.path.join(folder, "member%d.out" % i)
            while members[-1].poll() is None and "joined" not in open(out).read():
                pass
        command = ["mckey", "-m", group, "-b", addresses[1], "-s", "-C", str(n)]
        sender = hosts.start(1, folder, "sender", command)
        status = [finish(p) for p in members + [sender]]
        got = [programs.counters(folder, "member%d" % i) for i in range(3)]
        good = status == [0] * 4 and all(c.get("recvs") == n and c.get("dropped") == 0 for c in got)
        print("%-4s group %s: %s" % ("ok" if good else "FAIL", group, [c.get("recvs") for c in got]), flush=True)
        if not good:
            print("  status", status, got)
            show(folder)
        return good


def test_program(hosts, name, port):
    """A program of ours that has both ends of a test."""
    program = os.path.join(programs.BUILD, "tests", name)
    with tempfile.TemporaryDirectory() as folder:
        server = hosts.start(0, folder, "server", [program, str(port)])
        hosts.wait_listening(0, port, server)
        client = hosts.start(1, folder, "client", [program, str(port), A])
        status = [finish(client), finish(server)]
        good = status == [0, 0]
        print("%-4s %s" % ("ok" if good else "FAIL", name), flush=True)
        if not good:
            print("  status", status)
            show(folder)
        return good


def copies(hosts, port):
    """rcopy, whose server is asked to end."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "source"), os.path.join(folder, "target")
        with open(source, "wb") as f:
            f.write(os.urandom(3000000))
        server = hosts.start(0, folder, "server", ["rcopy", "-p", str(port)])
        hosts.wait_cm(0, port, TCP, server)
        client = finish(hosts.start(1, folder, "client", ["rcopy", source, A + ":" + target, "-p", str(port)]))
        server.send_signal(signal.SIGINT)
        status = [client, finish(server)]
        moved = programs.counters(folder, "client").get("write_bytes", 0)
        with open(source, "rb") as f, open(target, "rb") as g:
            is_same = f.read() == g.read()
        good = client == 0 and status[1] in (0, -2, 130) and is_same and moved >= 3000000
        print("%-4s rcopy: write_bytes=%d" % ("ok" if good else "FAIL", moved), flush=True)
        if not good:
            print("  status", status, "the same:", is_same)
            show(folder)
        return good


def refused(hosts):
    """Nobody listens: the other host says so."""
    with tempfile.TemporaryDirectory() as folder:
        other = hosts.start(0, folder, "other", ["rping", "-s", "-p", "18700"])
        hosts.wait_cm(0, 18700, TCP, other)
        client = hosts.start(1, folder, "client", ["rping", "-c", "-a", A, "-C", "1", "-p", "18701"])
        status = finish(client)
        other.kill()
        other.wait()
        with open(os.path.join(folder, "client.out")) as f:
            text = f.read()
        good = status not in (0, "") and "REJECTED, error 8" in text
        print("%-4s a port that nobody has: %s" % ("ok" if good else "FAIL", text.strip().split("\n")[0]))
        return good


def shared_port(hosts):
    """Other processes of a host have the port, too; a stopped one and a dead one do no harm."""
    with tempfile.TemporaryDirectory() as folder:
        long = ["ibv_rc_pingpong", "-e", "-n", "1000000"]
        others = [pair(hosts, folder, "long%d" % i, long, 18600 + i) for i in range(2)]
        good = ends_well(hosts, "beside two others", ["ibv_rc_pingpong", "-c", "-n", "300"], 18602)
        for _, client in others:
            if client.poll() is not None:
                print("FAIL: a long one has ended")
                show(folder)
                good = False
        others[0][0].send_signal(signal.SIGSTOP)
        good &= ends_well(hosts, "beside a stopped one", ["ibv_rc_pingpong", "-c", "-n", "300"], 18603)
        others[0][0].kill()
        good &= ends_well(hosts, "after a dead one", ["ibv_ud_pingpong", "-c", "-n", "300"], 18604)
        for both in others:
            for process in both:
                process.kill()
                process.wait()
        return good


def packets_of(path):
    """Yields each packet's bytes of a pcap file."""
    with open(path, "rb") as f:
        f.read(24)
        while len(head := f.read(16)) == 16:
            yield f.read(struct.unpack("<IIII", head)[2])


def icrc_is_right(frame):
    """Of an IPv4 packet, with its own identification: InfiniBand Architecture, annex A17."""
    ip, udp, bth = bytearray(frame[14:34]), bytearray(frame[34:42]), bytearray(frame[42:])
    ip[1] = ip[8] = ip[10] = ip[11] = udp[6] = udp[7] = bth[4] = 0xff
    return zlib.crc32(bytes([0xff] * 8) + ip + udp + bth[:-4]) == int.from_bytes(bth[-4:], "little")


def begins_as_told(path):
    """rdma_cm: an end says at which packet number the other one is to begin."""
    out = subprocess.run(["tshark", "-r", path, "-Y", "infiniband.bth.opcode < 13 or infiniband.bth.opcode == 100",
                          "-T", "fields", "-e", "infiniband.bth.destqp",
                          "-e", "infiniband.bth.psn", "-e", "infiniband.cm.req.localqpn",
                          "-e", "infiniband.cm.req.startpsn", "-e", "infiniband.cm.rep.localqpn",
                          "-e", "infiniband.cm.rep.startpsn"], capture_output=True, text=True, check=False).stdout
    told, met = {}, {}
    for line in out.splitlines():
        to, psn, *pairs = [int(w, 0) if w else None for w in line.split("\t")]
        met.setdefault(to, psn)
        for qpn, start in zip(pairs[::2], pairs[1::2]):
            if qpn is not None:
                told[qpn] = start
    good = len(told) == 2 and all(met.get(qpn) == start for qpn, start in told.items())
    print("%-4s rdma_cm: packets begin where the other end said: %s, met %s" % ("ok" if good else "FAIL", told, [met.get(qpn) for qpn in told]))
    return good


def decoded(hosts):
    """What tshark says of the packets, and are their ICRCs right?"""
    need("tshark", "tshark")
    for name in hosts.names: # the kernel cuts bundles of packets up before they can be seen
        hosts.ip("-n", name, "link", "set", "veth", "gso_max_segs", "1")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "wire.pcap")
        capture = subprocess.Popen(["ip", "netns", "exec", hosts.names[0], sys.executable, "-c", CAPTURE, path],
                                   stdout=subprocess.PIPE, text=True)
        capture.stdout.readline()
        good = ends_well(hosts, "captured", ["ibv_rc_pingpong", "-c", "-n", "20", "-s", "2500"], 18605)
        good &= connects(hosts, CM[0], 18606, "captured")
        capture.kill()
        capture.wait()
        out = subprocess.run(["tshark", "-r", path, "-Y", "udp.port == 4791", "-T", "fields", "-e",
                              "infiniband.bth.opcode", "-e", "_ws.malformed", "-e", "_ws.expert.message", "-e", "infiniband.mad.attributeid"],
                             capture_output=True, text=True, check=False).stdout
        lines = [line.split("\t") for line in out.splitlines()]
        opcodes = {line[0] for line in lines}
        bad = [line for line in lines if not line[0] or any(line[1:3])]
        # Send first, middle, last; read and its responses; acknowledge; datagrams.
        good &= {"0", "1", "2", "12", "13", "14", "15", "17", "100"} <= opcodes and not bad
        mads = {line[3] for line in lines}
        good &= {"0x0010", "0x0013", "0x0014", "0x0015", "0x0016"} <= mads  # REQ, REP, RTU, DREQ, DREP
        good &= begins_as_told(path)
        wrong = [p.hex() for p in packets_of(path)
                 if p[12:14] == b"\x08\0" and p[23] == 17 and p[36:38] == b"\x12\xb7" and not icrc_is_right(p)]
        if wrong:
            print("FAIL wrong ICRCs:", len(wrong), wrong[0][:120])
            good = False
        print("%-4s tshark: %d packets, opcodes %s, messages %s, complaints %s" %
              ("ok" if good else "FAIL", len(lines), sorted(opcodes), sorted(mads), bad[:3]))
        return good


def sizes(hosts):
    programs.LIMIT_S *= 5
    good = True
    for i, (program, arguments, name, least) in enumerate(PROGRAMS_SIZES):
        good &= ends_well(hosts, "pair", [program] + arguments.split(), 18500 + i, (name, least))
    for i, row in enumerate(PERFTEST_SIZES):
        good &= measures(hosts, 18800 + i, *row)
    for i, row in enumerate(CM_SIZES):
        good &= connects(hosts, row, 18650 + i)
    return good


def all_of(hosts):
    good = True
    for i, (program, arguments, name, least) in enumerate(PROGRAMS):
        good &= ends_well(hosts, "pair", [program] + arguments.split(), 18500 + i, (name, least))
    for i, row in enumerate(PERFTEST):
        good &= measures(hosts, 18800 + i, *row)
    rows = CM + (LIBFABRIC if shutil.which("fi_pingpong") else []) + \
        (IPERF3 if programs.LIBRSPRELOAD and shutil.which("iperf3") else [])
    for i, row in enumerate(rows):
        good &= connects(hosts, row, 18650 + i)
    good &= copies(hosts, 18689)
    good &= groups(hosts, "239.86.1.2", (A, B))
    good &= groups(hosts, "ff0e::8601", ("fd99::1", "fd99::2"))
    good &= test_program(hosts, "far_windows", 18690)
    good &= test_program(hosts, "far_xrc", 18691)
    good &= test_program(hosts, "far_states", 18692)
    good &= refused(hosts)
    good &= shared_port(hosts)
    good &= decoded(hosts)
    return good


def main():
    need("ibv_rc_pingpong", "ibverbs-utils")
    with Hosts() as hosts:
        good = sizes(hosts) if sys.argv[1:] == ["sizes"] else all_of(hosts)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
