#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/port/test_handed.py - who gets a connection that has moved, with bytes in both queues

    test_handed.py OSF

The world is test_turns.py's, over IPv4 with an MTU of 1500, and over IPv6 with 9000.  A program
under osf has moved its connection, has not read what has come, and has just sent.  Then the
connection goes to the program that it becomes by exec, under osf or not, to a child, or by
SCM_RIGHTS to a program that does not know osf.  Each of them reads what was there, answers,
and reads on; the kernel at the other end compares each byte.  No port has the connection
any more.
"""
import os
import subprocess
import sys

from test_ends import ECHOES, PYTHON, TURNS, expect, heard, ports, say, wait_moved, wait_until
from test_turns import PATIENCE_S, PLACES, World, fail, skip

KINDS = (("10.9.0.1", 1500), ("fd09::1", 9000))
HOW = ("exec", "exec without osf", "fork", "rights")

BYTES = """
import os, socket, sys
def text(n, seed):
    return bytes((i * 7 + i // 256 + seed) & 255 for i in range(n))
def read(s, n, seed):
    got = b""
    while len(got) < n:
        part = s.recv(n - len(got))
        assert part, "an early end"
        got += part
    assert got == text(n, seed), "wrong bytes"
"""
FAR = BYTES + ECHOES + """
c.sendall(text(30000, 1))
read(c, 5000, 2)
read(c, 500, 3)
c.sendall(text(300, 4))
assert c.recv(1) == b"", "no end"
print("all there", flush=True)
"""
# The new owner; the descriptor is its first argument, or comes by SCM_RIGHTS over that one.
GOES_ON = BYTES + """
def goes_on(fd):
    s = socket.socket(fileno=fd)
    read(s, 30000, 1)
    s.sendall(text(500, 3))
    read(s, 300, 4)
    s.close()
"""
BECOMES = GOES_ON + "goes_on(int(sys.argv[1]))\n"
RECEIVES = GOES_ON + """
goes_on(socket.recv_fds(socket.socket(fileno=int(sys.argv[1])), 1, 1)[1][0])
"""
NEAR = BYTES + TURNS + GOES_ON + """
import subprocess
how, python, becomes, receives = sys.argv[3:7]
while len(s.recv(30000, socket.MSG_PEEK)) < 30000:
    pass
s.sendall(text(5000, 2))
print("sent", flush=True)
sys.stdin.readline()
bare = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
if how.startswith("exec"):
    s.set_inheritable(True)
    os.execve(python, [python, "-c", becomes, str(s.fileno())],
              os.environ if how == "exec" else bare)
if how == "fork":
    child = os.fork()
    if not child:
        goes_on(s.fileno())
        os._exit(0)
    s.close()
    sys.exit(os.waitpid(child, 0)[1])
ours, theirs = socket.socketpair()
child = subprocess.Popen([python, "-c", receives, str(theirs.fileno())], env=bare,
                         pass_fds=[theirs.fileno()])
socket.send_fds(ours, [b"x"], [s.fileno()])
s.close()
sys.exit(child.wait())
"""


def handed(world, host, how):
    world.next_port += 1
    port = str(world.next_port)
    far = world.start("a", [PYTHON, "-c", FAR, host, port], False)
    expect(far, "listens")
    near = world.start("b", [PYTHON, "-c", NEAR, host, port, how, PYTHON, BECOMES, RECEIVES],
                       True, stdin=subprocess.PIPE)
    wait_moved(world, "b")
    say(near)
    expect(near, "sent")
    if ports(world, "b")["vb"] != 1:
        fail("%s: it has gone back before" % how)
    say(near)
    said = near.communicate(timeout=PATIENCE_S)[0].decode()
    if near.returncode:
        fail("%s, %s: %s" % (host, how, said))
    end = heard(far)
    if end != "all there":
        fail("%s, %s: the other end: %s" % (host, how, end + far.communicate()[0].decode()))
    far.communicate(timeout=PATIENCE_S)
    wait_until("nothing is steered", lambda: ports(world, "b")["vb"] == 0)
    print("%s: %s" % (host, how))


def main():
    if os.geteuid():
        skip("needs root")
    world = World(os.path.abspath(sys.argv[1]))
    try:
        world.open()
        for host, mtu in KINDS:
            for place in PLACES:
                world.must(world.inside(place, ["ip", "link", "set", "v" + place, "mtu",
                                                str(mtu)]))
            for how in HOW:
                handed(world, host, how)
    finally:
        world.close()


main()
