#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/verbs/test_shown.py SHOWN LIBRARY... - `osf tap' shows the software RDMA device as RoCEv2

The program's operations are known, so all of its packets are: opcodes, numbers, bytes.  Their
ICRC is computed again here, and tshark has no complaint.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import zlib

SHOWN, PRELOAD = os.path.abspath(sys.argv[1]), sys.argv[2]
OSF = os.path.abspath(os.path.join(os.environ.get("OSF_BUILD", "build"), "osf"))
FIELDS = {"way": "frame.packet_flags_direction", "name": "frame.comment",
          "dev": "frame.interface_name", "severity": "_ws.expert.severity",
          "bad": "_ws.malformed", "sum": "udp.checksum.status",
          "op": "infiniband.bth.opcode", "psn": "infiniband.bth.psn",
          "qpn": "infiniband.bth.destqp", "code": "infiniband.aeth.syndrome.opcode",
          "error": "infiniband.aeth.syndrome.error_code", "msn": "infiniband.aeth.msn",
          "imm": "infiniband.immdt", "dmalen": "infiniband.reth.dmalen",
          "add": "infiniband.atomiceth.swapdt", "qkey": "infiniband.deth.q_key"}
WARNING = 0x400000  # of tshark's severities
OUT, IN = "out", "in"
RC, UC, UD = 2, 3, 4  # enum ibv_qp_type

# Opcodes of RC; UC's are 0x20 more, UD's 0x60.
(SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMM, SEND_ONLY, _, WRITE_FIRST, _, WRITE_LAST,
 WRITE_LAST_IMM, WRITE_ONLY, WRITE_ONLY_IMM, READ, READ_FIRST, READ_MIDDLE, READ_LAST, _,
 ACK, ATOMIC_ACK, _, FETCH_ADD) = range(21)


def psn(n):
    """The @n-th number of the first side."""
    return (0xfffffe + n) & 0xffffff


# What the first side of the reliable pair sends and receives, by opcode, number, direction.
FIRST = [
    (SEND_ONLY, psn(0), OUT), (ACK, psn(0), IN),
    (SEND_FIRST, psn(1), OUT), (SEND_MIDDLE, psn(2), OUT), (SEND_LAST_IMM, psn(3), OUT),
    (ACK, psn(3), IN),
    (WRITE_FIRST, psn(4), OUT), (WRITE_LAST, psn(5), OUT), (ACK, psn(5), IN),
    (READ, psn(6), OUT), (READ_FIRST, psn(6), IN), (READ_MIDDLE, psn(7), IN),
    (READ_LAST, psn(8), IN),
    (WRITE_ONLY_IMM, psn(9), OUT), (ACK, psn(9), IN),
    (FETCH_ADD, psn(10), OUT), (ATOMIC_ACK, psn(10), IN),
    (SEND_FIRST, 7, IN)] + [(SEND_MIDDLE, 8 + i, IN) for i in range(7)] + [
    (SEND_LAST, 15, IN), (ACK, 15, OUT),
    (WRITE_ONLY, psn(11), OUT), (ACK, psn(11), IN)]
# And the second side, which does not see what is done to its memory.
SECOND = [
    (SEND_ONLY, psn(0), IN), (ACK, psn(0), OUT),
    (SEND_FIRST, psn(1), IN), (SEND_MIDDLE, psn(2), IN), (SEND_LAST_IMM, psn(3), IN),
    (ACK, psn(3), OUT),
    (WRITE_LAST_IMM, psn(9), IN), (ACK, psn(9), OUT),
    (SEND_FIRST, 7, OUT)] + [(SEND_MIDDLE, 8 + i, OUT) for i in range(7)] + [
    (SEND_LAST, 15, OUT), (ACK, 15, IN), (ACK, psn(11), OUT)]


