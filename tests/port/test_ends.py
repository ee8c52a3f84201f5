#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/port/test_ends.py - what ends a port, a device or a connection from outside

    test_ends.py OSF TURNS [ROUNDS]

The world is test_turns.py's.  While two ends take turns and compare each byte, over IPv4 and
IPv6, with the kernel or osf as the other end: `osf port del' and `add', SIGTERM for osfd and a
new one, a device that goes down and up, an address that goes and comes, routes that come and
go.  Each of them gives the connections back to the kernel, and they move again.  A program
that sleeps hears nothing of it, and hears of the next byte.  `ss -K' ends a connection as it
ends the kernel's.  A program that has asked for a reset at its end (SO_LINGER with 0) ends in
several ways.  A connection that would move while its route is away moves later.  A
program that is away until its ring is full hears of a reset that found no room there.  No
program may see an error otherwise, and nothing is left behind: no steering program, packet
socket, worker, process or namespace.
"""
import os
import subprocess
import sys
import time

from test_turns import PATIENCE_S, PLACES, World, check, fail, number, skip

PYTHON = os.path.realpath(sys.executable)


def sh(world, place, line, may_fail=False):
    r = subprocess.run(world.inside(place, ["sh", "-c", line]), stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=PATIENCE_S)
    if r.returncode and not may_fail:
        fail("%s: %s" % (line, r.stdout.decode()))
    return r.stdout.decode()


def ports(world, place):
    """Return: {device: connections}."""
    lines = sh(world, place, world.osf + " port list").split("\n")[1:]
    return {line.split()[0]: int(line.split()[3]) for line in lines if line}


def wait_until(what, true):
    end = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > end:
            fail("no end of waiting until " + what)
        time.sleep(0.005)


def wait_moved(world, place, n=1):
    wait_until("%d connections have moved" % n,
               lambda: ports(world, place).get("v" + place, 0) >= n)


def osfd_of(world, place):
    pids = sh(world, place, "for p in $(pgrep -x osfd); do test \"$(readlink /proc/$p/ns/net)\" = "
              "$(readlink /proc/self/ns/net) && echo $p; done", True).split()
    if len(pids) != 1:
        fail("not one osfd in %s: %s" % (place, pids))
    return int(pids[0])


def runs(pid):
    """Nobody may wait for it: then it is a zombie."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# --- what must not be left ---

# As libbpf tells it: older bpftools show no tcx programs.
N_TCX = """
import ctypes, socket, sys
ids, n, flags = (ctypes.c_uint32 * 64)(), ctypes.c_uint32(64), ctypes.c_uint32()
query = ctypes.CDLL("libbpf.so.1").bpf_prog_query
assert query(socket.if_nametoindex(sys.argv[1]), 46, 0, ctypes.byref(flags), ids,
             ctypes.byref(n)) == 0
print(n.value)
"""


def steering(world, dev):
    """Return: what looks at the frames of a device, or serves programs that do."""
    place = dev[1]
    line = "%s -c '%s' %s; tail -n +2 /proc/net/packet; cat /proc/%d/task/*/children" % (
        PYTHON, N_TCX, dev, osfd_of(world, place))
    tcx, *rest = sh(world, place, line).split("\n")
    workers = [pid for pid in rest.pop().split() if name_of(pid) == "osfd-worker"]
    return [int(tcx), [row for row in rest if row], workers]


def name_of(pid):
    try:
        with open("/proc/%s/comm" % pid) as f:
            return f.read().strip()
    except OSError:
        return ""


def close_cleanly(world):
    """Closes the world, of which nothing may be left."""
    for dev in ("va", "vb"):
        wait_until("nothing looks at frames of " + dev,
                   lambda d=dev: steering(world, d) == [0, [], []])
    pids = [int(pid) for place in PLACES for pid in
            sh(world, place, "ip netns pids " + world.name(place)).split()]
    world.close()
    wait_until("no process is left", lambda: not any(runs(pid) for pid in pids))
    if any(os.path.exists("/run/netns/" + world.name(place)) for place in PLACES):
        fail("a network namespace is left")
    print("nothing is left")


# --- what happens ---

def port_goes(world, place):
    dev = "v" + place
    sh(world, place, "%s port del %s" % (world.osf, dev))
    if dev in ports(world, place):
        fail("the port is still there")
    sh(world, place, "%s port add %s" % (world.osf, dev))


def osfd_ends(world, place):
    pid = osfd_of(world, place)
    os.kill(pid, 15)
    wait_until("osfd has ended", lambda: not runs(pid))
    for dev in ["v" + place] + (["lo"] if place == "a" else []):
        sh(world, place, "%s port add %s" % (world.osf, dev))


def device_goes(world, place):
    dev = "v" + place
    n = 1 if place == "a" else 2
    sh(world, place, "ip link set %s down" % dev)
    time.sleep(0.1)
    sh(world, place, "ip link set %s up && ip addr replace fd09::%d/64 dev %s nodad" %
       (dev, n, dev))


def address_goes(world, place):
    dev = "v" + place
    n = 1 if place == "a" else 2
    for addr, more in (("10.9.0.%d/24" % n, ""), ("fd09::%d/64" % n, "nodad")):
        sh(world, place, "ip addr del %s dev %s && sleep 0.1 && ip addr add %s dev %s %s" %
           (addr, dev, addr, dev, more))


def routes_change(world, place):
    dev = "v" + place
    for i in range(20):
        sh(world, place, "ip route add 10.77.%d.0/24 dev %s && ip route del 10.77.%d.0/24" %
           (i, dev, i))


HAPPENS = {"port del": port_goes, "SIGTERM": osfd_ends, "device down": device_goes,
           "address del": address_goes, "routes": routes_change}


class Traffic:
    """Two ends, which run until the test ends them."""

    def __init__(self, world, program, host, both, seed):
        world.next_port += 1
        words = [host, str(world.next_port), "0", str(seed)]
        self.far = world.start("a", [program, "listen"] + words, both)
        self.near = world.start("b", [program, "connect"] + words, True,
                                stdin=subprocess.PIPE)

    def end(self, name, least):
        for proc in (self.near, self.far):
            if proc.poll() is not None:
                fail("%s: %s" % (name, [p.communicate()[0].decode() if p.poll() is not None
                                        else "runs" for p in (self.near, self.far)]))
        self.near.stdin.close()
        self.near.stdin = None
        said = [p.communicate(timeout=PATIENCE_S)[0].decode() for p in (self.near, self.far)]
        if self.near.returncode or self.far.returncode:
            fail("%s: %s" % (name, said))
        return check(name, said[0], 0, least), number(said[0], "MB")


def under_load(world, program, host, both, rounds, seed):
    name = "%s, %s under osf" % (host, "both" if both else "one")
    traffic = Traffic(world, program, host, both, seed)
    n = 0
    for _ in range(rounds):
        for what, happens in HAPPENS.items():
            for place in ("b", "a") if both else ("b",):
                wait_moved(world, place)
                happens(world, place)
                n += 1
                if traffic.near.poll() is not None or traffic.far.poll() is not None:
                    traffic.end(name + ": " + what, 0)
    wait_moved(world, "b")
    moved, mbytes = traffic.end(name, n // 2)
    print("%-32s %d events, moved %d times, %d MB" % (name, n, moved, mbytes))


# --- a program that sleeps ---

TURNS = """
import os, select, socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
def turn(text):
    s.sendall(text)
    got = 0
    while got < 64:
        got += len(s.recv(64 - got))
while not select.select([0], [], [], 0)[0]:
    turn(b"%064d" % 1)
    time.sleep(0.001)
sys.stdin.readline()
turn(b"x" * 64)
""".replace("import os", "import os, time")
SLEEPS = TURNS + """
e = select.epoll()
e.register(s, select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)
e.register(0, select.EPOLLIN)
while events := e.poll(0.2):
    if any(fd == 0 for fd, _ in events):
        sys.exit("the test has ended")
print("sleeps", flush=True)
events = e.poll()
print(events == [(0, select.EPOLLIN)] and "quiet" or events, flush=True)
sys.stdin.readline()
sys.stdin.readline()
e.unregister(0)
print("again", flush=True)
events = e.poll()
ok = events == [(s.fileno(), select.EPOLLIN)]
print(ok and s.recv(10) == b"now" and "heard" or events, flush=True)
"""
ECHOES = """
import socket, sys
l = socket.create_server((sys.argv[1], int(sys.argv[2])),
                         family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print("listens", flush=True)
c = l.accept()[0]
got = b""
while got[:1] != b"x":
    got = b""
    while len(got) < 64:
        got += c.recv(64 - len(got))
    c.sendall(got)
"""
ANSWERS = ECHOES + """
sys.stdin.readline()
try:
    c.sendall(b"now")
    print(c.recv(10), flush=True)
except OSError as why:
    print(type(why).__name__, flush=True)
"""


def say(proc, line=b"\n"):
    proc.stdin.write(line)
    proc.stdin.flush()


def heard(proc):
    return proc.stdout.readline().decode().strip()


def expect(proc, line):
    said = heard(proc)
    if said != line:
        fail("not %s, but: %s" % (line, said))


def far_and_near(world, answers, asks):
    """Two programs and their connection; the second runs under osf."""
    world.next_port += 1
    port = str(world.next_port)
    far = world.start("a", [PYTHON, "-c", answers, "10.9.0.1", port], False,
                      stdin=subprocess.PIPE)
    heard(far)
    near = world.start("b", [PYTHON, "-c", asks, "10.9.0.1", port], True,
                       stdin=subprocess.PIPE)
    return far, near


def sleeper(world, happens):
    far, near = far_and_near(world, ANSWERS, SLEEPS)
    wait_moved(world, "b")
    say(near)
    expect(near, "sleeps")
    happens(world, "b")
    say(near)
    expect(near, "quiet")
    say(near)
    expect(near, "again")
    say(far)
    expect(near, "heard")
    for proc in (near, far):
        proc.communicate(timeout=PATIENCE_S)


# --- a connection that would move while there is no route ---

LOOKS = TURNS[:TURNS.index("while not")] + """
def bytes_there():
    for i in range(20):
        assert s.recv(1) == b"."
        s.sendall(b".")
s.sendall(b".")
s.recv(1, socket.MSG_PEEK)
print("begins", flush=True)
sys.stdin.readline()
bytes_there()
print("looked", flush=True)
sys.stdin.readline()
while not select.select([0], [], [], 0)[0]:
    turn(b"%064d" % 1)
turn(b"x" * 64)
"""
SENDS_FIRST = ANSWERS.replace("got = b\"\"\n", """
c.recv(1)
c.sendall(b"." * 20)
assert len(c.recv(20, socket.MSG_WAITALL)) == 20
got = b""
""", 1)


def no_route(world):
    far, near = far_and_near(world, SENDS_FIRST, LOOKS)
    expect(near, "begins")
    sh(world, "b", "ip route del 10.9.0.0/24 dev vb")
    say(near)
    expect(near, "looked")
    sh(world, "b", "ip route add 10.9.0.0/24 dev vb src 10.9.0.2")
    say(near)
    wait_moved(world, "b")
    say(near)
    near.communicate(timeout=PATIENCE_S)
    far.communicate(timeout=PATIENCE_S)
    if near.returncode:
        fail("no route: status %d" % near.returncode)
    print("a connection moves after its route has come again")


# A connection that has moved, killed from outside while its program sleeps in recv().
KILLED = TURNS + """
print("sleeps", flush=True)
for i in range(3):
    try:
        print(s.recv(10), flush=True)
    except OSError as why:
        print(os.strerror(why.errno), flush=True)
try:
    s.send(b"x")
except OSError as why:
    print(os.strerror(why.errno), flush=True)
"""


def killed(world, osf, host):
    world.next_port += 1
    port = str(world.next_port)
    far = world.start("a", [PYTHON, "-c", ANSWERS, host, port], False,
                      stdin=subprocess.PIPE)
    heard(far)
    near = world.start("b", [PYTHON, "-c", KILLED, host, port], osf,
                       stdin=subprocess.PIPE)
    if osf:
        wait_moved(world, "b")
    say(near)
    expect(near, "sleeps")
    if osf and not ports(world, "b")["vb"]:
        fail("has gone back")
    sh(world, "b", "ss -K dst [%s] dport = :%s" % (host, port))
    ends = [heard(near) for _ in range(4)]
    say(far)
    far_end = heard(far)
    for proc in (near, far):
        proc.communicate(timeout=PATIENCE_S)
    return ends, far_end


def ss_kills(world, host):
    kernel = killed(world, False, host)
    if kernel[0][0] != "Software caused connection abort":
        print("this kernel has no ss -K: %s" % (kernel,))
        return
    ours = killed(world, True, host)
    if ours != kernel:
        fail("ss -K: the kernel's %s, ours %s" % (kernel, ours))
    wait_until("nothing is steered", lambda: ports(world, "b")["vb"] == 0)
    print("ss -K, %s: %s, and the peer: %s" % (host, *ours))


# A program that has asked for a reset at its end (SO_LINGER with 0), and ends in several ways.
LINGER_ENDS = {
    "SIGKILL": "os.kill(os.getpid(), 9)",
    "exit()": "sys.exit(0)",
    "_exit()": "os._exit(0)",
    "close()": "s.close(); sys.stdin.read()",
    "the end of a child": """
r, w = os.pipe()
if os.fork():
    os._exit(0)
os.close(w)
os.read(r, 1)
s.close()
""",
}
LINGERS = TURNS.replace("def turn", """
import struct
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
def turn""") + """
print("lingers", flush=True)
sys.stdin.readline()
"""
HEARS_END = """
import socket, sys
l = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("listens", flush=True)
c = l.accept()[0]
got = b""
while got[:1] != b"x":
    got = c.recv(64, socket.MSG_WAITALL)
    c.sendall(got)
try:
    print("end of stream" if not c.recv(10) else "bytes", flush=True)
except OSError as why:
    print(type(why).__name__, flush=True)
"""


def lingers(world, osf, end):
    """Return: what the peer, which is the kernel's, hears."""
    world.next_port += 1
    words = ["10.9.0.1", str(world.next_port)]
    far = world.start("a", [PYTHON, "-c", HEARS_END] + words, False, stdin=subprocess.PIPE)
    expect(far, "listens")
    near = world.start("b", [PYTHON, "-c", LINGERS + end + "\n"] + words, osf,
                       stdin=subprocess.PIPE)
    if osf:
        wait_moved(world, "b")
    say(near)
    expect(near, "lingers")
    if osf and not ports(world, "b")["vb"]:
        fail("has gone back")
    say(near)
    how = heard(far)
    for proc in (near, far):
        proc.communicate(timeout=PATIENCE_S)
    if osf:
        wait_until("nothing is steered", lambda: ports(world, "b")["vb"] == 0)
    return how


def linger_zero(world):
    for what, end in LINGER_ENDS.items():
        kernel, ours = (lingers(world, osf, end) for osf in (False, True))
        if ours != kernel:
            fail("SO_LINGER with 0 and %s: the kernel's %s, ours %s" % (what, kernel, ours))
        print("SO_LINGER with 0, %s: %s" % (what, ours))


# A ring that is full while its program is away, and a reset that finds no room in it.

FULL_CONNS = 150
FULL_BYTES = 40
MOVES_ALL = """
import os, socket, sys
conns = []
for i in range(int(sys.argv[3])):
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    conns.append(s)
while True:
    line = sys.stdin.readline()
    if line == "end\\n":
        break
    for s in conns:
        s.sendall(b"t")
    for s in conns:
        assert s.recv(1) == b"t"
    print("turned", flush=True)
for i, s in reversed(list(enumerate(conns))):
    s.settimeout(%d)
    got = b""
    try:
        while len(got) < int(sys.argv[4]) or i == 0:
            part = s.recv(100)
            assert part, "an end of stream"
            got += part
    except OSError as why:
        print(type(why).__name__, "of", i, flush=True)
    assert got == bytes(range(len(got))), got
print("over", flush=True)
""" % (PATIENCE_S // 4)
FILLS = """
import select, socket, struct, sys
l = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=4096)
print("listens", flush=True)
conns = []
for i in range(int(sys.argv[3])):
    s = l.accept()[0]
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    conns.append(s)
while not select.select([0], [], [], 0)[0]:
    for s in select.select(conns, [], [], 0.01)[0]:
        s.sendall(s.recv(1))
sys.stdin.readline()
for i in range(int(sys.argv[4])):
    for s in conns[1:]: # our TCP would answer a byte, and the answer would be reset
        s.sendall(bytes([i]))
print("sent", flush=True)
sys.stdin.readline()
conns[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
conns[0].close()
print("reset", flush=True)
sys.stdin.readline()
"""


def n_dropped(world, place):
    """Return: frames that found a ring full."""
    lines = sh(world, place, world.osf + " port list").split("\n")
    at = lines[0].split().index("DROPPED")
    return sum(int(line.split()[at]) for line in lines[1:] if line)


def full_ring(world):
    world.next_port += 1
    words = ["10.9.0.1", str(world.next_port), str(FULL_CONNS), str(FULL_BYTES)]
    far = world.start("a", [PYTHON, "-c", FILLS] + words, False, stdin=subprocess.PIPE)
    expect(far, "listens")
    # A change of addresses would send all connections back.
    wait_until("the device has its addresses",
               lambda: not sh(world, "b", "ip -6 addr show dev vb tentative"))
    near = world.start("b", [PYTHON, "-c", MOVES_ALL] + words, True, stdin=subprocess.PIPE)
    for _ in range(60):
        say(near)
        expect(near, "turned")
        if ports(world, "b")["vb"] == FULL_CONNS:
            break
    say(far)
    expect(far, "sent")
    before = n_dropped(world, "b")
    say(far)
    expect(far, "reset")
    if not before or n_dropped(world, "b") == before:
        fail("the reset found room in the ring: %d dropped" % before)
    say(near, b"end\n")
    expect(near, "ConnectionResetError of 0")
    expect(near, "over")
    for proc in (near, far):
        proc.communicate(b"\n", timeout=PATIENCE_S)
    print("a reset that finds the ring full is heard: %d frames dropped" % before)


def sleepers(world):
    for what, happens in HAPPENS.items():
        sleeper(world, happens)
        print("a program that sleeps hears nothing of: " + what)


def main():
    osf, program = (os.path.abspath(p) for p in sys.argv[1:3])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    if os.geteuid():
        skip("needs root")
    world = World(osf)
    try:
        world.open()
        sleepers(world)
        for host in ("10.9.0.1", "fd09::1"):
            ss_kills(world, host)
        linger_zero(world)
        no_route(world)
        full_ring(world)
        seed = 1
        for host in ("10.9.0.1", "fd09::1"):
            for both in (False, True):
                under_load(world, program, host, both, rounds, seed)
                seed += 1
        close_cleanly(world)
    finally:
        world.close()


if __name__ == "__main__":
    main()
