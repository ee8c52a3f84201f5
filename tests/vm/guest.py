#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/vm/guest.py - the tests that run in the virtual machine: see README.md

    guest.py [PART...]        PART: devices golden programs interop; default: all

The guest has a soft-RoCE device, rxe0, on one end of a veth; the other end is in a network
namespace, where osf's own device speaks RoCEv2.
"""
import difflib
import os
import re
import shlex
import subprocess
import sys
import time

OUT = "/run/vm/out"
BUILD = os.environ["OSF_BUILD"]
OSF = os.path.join(BUILD, "osf")
HERE, FAR = "10.88.0.1", "10.88.0.2"
LIMIT_S = 60
SENT = "/sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts"
failed = []

# Server and client; the client's last word is the server's address.  {d}: the device with
# its GID, as pingpongs and perftest take them.
PINGPONGS = ["ibv_rc_pingpong {d} -c -n 100", "ibv_rc_pingpong {d} -c -e -n 50", "ibv_rc_pingpong {d} -c -s 100000 -n 4",
             "ibv_uc_pingpong {d} -c -n 50", "ibv_ud_pingpong {d} -c -n 50", "ibv_srq_pingpong {d} -c -n 40"]
PERFTEST = ["ib_send_lat {p} -n 50", "ib_send_bw {p} -n 50 -s 4096", "ib_write_lat {p} -n 50", "ib_write_bw {p} -n 50",
            "ib_read_lat {p} -n 50 -o 8", "ib_read_bw {p} -n 50 -s 4096 -o 8", "ib_atomic_lat {p} -n 50 -o 8",
            "ib_atomic_bw {p} -n 50 -o 8", "ib_send_lat {p} -c UD -n 50", "ib_write_lat {p} -c UC -n 50", "ib_send_lat {p} -n 20 -e"]
# Of rdma_cm.
CM = [("rping -s -C 3 -S 3000 -p {port}", "rping -c -C 3 -S 3000 -V -p {port} -a"),
      ("ucmatose -c 3 -p {port}", "ucmatose -c 3 -p {port} -s"),
      ("udaddy -c 2", "udaddy -c 2 -s"),
      ("rdma_server -p {port}", "rdma_client -p {port} -s"),
      ("ib_write_bw -R -F -n 20 -p {port}", "ib_write_bw -R -F -n 20 -p {port}"),
      ("rstream -p {port} -S 10000 -C 5", "rstream -p {port} -S 10000 -C 5 -s")]


def check(good, what, text=""):
    print("%-4s %s" % ("ok" if good else "FAIL", what), flush=True)
    if not good:
        failed.append(what)
        print("    " + "\n    ".join(text.strip().split("\n")[-12:]), flush=True)
    return good


def shell(text):
    subprocess.run(shlex.split(text), check=True)


def world():
    for line in ["ip link add veth0 type veth peer name veth1", "ip netns add far", "ip link set veth1 netns far",
                 "ip addr add %s/24 dev veth0" % HERE, "ip link set veth0 up", "ip -n far addr add %s/24 dev veth1" % FAR,
                 "ip -n far link set lo up", "ip -n far link set veth1 up", "rdma link add rxe0 type rxe netdev veth0"]:
        shell(line)


class Side:
    """Where an end of a connection runs.  @front: under `osf run`; @far: in the namespace."""

    def __init__(self, device, front=False, far=False):
        self.device, self.front, self.far = device, front, far
        self.address = FAR if far else HERE
        self.gid = 1 # IPv4's, of both devices

    def command(self, text, port):
        pingpong = "-d %s -g %d -p %d" % (self.device, self.gid, port)
        words = shlex.split(text.format(d=pingpong, p=pingpong.replace("-g", "-x") + " -F", port=port))
        if self.front:
            words = [OSF, "run", "--"] + words
        return ["ip", "netns", "exec", "far"] + words if self.far else words

    def start(self, text, port, name):
        log = open(os.path.join(OUT, name), "w")
        env = dict(os.environ, OSF_RDMA_COUNTERS="/tmp/counters-" + name)
        if self.far: # rdma_cm is osf's, though the kernel has devices
            env["OSF_RDMA_CM"] = "1"
        return subprocess.Popen(self.command(text, port), stdout=log, stderr=subprocess.STDOUT, env=env)


def read(path):
    """Return: what it says; nothing if it has gone."""
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def said(name):
    return read(os.path.join(OUT, name))


def output(words):
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=LIMIT_S).stdout


def finish(process):
    try:
        return process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return "no end in %d s" % LIMIT_S


def listens(port, process, is_cm):
    """Until a program waits for its peer: on a TCP port, or one of rdma_cm's."""
    end = time.monotonic() + 30
    want = re.compile(r":%04X \S+ 0A |@osf-cm/\d+/%d/" % (port, port))
    while time.monotonic() < end and process.poll() is None:
        # Of the namespace where the program is.
        tables = "".join(read("/proc/%d/net/%s" % (process.pid, name)) for name in ("tcp", "tcp6", "unix"))
        if want.search(tables):
            return
        if is_cm and re.search(r"state LISTEN.*:%d\b" % port, output(["rdma", "resource", "show", "cm_id"])):
            return
        time.sleep(0.05)


def plain(text):
    """Return: what a program said, without numbers and what perftest says of the clock."""
    text = re.sub(r"[-+.:\w]*\d[-+.:\w]*|-?\b(nan|inf)\b", "#", text)
    lines = [" ".join(line.split()) for line in text.split("\n")]
    return "\n".join(sorted(line for line in lines # two streams, so without their order
                            if "Correlation coefficient" not in line and "CPU frequency" not in line))