def capture(path):
    """Runs the program.  Return: its name, and the numbers of its pairs by their type."""
    env = dict(os.environ, LD_PRELOAD=PRELOAD)
    program = subprocess.Popen([SHOWN], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True)
    assert program.stdout.readline() == "ready\n"
    tap = subprocess.Popen([OSF, "tap", str(program.pid), "-w", "-"], bufsize=0,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    head = tap.stdout.read(200)  # it has said that it wants packets
    said, _ = program.communicate("\n", timeout=60)
    assert program.returncode == 0, said
    rest, errors = tap.communicate(timeout=60)
    assert tap.returncode == 0 and b", 0 missed" in errors, errors
    with open(path, "wb") as file:
        file.write(head + rest)
    pairs = [[int(word) for word in line.split()] for line in said.splitlines()]
    return "shown (%d)" % program.pid, {p[0]: p[1:] for p in pairs}


def tshark(path, *args):
    # RPC over RDMA has no port: tshark takes short payloads for it.
    read = subprocess.run(["tshark", "-r", path, "-o", "udp.check_checksum:TRUE",
                           "--disable-protocol", "rpcordma", "-T", "fields", *args],
                          capture_output=True, text=True, timeout=60)
    said = [line for line in read.stderr.split("\n") if line and "Running as user" not in line]
    assert read.returncode == 0 and not said, said
    return [line.split("\t") for line in read.stdout.splitlines()]


def frames_of(path):
    """The Ethernet frames of a pcapng file."""
    data = open(path, "rb").read()
    at, frames = 0, []
    while at < len(data):
        kind, size = (int.from_bytes(data[at + i:at + i + 4], "little") for i in (0, 4))
        if kind == 6:
            length = int.from_bytes(data[at + 20:at + 24], "little")
            frames.append(data[at + 28:at + 28 + length])
        at += size
    return frames


def is_icrc_right(frame):
    """Of annex A17: what routers may change counts as ones."""
    ip = bytearray(frame[14:-4])
    is_v4 = ip[0] >> 4 == 4
    if is_v4:
        ip[1] = ip[8] = ip[10] = ip[11] = 0xff
    else:
        ip[0] |= 0xf
        ip[1] = ip[2] = ip[3] = ip[7] = 0xff
    udp = 20 if is_v4 else 40
    ip[udp + 6] = ip[udp + 7] = ip[udp + 8 + 4] = 0xff
    return zlib.crc32(b"\xff" * 8 + bytes(ip)) == int.from_bytes(frame[-4:], "little")


def check_all(seen, frames, name):
    assert len(seen) == len(frames), (len(seen), len(frames))
    for packet, frame in zip(seen, frames):
        worst = max([int(n) for n in packet["severity"].split(",") if n] or [0])
        assert worst < WARNING and not packet["bad"], packet
        assert packet["name"] == name and packet["dev"] == "osf0", packet
        assert packet["sum"] == "1" and is_icrc_right(frame), packet


def of_side(seen, qpns, mine):
    """What one side of a pair has shown.  Its packets go out to the peer, and come to it."""
    theirs = qpns[1] if mine == qpns[0] else qpns[0]
    ways = {("0x00000002", theirs): OUT, ("0x00000001", mine): IN}
    return [dict(p, way=ways[p["way"], int(p["qpn"], 16)], op=int(p["op"]), psn=int(p["psn"]))
            for p in seen if (p["way"], int(p["qpn"], 16)) in ways]


def brief(packets):
    return [(p["op"], p["psn"], p["way"]) for p in packets]


def check_reliable(seen, frames, qpns):
    first, second = (of_side(seen, qpns, qpn) for qpn in qpns)
    assert brief(first) == FIRST, brief(first)
    assert brief(second) == SECOND, brief(second)
    by_op = {(p["op"], p["way"]): p for p in first}
    assert int(by_op[SEND_LAST_IMM, OUT]["imm"].split(",")[0], 16) == 0x01020304, by_op
    assert by_op[READ, OUT]["dmalen"] == "2050" and by_op[WRITE_FIRST, OUT]["dmalen"] == "1025"
    assert by_op[FETCH_ADD, OUT]["add"] == "3", by_op
    # All are acknowledged but the last, which is a remote access error.
    for side in (first, second):
        codes = [p["code"] for p in side if p["op"] == ACK]
        assert codes == ["0"] * (len(codes) - 1) + ["3"], codes
        assert [p["error"] for p in side if p["error"]] == ["2"], side
    bodies = [f for p, f in zip(seen, frames)
              if int(p["op"]) == SEND_LAST_IMM and int(p["qpn"], 16) == qpns[1]]
    want = bytes(i & 0xff for i in range(2048, 3000))
    assert len(bodies) == 2 and all(f[-4 - len(want):-4] == want for f in bodies), bodies


def check_unreliable(seen, pairs):
    for mine, way in zip(pairs[UC], (OUT, IN)):
        got = brief(of_side(seen, pairs[UC], mine))
        assert got == [(0x20 + SEND_FIRST, psn(0), way), (0x20 + SEND_LAST, psn(1), way)], got
    sent, = of_side(seen, pairs[UD], pairs[UD][0])
    came, = of_side(seen, pairs[UD], pairs[UD][1])
    assert brief([sent]) == [(0x60 + SEND_ONLY, psn(0), OUT)], sent
    assert (came["op"], came["way"]) == (0x60 + SEND_ONLY, IN), came
    for p in (sent, came):
        assert int(p["qkey"], 16) == 0x11111111, p


def main():
    if not shutil.which("tshark"):
        print("skip: no tshark")
        sys.exit(77)
    os.chdir(tempfile.mkdtemp())
    name, pairs = capture("shown.pcapng")
    rows = tshark("shown.pcapng", *[word for f in FIELDS.values() for word in ("-e", f)])
    seen = [dict(zip(FIELDS, row + [""] * len(FIELDS))) for row in rows]
    frames = frames_of("shown.pcapng")
    check_all(seen, frames, name)
    check_reliable(seen, frames, pairs[RC])
    check_unreliable(seen, pairs)
    shutil.rmtree(os.getcwd())
    print("ok: %d packets" % len(seen))


main()
