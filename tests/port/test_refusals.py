#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/port/test_refusals.py - connections that may not move to our own TCP, and why

    test_refusals.py OSF [NAME ...]

The world is test_turns.py's: two network namespaces, a veth pair, a port at each end.  A program
under osf in b takes turns with one of the kernel's in a, and each byte is compared.  Each line
of CASES gives it, or its namespace, one thing for which the connection must stay in the kernel.
After the turns the port has to have no connection, none may ever have been frozen, and `osf
stat' has to say that reason.  Then bytes flow again.  The first cases move, so that the others
would show it.

Not here, since they cannot be made to happen at will: SLOWER (port_pasts writes what the judge
has found out), a second version of osfd (port_daemon), TCP_ULP (this needs kTLS), TCP-AO and
AccECN (newer kernels), and a socket in a BPF sockmap, of which the kernel does not tell osfd.
"""
import json
import os
import subprocess
import sys

from test_ends import PYTHON, expect, heard, ports, say, sh
from test_turns import PATIENCE_S, RULES, World, fail, skip

TURNS = """
import array, ctypes, fcntl, os, resource, signal, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def md5(s, host):
    key = struct.pack("=HH4s", 2, 0, socket.inet_aton(host)).ljust(128, b"\\0")
    s.setsockopt(6, 14, key + struct.pack("=BBHi", 0, 0, 3, 0) + b"key".ljust(80, b"\\0"))
def drops_nothing(s):
    code = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0xffffffff))
    s.setsockopt(1, 26, struct.pack("HP", 1, ctypes.addressof(code)))
def recv_all(s, n):
    got = b""
    while len(got) < n:
        more = s.recv(n - len(got))
        assert more, "an early end"
        got += more
    return got
size, protocol = 64, 0
def turns(n):
    for i in range(n):
        text = b"%08d" % i * (size // 8)
        s.sendall(text)
        assert recv_all(s, size) == text, "wrong bytes"
def join(role, host, port, prepare):
    if role == "listen":
        l = socket.socket()
        l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        prepare(l)
        l.bind(("0.0.0.0", port))
        l.listen()
        print("listens", flush=True)
        return l.accept()[0]
    s = socket.socket(2, 1, protocol)
    prepare(s)
    s.connect((host, port))
    return s
"""
NEAR = TURNS + """
role, host, port, fd = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
protocol = @protocol@
def prepare(s):
    @before@
s = socket.socket(fileno=fd) if fd >= 0 else join(role, host, port, prepare)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
@after@
turns(40)
print("done", flush=True)
sys.stdin.readline()
turns(5)
s.close()
"""
# Makes the connection without osf, and becomes NEAR.
HANDS_ON = TURNS + """
role, host, port, fd = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def prepare(s):
    @before@
s = join(role, host, port, prepare)
s.set_inheritable(True)
os.execv(sys.argv[5], sys.argv[5:] + [role, host, str(port), str(s.fileno())])
"""
FAR = TURNS + """
role, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
def prepare(s):
    @far@
s = join(role, host, port, prepare)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while True:
    got = s.recv(65536)
    if not got:
        break
    s.sendall(got)
"""

PORT = "port"
OPTION = "option"
SIGNED = "signed"
NO_PORT = "no_port"
NFT = "nft add table ip t; nft add chain ip t c '{ type %s; }'; nft add rule ip t c %s"
NO_NFT = "nft delete table ip t"
INHERITED = {"hands_on": True}


def set_before(level, name, value):
    return {"before": "s.setsockopt(%s, %s, %s)" % (level, name, value)}


def set_after(level, name, value):
    return {"after": "s.setsockopt(%s, %s, %s)" % (level, name, value)}


# Name: the reason, and what is different.  None: osf keeps nothing of the connection.
CASES = {
    "moves": (PORT, {}),
    "moves, accepted": (PORT, {"role": "listen"}),
    "moves, inherited": (PORT, INHERITED),
    # Conntrack has not seen what was sent over the port.
    "moves, and back past a firewall": (PORT, {
        "setup": NFT % ("filter hook input priority 0", "ct state invalid drop"), "undo": NO_NFT,
        "needs": "nft", "after": "for i in range(20):\n    turns(20)\n"
                                 "    s.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 0)"}),

    # Rules, ports and osfd.
    "rule os": ("rule", {"rules": "use os tcp_client *:*"}),
    "no rule": ("other_netns", {"rules": ""}),
    "OSF_TCP=0": ("no_tcp",
                  {"env": {"OSF_TCP": "0"}}),
    "no port": (NO_PORT, {"host": "10.10.0.1"}),
    "another port": (NO_PORT, {"host": "10.10.0.1", "setup": "$OSF port add vd",
                               "undo": "$OSF port del vd", "others": 1,
                               "after": "o = s; s = socket.create_connection(('10.9.0.1', port))\n"
                                        "turns(40); o, s = s, o"}),
    "another user's": (NO_PORT, {"setup": "$OSF port del vb; $OSF port add vb --user 12345",
                                 "before": "os.setuid(12346)",
                                 "undo": "$OSF port del vb --user 12345; $OSF port add vb"}),
    "flows": ("flows",
              {"setup": "$OSF port del vb; $OSF port add vb --flows 1", "others": 1,
               "after": "o = s; s = socket.create_connection((host, port))\n"
                        "turns(40); o, s = s, o",
               "undo": "$OSF port del vb; $OSF port add vb"}),
    "lo": ("lo",
           {"host": "127.0.0.1", "far_place": "b", "setup": "$OSF port add lo",
            "undo": "$OSF port del lo"}),

    # What the socket has been told.
    "SO_OOBINLINE": ("urgent", set_after(1, 10, 1)),
    "SO_PEEK_OFF": (OPTION, set_after(1, 42, 0)),
    "SO_TIMESTAMP": (OPTION, set_after(1, 29, 1)),
    "a filter": (OPTION, {"after": "drops_nothing(s)"}),
    "SO_ZEROCOPY": ("zerocopy", set_after(1, 60, 1)),
    "SO_LINGER": (OPTION, set_after(1, 13, "struct.pack('ii', 1, 5)")),
    "SO_MAX_PACING_RATE": (OPTION, set_after(1, 47, 10 ** 8)),
    "IP_TTL": (OPTION, set_after(0, 2, 255)),
    "IP_TOS": (OPTION, set_after(0, 1, 0x10)),
    "IP_MINTTL": (OPTION, set_after(0, 21, 1)),
    "IP_OPTIONS": (OPTION, set_after(0, 4, "b'\\1\\1\\1\\0'")),
    "O_ASYNC": ("async",
                {"after": "signal.signal(signal.SIGIO, signal.SIG_IGN)\n"
                          "fcntl.fcntl(s, fcntl.F_SETOWN, os.getpid())\n"
                          "fcntl.fcntl(s, fcntl.F_SETFL, os.O_ASYNC)"}),
    "MSG_OOB": ("urgent", {"after": "s.send(b'!', socket.MSG_OOB)"}),
    "shutdown": ("half_closed",
                 {"after": "text = bytes(range(256)) * 16\ns.sendall(text)\n"
                           "s.shutdown(socket.SHUT_WR)\nassert recv_all(s, 4096) == text\n"
                           "turns = lambda n: None"}),
    "not quiet": ("busy",
                  {"after": "s.sendall(b'x' * 8)\nleft = b'x' * 8\n"
                            "def turns(n):\n    global left\n    for i in range(n):\n"
                            "        text = b'%08d' % i * 8\n        left += text\n"
                            "        s.sendall(text)\n"
                            "        assert recv_all(s, 64) == left[:64]\n"
                            "        left = left[64:]"}),

    # What a listener has been told, and what no call of the program under osf has.
    "SO_OOBINLINE of a listener": ("urgent", dict(set_before(1, 10, 1), role="listen")),
    "a listener's filter": (OPTION, {"role": "listen", "before": "drops_nothing(s)"}),
    "SO_ZEROCOPY, inherited": ("zerocopy",
                               dict(set_before(1, 60, 1), **INHERITED)),
    "TCP_CORK, inherited": (OPTION, dict(set_before(6, 3, 1), size=11584, **INHERITED)),
    "SO_TIMESTAMP, inherited": (OPTION, dict(set_before(1, 29, 1), **INHERITED)),
    "a filter, inherited": ("not_frozen",
                            {"before": "drops_nothing(s)", **INHERITED}),

    # What else the kernel does to its segments.
    "TCP-MD5": (OPTION, {"before": "md5(s, '10.9.0.1')", "far": "md5(s, '10.9.0.2')"}),
    "TCP-MD5, inherited": (SIGNED, {"before": "md5(s, '10.9.0.1')",
                                    "far": "md5(s, '10.9.0.2')", **INHERITED}),
    "DNAT": ("nat",
             {"near_port": 7998, "needs": "nft", "undo": NO_NFT,
              "setup": NFT % ("nat hook output priority -100",
                              "tcp dport 7998 dnat to 10.9.0.1:$PORT")}),
    "DNAT to who knows whom": ("no_neighbour",
             {"host": "10.9.0.77", "needs": "nft", "undo": NO_NFT,
              "setup": NFT % ("nat hook output priority -100", "ip daddr 10.9.0.77 dnat to "
                              "10.9.0.1")}),
    "SNAT": ("nat",
             {"needs": "nft", "undo": NO_NFT,
              "setup": NFT % ("nat hook postrouting priority 100",
                              "tcp dport 7000-7999 snat to 10.9.0.2:20000-20999")}),
    "redirect": ("nat",
                 {"role": "listen", "needs": "nft", "undo": NO_NFT, "far_port": 7999,
                  "setup": NFT % ("nat hook prerouting priority -100",
                                  "tcp dport 7999 redirect to :$PORT")}),
    "IPsec": ("ipsec",
              {"setup": "ip xfrm policy add src 10.99.0.0/16 dst 10.99.0.0/16 dir out action block",
               "undo": "ip xfrm policy flush"}),
    "MPTCP": (None, {"protocol": 262}),

    # Who else has it.
    "a child": ("shared",
                {"after": "held, ends = os.pipe()\ntold, tell = os.pipe()\n"
                          "if not os.fork():\n    os.close(ends)\n    os.write(tell, b'x')\n"
                          "    os.read(held, 1)\n    os._exit(0)\nos.read(told, 1)"}),
    "SCM_RIGHTS": ("passed",
                   {"after": "a, b = socket.socketpair()\nsocket.send_fds(a, [b'x'], "
                             "[s.fileno()])"}),
    "io_uring": ("io_uring",
                 {"after": "libc.syscall(425, 4, ctypes.create_string_buffer(120))"}),
    "seccomp": (None,
                {"after": "code = ctypes.create_string_buffer(struct.pack('=HBBI', 6, 0, 0, "
                          "0x7fff0000))\n"
                          "prog = ctypes.create_string_buffer(struct.pack('HP', 1, "
                          "ctypes.addressof(code)))\n"
                          "assert not libc.prctl(38, 1, 0, 0, 0)\n"
                          "assert not libc.prctl(22, 2, prog, 0, 0)"}),

    # The default policy.
    "young": ("young",
              {"rules": "", "env": {"OSF_TCP": "1", "OSF_UPGRADE_PINGPONGS": "1000"}}),
    "bulk": ("bulk",
             {"rules": "", "env": {"OSF_TCP": "1", "OSF_UPGRADE_PINGPONGS": "4"},
              "size": 262144}),
}


class Case:
    def __init__(self, world, reason, differs):
        self.world = world
        self.reason = reason
        self.get = lambda key, plain=None: differs.get(key, plain)
        world.next_port += 1
        self.port = world.next_port

    def prepare(self, which):
        line = self.get(which)
        if line:
            line = line.replace("$OSF", self.world.osf).replace("$PORT", str(self.port))
            sh(self.world, "b", line)

    def code(self, text):
        parts = {"before": self.get("before", "pass"), "far": self.get("far", "pass"),
                 "protocol": str(self.get("protocol", 0)),
                 "after": "size = %d\n" % self.get("size", 64) + self.get("after", "")}
        for name, part in parts.items():
            text = text.replace("@%s@" % name, part)
        return text

    def start_far(self, role):
        text = self.code(FAR)
        if self.get("others"):
            text = FAR_MANY
        host = "10.9.0.2" if role == "connect" else "0.0.0.0"
        port = self.get("far_port", self.port)
        return self.world.start(self.get("far_place", "a"),
                                [PYTHON, "-c", text, role, host, str(port)], False)

    def start_near(self, role):
        words = [PYTHON, "-c", self.code(NEAR)]
        args = [role, self.get("host", "10.9.0.1"), str(self.get("near_port", self.port)), "-1"]
        osf = [self.world.osf, "run", "--"]
        if self.get("hands_on"):
            words = [PYTHON, "-c", self.code(HANDS_ON)] + args + osf + words
        else:
            words = osf + words + args
        env = dict(os.environ, OSF_RULES=self.get("rules", RULES), **self.get("env", {}))
        env.pop("LD_PRELOAD", None)
        return subprocess.Popen(self.world.inside("b", words), env=env, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def sockets(self, pid):
        """Return: what `osf stat' says of the connections of a process."""
        got = json.loads(sh(self.world, "b", "%s stat --json %d" % (self.world.osf, pid)))
        return [s for p in got["processes"] for s in p["sockets"] if s["reason"] != "listener"]

    def judge(self, pid):
        """Return: what is not as it should be, or None."""
        found = self.sockets(pid)
        reasons = [s["reason"] for s in found]
        moved = sum(ports(self.world, "b").values())
        if self.reason == PORT:
            return None if reasons == [PORT] and moved == 1 else (reasons, moved)
        if moved != self.get("others", 0):
            return "%d connections have moved: %s" % (moved, reasons)
        stays = [s for s in found if s["reason"] == self.reason]
        if self.reason and not stays:
            return "the reason is: %s" % reasons
        if any(s["n_freezes"] for s in stays):
            return "it has moved, and came back"
        return None

    def run(self):
        role = self.get("role", "connect")
        ends = []
        self.prepare("setup")
        try:
            if role == "listen":
                ends.append(self.start_near(role))
                expect(ends[0], "listens")
                ends.append(self.start_far("connect"))
            else:
                far = self.start_far("listen")
                expect(far, "listens")
                ends = [self.start_near(role), far]
            first = heard(ends[0])
            if first != "done":
                return first + ends[0].communicate(timeout=PATIENCE_S)[0].decode()
            wrong = self.judge(ends[0].pid)
            say(ends[0])
            said = ends[0].communicate(timeout=PATIENCE_S)[0].decode()
            ends[1].communicate(timeout=PATIENCE_S)
            if ends[0].returncode:
                return said
            return wrong
        finally:
            for end in ends:
                end.kill()
                end.wait()
            self.prepare("undo")