def counted(name):
    """Return: what osf0 has moved for this program, or None: nobody opened it."""
    path = "/tmp/counters-" + name
    if not os.path.exists(path):
        return None
    with open(path) as f:
        return sum(int(n) for n in re.findall(r"(?:sends|recvs|writes|reads|atomics)=(\d+)", f.read()))


def is_right_device(name, side):
    """librdmacm opens all devices, so bytes say which one a program uses.  But who answers RDMA reads, writes and
    atomics counts none; the other host has no other device that could have answered."""
    n = counted(name)
    return n is not None if side.device == "osf0" else not n


def sent():
    with open(SENT) as f:
        return int(f.read())


def run_pair(what, texts, sides, port, tag=""):
    name = "%s%d" % (tag, port)
    server = sides[0].start(texts[0], port, name + ".server")
    listens(7174 if "udaddy" in texts[0] else port, server, tuple(texts) in CM)
    client = sides[1].start(texts[1] + " " + sides[0].address, port, name + ".client")
    status = [finish(client), finish(server)]
    texts = [said(name + ".client"), said(name + ".server")]
    for end, side in zip(["server", "client"], sides):
        if not is_right_device("%s.%s" % (name, end), side):
            status.append("the %s did not use %s" % (end, side.device))
    check(status == [0, 0], what, "status %s\n%s" % (status, "---\n".join(texts)))
    return texts


def rows():
    return [(t, t) for t in PINGPONGS + PERFTEST] + CM


def title(texts):
    return re.sub(r"\{\w+\} ?", "", texts[1]).replace(" -p", "").rsplit(" -s" if texts[1].endswith("-s") else " -a", 1)[0]


def names_of(devinfo):
    """Return: what has a value; flags and GIDs have no name."""
    return set(re.findall(r"^\s*(\w[^:\[\n]*):", devinfo, re.M))


def part_devices():
    run = [OSF, "run", "--"]
    names = [line.split()[0] for line in output(run + ["ibv_devices"]).splitlines()[2:]]
    check(sorted(names) == ["osf0", "rxe0"], "both devices are listed", str(names))
    of_both = output(run + ["ibv_devinfo", "-d", "rxe0", "-v"])
    check("rxe0" in of_both and of_both == output(["ibv_devinfo", "-d", "rxe0", "-v"]),
          "ibv_devinfo of soft-RoCE is the same under osf run", of_both)
    of_ours = output(run + ["ibv_devinfo", "-d", "osf0", "-v"])
    for device, text in [("rxe0", of_both), ("osf0", of_ours)]:
        with open(os.path.join(OUT, "devinfo-" + device), "w") as f:
            f.write(text)
    check(names_of(of_both) <= names_of(of_ours), "ibv_devinfo of osf0 has the lines that it has of soft-RoCE",
          str(names_of(of_both) - names_of(of_ours)))
    true = subprocess.run(["python3", "tests/verbs/test_devinfo.py", os.path.join(BUILD, "tests/test_limits")],
                          stdout=subprocess.PIPE, text=True, check=False, timeout=300)
    check(true.returncode == 0, "each line of osf0 is true beside soft-RoCE, and each limit", true.stdout)
    # A device with XRC would be an end for far_xrc.c.
    check(not re.search(r"^\s*XRC$", of_both, re.M), "soft-RoCE has no XRC")


def part_golden():
    golden = os.path.join(BUILD, "tests/golden")
    for device, command in [("rxe0", []), ("osf0", [OSF, "run", "--"])]:
        keep = ["--keep", os.path.join(OUT, "golden.txt")] if device == "rxe0" else []
        run = subprocess.run(["python3", "tests/vm/compare.py"] + keep + ["tests/vm/golden.txt", golden, device] + command,
                             capture_output=True, text=True, check=False, timeout=300)
        check(run.returncode == 0, "%s: %s" % (device, run.stdout.strip().split("\n")[-1]), run.stdout)


def part_programs():
    """On soft-RoCE alone and under `osf run`, in turn."""
    alone, front = Side("rxe0"), Side("rxe0", front=True)
    for i, row in enumerate(rows()):
        said_alone = run_pair("soft-RoCE: " + title(row), row, [alone, alone], 18500 + i, "alone")
        before = sent()
        said_front = run_pair("soft-RoCE under osf run: " + title(row), row, [front, front], 18500 + i, "front")
        check(sent() > before, "  the kernel has sent it")
        for end, ours, theirs in zip(["client", "server"], map(plain, said_front), map(plain, said_alone)):
            check(ours == theirs, "  its %s says the same" % end, "".join(difflib.unified_diff(
                theirs.splitlines(True), ours.splitlines(True), "alone", "under osf run", n=0)))


def part_interop():
    rxe, ours = Side("rxe0"), Side("osf0", front=True, far=True)
    for turn, sides in enumerate([[rxe, ours], [ours, rxe]]):
        for i, texts in enumerate(rows()):
            run_pair("%s: %s" % (["osf asks soft-RoCE", "soft-RoCE asks osf"][turn], title(texts)), texts, sides,
                     18600 + 50 * turn + i, "interop")


PARTS = {"devices": part_devices, "golden": part_golden, "programs": part_programs, "interop": part_interop}


def main():
    world()
    for part in sys.argv[1:] or PARTS:
        start = time.monotonic()
        PARTS[part]()
        print("-- %s: %d s" % (part, time.monotonic() - start), flush=True)
    print("%d failed" % len(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
