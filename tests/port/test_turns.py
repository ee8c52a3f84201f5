#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/port/test_turns.py - programs whose connections run over our own TCP

    test_turns.py OSF TURNS [MBYTES]

Two network namespaces of its own, a veth pair, a port at each end.  Two ends take turns
and compare each byte (turns.c), over IPv4 and IPv6, in both roles: one end under osf and
the other on the kernel, both under osf, and over a port on lo.  The ends under osf go back
to the kernel all the time, at any point of a turn, and move again.  Then redis-server under
osf serves clients of the kernel, `osf stat' shows what has moved, a connection whose peer begins
to send IP options or extension headers goes back for good, a program changes its user and
forks, and `osf run --port` makes a port for one command.  Nothing may be lost, reset or left behind.
"""
import json
import os
import re
import shutil
import subprocess
import sys

PATIENCE_S = 120
MOVE_MS = "20"
RULES = "use tcp tcp_client *:*\nuse tcp tcp_server *:*"
PLACES = ("a", "b")


def skip(why):
    print("skip: " + why)
    sys.exit(77)


def fail(why):
    print("FAIL: " + why)
    sys.exit(1)


class World:
    """Namespaces osf-PID-a and osf-PID-b, gone at the end."""

    def __init__(self, osf):
        self.osf = osf
        self.next_port = 7000

    def name(self, place):
        return "osf-%d-%s" % (os.getpid(), place)

    def inside(self, place, words):
        return ["ip", "netns", "exec", self.name(place)] + words

    def must(self, words):
        r = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if r.returncode:
            raise RuntimeError("%s: %s" % (" ".join(words), r.stdout.decode()))

    def join(self):
        a, b = (self.name(p) for p in PLACES)
        self.must(["ip", "link", "add", "va", "netns", a, "type", "veth",
                   "peer", "name", "vb", "netns", b])

    def open(self):
        for place in PLACES:
            if subprocess.run(["ip", "netns", "add", self.name(place)],
                              stderr=subprocess.DEVNULL).returncode:
                skip("no network namespace can be made")
        self.join()
        for i, place in enumerate(PLACES, 1):
            ip = ["ip", "-n", self.name(place)]
            dev = "v" + place
            self.must(ip + ["link", "set", "lo", "up"])
            self.must(ip + ["addr", "add", "10.9.0.%d/24" % i, "dev", dev])
            self.must(ip + ["addr", "add", "fd09::%d/64" % i, "dev", dev, "nodad"])
            self.must(ip + ["link", "set", dev, "up"])
        for conf in ("route_localnet", "accept_local"):
            self.must(self.inside("a", ["sysctl", "-qw", "net.ipv4.conf.lo.%s=1" % conf,
                                        "net.ipv4.conf.all.%s=1" % conf]))
        for place, dev in (("a", "va"), ("a", "lo"), ("b", "vb")):
            r = subprocess.run(self.inside(place, [self.osf, "port", "add", dev]),
                               stderr=subprocess.PIPE)
            if r.returncode:
                skip("no port: " + r.stderr.decode().strip())

    def close(self):
        for place, dev in (("a", "va"), ("a", "lo"), ("b", "vb")):
            subprocess.run(self.inside(place, [self.osf, "port", "del", dev]),
                           stderr=subprocess.DEVNULL)
        for place in PLACES:
            subprocess.run(["ip", "netns", "del", self.name(place)],
                           stderr=subprocess.DEVNULL)

    def start(self, place, words, osf, **more):
        env = dict(os.environ)
        env.pop("LD_PRELOAD", None)
        if osf:
            env["OSF_RULES"] = RULES
            words = [self.osf, "run", "--stats", "--"] + words
        return subprocess.Popen(self.inside(place, words), env=env,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)


def number(text, what):
    """Return: the number in front of a word, which osf run --stats rounds."""
    found = re.search(r"([0-9.]+)([kM]?) " + what, text)
    return int(float(found.group(1)) * {"": 1, "k": 1e3, "M": 1e6}[found.group(2)]) if found else 0


def check(name, text, status, least):
    """The end of a program under osf."""
    moved = number(text, "upgraded")
    if status or moved < least or "reset" in text:
        fail("%s: status %d, moved %d times\n%s" % (name, status, moved, text))
    return moved


def turns(world, program, listener, host, who, mbytes, seed):
    """@listener: a place; @who: the ends under osf, of "listen" and "connect"."""
    opener = "b" if listener[0] == "a" and listener != "aa" else "a"
    world.next_port += 1
    port = str(world.next_port)
    procs = {}
    for role, place in (("listen", listener[0]), ("connect", opener)):
        osf = role in who
        words = [program, role, host, port, str(mbytes), str(seed)]
        procs[role] = world.start(place, words + ([MOVE_MS] if osf else []), osf)
    name = "%s, %s under osf" % (host, " and ".join(who))
    moved = 0
    said = {}
    for role, proc in procs.items():
        try:
            said[role] = proc.communicate(timeout=PATIENCE_S)[0].decode()
        except subprocess.TimeoutExpired:
            fail("%s: no end in %d s" % (name, PATIENCE_S))
    if any(proc.returncode for proc in procs.values()):
        fail("%s: %s" % (name, said))
    for role in who:
        moved += check(name + ": " + role, said[role], procs[role].returncode, 1)
    print("%-40s %d MB, moved %d times" % (name, mbytes, moved))


def redis(world):
    server = shutil.which("redis-server")
    bench = shutil.which("redis-benchmark")
    if not server or not bench:
        print("no redis here")
        return
    proc = world.start("a", [server, "--port", "6399", "--bind", "10.9.0.1", "--save", "",
                             "--protected-mode", "no"], True)
    words = world.inside("b", [bench, "-h", "10.9.0.1", "-p", "6399"])
    cli = words[:-5] + ["redis-cli"] + words[-4:]
    for line in proc.stdout:
        if b"Ready to accept" in line:
            break
    r = subprocess.run(words + ["-c", "20", "-n", "5000", "-t", "set,get,lrange_100", "-q"],
                       timeout=PATIENCE_S, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    subprocess.run(cli + ["shutdown", "nosave"], stderr=subprocess.DEVNULL)
    text = proc.communicate(timeout=PATIENCE_S)[0].decode()
    if r.returncode or "Error" in r.stdout.decode():
        fail("redis-benchmark: " + r.stdout.decode())
    print("redis-server, 20 clients: moved %d times" %
          check("redis-server", text, proc.returncode, 20))


# A moved connection goes on after a change of user and in a child; the grant does not.
CHANGES_USER = """
import os, socket, sys
def connect():
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s
s = connect()
def echo(n):
    for i in range(n):
        m = b"%064d" % i
        s.sendall(m)
        got = b""
        while len(got) < 64:
            got += s.recv(64 - len(got))
        assert got == m
def grants():
    names = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink("/proc/self/fd/" + fd))
        except OSError:
            pass
    return sum("bpf" in name for name in names)
echo(50)
assert grants() == 1, "has not moved"
def fork():
    pid = os.fork()
    if not pid:
        echo(20)
        os._exit(grants())
    assert os.waitpid(pid, 0)[1] == 0
fork()
echo(20)
s.close()
s = connect()
echo(50)
os.setuid(65534)
assert grants() == 0, "keeps the grant"
echo(50)
fork()
echo(20)
"""
ECHOES = """
import socket, sys
l = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("listens", flush=True)
for i in range(2):
    c = l.accept()[0]
    while True:
        m = c.recv(4096)
        if not m:
            break
        c.sendall(m)
"""


# Moves, goes back and moves again, and waits with a connection that has moved.
MOVES_TWICE = """
import os, socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
def echo(n):
    for i in range(n):
        s.sendall(b"%064d" % i)
        got = 0
        while got < 64:
            got += len(s.recv(64 - got))
echo(50)
s.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 0)
echo(50)
print("pid", os.getpid(), flush=True)
sys.stdin.readline()
"""


# Some small turns, and one that no window has room for.
BULK_TURNS = """
import os, socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for i in range(60):
    for n in (64, 64, 64, 600000):
        s.sendall(b"%09d" % n + bytes(n - 9))
        assert s.recv(1) == b"."
print("pid", os.getpid(), flush=True)
sys.stdin.readline()
"""
TAKES = """
import socket, sys
l = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("listens", flush=True)
f = l.accept()[0].makefile("rwb", 0)
while True:
    n = f.read(9)
    if not n:
        break
    left = int(n) - 9
    while left:
        left -= len(f.read(min(left, 65536)))
    f.write(b".")
"""


# A child has the set, too.  A wait that no frame ends takes 0.1 s, so all of them would take
# longer than PATIENCE_S.
SHARED_SET = """
import os, select, socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
e = select.epoll()
held, ends = os.pipe()
told, tell = os.pipe()
if not os.fork():
    os.close(ends)
    s.close()
    os.write(tell, b"x")
    os.read(held, 1)
    os._exit(0)
os.read(told, 1)  # a connection that a child has, too, does not move
e.register(s, select.EPOLLIN)
for i in range(1500):
    s.sendall(b"%064d" % i)
    got = 0
    while got < 64:
        e.poll()
        more = s.recv(64 - got)
        assert more
        got += len(more)
os.close(ends)
os.wait()
"""


# How often the first thread has slept.
SWITCHES = """
import os
def switches():
    with open("/proc/self/task/%d/status" % os.getpid()) as f:
        return next(int(l.split()[1]) for l in f if l.startswith("voluntary"))
"""
# The first thread waits for what does not come, on the core of the one that answers 16 clients.
WAITS_IN_VAIN = SWITCHES + """
import select, socket, sys, threading
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
l = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("listens", flush=True)
conns = {}
answers = select.epoll()
for _ in range(16):
    c, _ = l.accept()
    conns[c.fileno()] = c
    answers.register(c, select.EPOLLIN)
over, ends = os.pipe()
waits = select.epoll()
waits.register(over, select.EPOLLIN)
def answer():
    while conns:
        for fd, _ in answers.poll():
            m = conns[fd].recv(64)
            if m:
                conns[fd].sendall(m)
            else:
                answers.unregister(fd)
                conns.pop(fd).close()
    os.write(ends, b"x")
before = switches()
worker = threading.Thread(target=answer)
worker.start()
while not waits.poll(0.05):
    pass
worker.join()
print("woken", switches() - before, flush=True)
"""
# The first thread waits for what does not come.  Nobody else waits: the one that sends never does.
WAITS_ALONE = SWITCHES + """
import select, socket, sys, threading, time
l = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("listens", flush=True)
silent, talks = l.accept()[0], l.accept()[0]
for c in (silent, talks):
    for i in range(40):
        c.sendall(c.recv(64, socket.MSG_WAITALL))
talks.setblocking(False)
waits = select.epoll()
waits.register(silent, select.EPOLLIN)
def publish():
    for i in range(300):
        talks.send(bytes(64))
        try:
            talks.recv(65536)
        except BlockingIOError:
            pass
        time.sleep(0.005)
    silent.shutdown(socket.SHUT_RDWR)
before = switches()
threading.Thread(target=publish).start()
waits.poll()
print("woken", switches() - before, flush=True)
"""
ECHOES_2 = """
import socket, sys
conns = [socket.create_connection((sys.argv[1], int(sys.argv[2]))) for _ in range(2)]
for c in conns:
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for i in range(40):
        c.sendall(bytes(64))
        assert len(c.recv(64, socket.MSG_WAITALL)) == 64
while True:
    m = conns[1].recv(64)
    if not m:
        break
    try:
        conns[1].sendall(m)
    except OSError:
        break
"""
ASKS_16 = """
import socket, sys
conns = [socket.create_connection((sys.argv[1], int(sys.argv[2]))) for _ in range(16)]
for i in range(1000):
    for c in conns:
        c.sendall(b"%064d" % i)
    for c in conns:
        assert len(c.recv(64, socket.MSG_WAITALL)) == 64
"""


# The peer, of the kernel: from the second kind of message on, its segments have what our TCP
# leaves to the kernel.
STRANGE = """
import socket, sys
v6 = ":" in sys.argv[1]
l = socket.create_server((sys.argv[1], int(sys.argv[2])), family=10 if v6 else 2)
print("listens", flush=True)
c = l.accept()[0]
while True:
    text = c.recv(100)
    if not text:
        break
    if text == b"strange" and v6:
        c.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_DSTOPTS, bytes((0, 0, 1, 4, 0, 0, 0, 0)))
    elif text == b"strange":
        c.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, bytes((1, 1, 1, 1)))
    c.sendall(text)
"""
MEETS_STRANGE = """
import os, socket, sys
c = socket.create_connection((sys.argv[1], int(sys.argv[2])))
for text in [b"plain"] * 100 + [b"strange"] * 100:
    c.sendall(text)
    assert c.recv(100) == text
print("pid", os.getpid(), flush=True)
sys.stdin.readline()
"""


def counted_at_end(world, near, far):
    """Return: what `osf stat --json` says of the process of @near.  Then both ends may end."""
    pid = near.stdout.readline().decode().split()[1]
    r = subprocess.run(world.inside("a", [world.osf, "stat", "--json", pid]),
                       stdout=subprocess.PIPE, timeout=PATIENCE_S)
    near.communicate(b"\n", timeout=PATIENCE_S)
    far.communicate(timeout=PATIENCE_S)
    return json.loads(r.stdout)


def follows_a_strange_peer(world, host, port):
    python = os.path.realpath(sys.executable)
    far = world.start("b", [python, "-c", STRANGE, host, port], False)
    far.stdout.readline()
    near = world.start("a", [python, "-c", MEETS_STRANGE, host, port], True,
                       stdin=subprocess.PIPE)
    process = counted_at_end(world, near, far)["processes"][0]
    s = process["sockets"][0]
    if (s["reason"], s["n_freezes"], s["n_thaws"]) != ("headers", 1, 1):
        fail("IP headers that are the kernel's: %s" % s)
    if not process["totals"]["drops"].get("ip_options"):
        fail("osf stat does not say which frames were dropped: %s" % process["totals"])
    print("%s: a connection goes where its peer's headers are understood" % host)


def wakes_who_shares_a_set(world):
    python = os.path.realpath(sys.executable)
    far = world.start("b", [python, "-c", ECHOES.replace("range(2)", "range(1)"), "10.9.0.2",
                            "6505"], False)
    far.stdout.readline()
    near = world.start("a", [python, "-c", SHARED_SET, "10.9.0.2", "6505"], True)
    try:
        text = near.communicate(timeout=PATIENCE_S)[0].decode()
    except subprocess.TimeoutExpired:
        near.kill()
        far.kill()
        fail("a set that a child has, too: frames do not end its waits")
    far.communicate(timeout=PATIENCE_S)
    check("a set that a child has, too", text, near.returncode, 1)
    print("a set that a child has, too")


def times_woken(world, waits, peer, port, moved):
    """How often the first thread of @waits was woken; @moved: connections, at least."""
    python = os.path.realpath(sys.executable)
    near = world.start("a", [python, "-c", waits, "10.9.0.1", port], True)
    near.stdout.readline()
    far = world.start("b", [python, "-c", peer, "10.9.0.1", port], False)
    text = near.communicate(timeout=PATIENCE_S)[0].decode()
    far.communicate(timeout=PATIENCE_S)
    check("who waits in vain", text, near.returncode, moved)
    return int(re.search(r"woken (\d+)", text).group(1))


# Each frame wakes whoever sleeps.  Who has been woken in vain again and again sleeps on, though
# it may be the quickest and take all frames; but not if nobody else waits for them.
def leaves_alone_who_waits_in_vain(world):
    n = times_woken(world, WAITS_IN_VAIN, ASKS_16, "6508", 16)
    alone = times_woken(world, WAITS_ALONE, ECHOES_2, "6509", 2)
    if n > 400 or alone < 200:
        fail("who waits in vain: woken %d times by 16000 questions; alone, %d times by 300"
             % (n, alone))
    print("who waits in vain: woken %d times by 16000 questions; alone, %d times by 300"
          % (n, alone))


def rests_after_bulk(world):
    python = os.path.realpath(sys.executable)
    far = world.start("b", [python, "-c", TAKES, "10.9.0.2", "6504"], False)
    far.stdout.readline()
    near = world.start("a", [python, "-c", BULK_TURNS, "10.9.0.2", "6504"], True,
                       stdin=subprocess.PIPE)
    n = counted_at_end(world, near, far)["processes"][0]["sockets"][0]["n_freezes"]
    if not 2 <= n <= 20:
        fail("%d moves in 60 bulks" % n)
    print("a connection that a rule moves rests after bulk: %d moves" % n)


def shown_by_stat(world):
    python = os.path.realpath(sys.executable)
    far = world.start("b", [python, "-c", ECHOES.replace("range(2)", "range(1)"), "10.9.0.2",
                            "6502"], False)
    far.stdout.readline()
    near = world.start("a", [python, "-c", MOVES_TWICE, "10.9.0.2", "6502"], True,
                       stdin=subprocess.PIPE)
    doc = counted_at_end(world, near, far)
    s = doc["processes"][0]["sockets"][0]
    if (s["proto"], s["n_freezes"], s["n_thaws"]) != ("tcp", 2, 1) or not s["cwnd"]:
        fail("osf stat: %s" % s)
    port = {p["device"]: p for p in doc["ports"]}["va"]
    if port["n_programs"] < 1 or port["n_flows"] < 1 or port["n_frames"] < 50:
        fail("osf stat: %s" % doc["ports"])
    print("osf stat shows ports, freezes and thaws")


def changes_user(world):
    # Not pyenv's script, which runs a shell.
    python = os.path.realpath(sys.executable)
    far = world.start("b", [python, "-c", ECHOES, "10.9.0.2", "6500"], False)
    far.stdout.readline()
    near = world.start("a", [python, "-c", CHANGES_USER, "10.9.0.2", "6500"], True)
    text = near.communicate(timeout=PATIENCE_S)[0].decode()
    far.communicate(timeout=PATIENCE_S)
    if near.returncode:
        fail("a program that changes its user: " + text)
    print("a program that changes its user, and forks")


def for_one_command(world, program):
    world.must(world.inside("b", [world.osf, "port", "del", "vb"]))
    far = world.start("a", [program, "listen", "10.9.0.1", "6501", "2", "9"], False)
    r = subprocess.run(world.inside("b", [world.osf, "run", "--port", "vb", "--stats",
                                          "-r", RULES.split("\n")[0], "--", program, "connect", "10.9.0.1", "6501", "2", "9"]),
                       timeout=PATIENCE_S, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    far.communicate(timeout=PATIENCE_S)
    check("osf run --port", r.stdout.decode(), r.returncode, 1)
    r = subprocess.run(world.inside("b", [world.osf, "port", "list"]), stdout=subprocess.PIPE)
    if b"vb" in r.stdout:
        fail("osf run --port leaves the port: " + r.stdout.decode())
    print("osf run --port")


def main():
    osf, program = (os.path.abspath(p) for p in sys.argv[1:3])
    mbytes = int(sys.argv[3]) if len(sys.argv) > 3 else 4
    if os.geteuid():
        skip("needs root")
    world = World(osf)
    try:
        world.open()
        seed = 1
        for host, listener in (("10.9.0.1", "a"), ("10.9.0.2", "b"),
                               ("fd09::1", "a"), ("fd09::2", "b"),
                               ("127.0.0.1", "aa"), ("::1", "aa")):
            both = ["listen", "connect"]
            for who in [both] if listener == "aa" else [both[:1], both[1:], both]:
                turns(world, program, listener, host, who, mbytes, seed)
                seed += 1
        redis(world)
        shown_by_stat(world)
        rests_after_bulk(world)
        follows_a_strange_peer(world, "10.9.0.2", "6506")
        follows_a_strange_peer(world, "fd09::2", "6507")
        wakes_who_shares_a_set(world)
        leaves_alone_who_waits_in_vain(world)
        changes_user(world)
        for_one_command(world, program)
    finally:
        world.close()


if __name__ == "__main__":
    main()