# Any number of connections, until none is left.
FAR_MANY = TURNS + """
import selectors
l = socket.create_server(("0.0.0.0", int(sys.argv[3])))
e = selectors.DefaultSelector()
e.register(l, selectors.EVENT_READ)
print("listens", flush=True)
n = None
while n != 0:
    for key, _ in e.select():
        if key.fileobj is l:
            s = l.accept()[0]
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            e.register(s, selectors.EVENT_READ)
            n = (n or 0) + 1
            continue
        got = key.fileobj.recv(65536)
        if got:
            key.fileobj.sendall(got)
        else:
            e.unregister(key.fileobj)
            n -= 1
"""


def join_second(world):
    """A second veth pair, whose end in b is no port."""
    a, b = (world.name(p) for p in "ab")
    world.must(["ip", "link", "add", "vc", "netns", a, "type", "veth",
                "peer", "name", "vd", "netns", b])
    for place, dev, i in (("a", "vc", 1), ("b", "vd", 2)):
        sh(world, place, "ip addr add 10.10.0.%d/24 dev %s && ip link set %s up" % (i, dev, dev))


def main():
    if os.geteuid():
        skip("needs root")
    world = World(os.path.abspath(sys.argv[1]))
    bad = []
    try:
        world.open()
        join_second(world)
        for name in sys.argv[2:] or CASES:
            reason, differs = CASES[name]
            needs = differs.get("needs")
            if needs and subprocess.run(["which", needs], stdout=subprocess.DEVNULL).returncode:
                print("%-28s left out: no %s" % (name, needs))
                continue
            wrong = Case(world, reason, differs).run()
            print("%-28s %s" % (name, wrong or reason or "not osf's"), flush=True)
            if wrong:
                bad.append(name)
    finally:
        world.close()
    if bad:
        fail(", ".join(bad))


main()
