# SPDX-License-Identifier: MIT
"""
tests/trust/peer_attacks.py - what a peer begins, in its own connection, and does not end

    peer = noise(port, rng, pace_s)
    pid, n, kib = start(run, port, noise, 3)    in a process; n of 3 have attacked; stop(pid)

    bells     counts thousands of doorbells that never come, and ends its stream
    half      takes part in the rendezvous, is never ready, and shuts down
    drip      says that a gigabyte of TCP comes before the ring, and sends a byte at a time
    circle    jumps in the ring that lead back to a record of 64 KB, without end
    noise     words of the segment and the ring, seeded, with a doorbell now and then

@pace_s: see Opener.meet().
"""
import os
import random
import socket
import time

import attacker

LOAD_S = 3


def met(port, pace_s):
    peer = attacker.Opener(port)
    channel = peer.meet(pace_s)
    if not channel:
        raise RuntimeError("the victim never came")
    peer.take(channel)
    peer.channel = channel
    return peer


def joined(port, pace_s, tcp_bytes=None):
    peer = met(port, pace_s)
    attacker.hello(peer.channel, [peer.fds[1]])
    peer.say(attacker.READY | attacker.TX_RING, tcp_bytes)
    return peer


def ring(peer):
    """A doorbell that is counted."""
    peer.bells = getattr(peer, "bells", 0) + 1
    peer.side(16, peer.bells)
    try:
        peer.tcp.send(b"B", socket.MSG_DONTWAIT)
    except OSError:
        pass


def bells(port, rng, pace_s):
    peer = joined(port, pace_s)
    peer.side(16, 5000)
    peer.header(0, attacker.FIN)
    peer.say(attacker.READY | attacker.TX_RING | attacker.TX_FIN)
    peer.tcp.send(b"B")
    return peer


def half(port, rng, pace_s):
    peer = met(port, pace_s)
    if rng.randrange(2):
        peer.u32(16, 1)
    peer.tcp.shutdown(socket.SHUT_WR)
    return peer


def drip(port, rng, pace_s):
    peer = joined(port, pace_s, 1 << 30)
    peer.tcp.send(b"END__")
    return peer


def circle(port, rng, pace_s):
    peer = joined(port, pace_s)
    peer.record(0, b"hello")
    ring(peer)
    if not attacker.until(peer.has_read):  # its place can lead on
        raise RuntimeError("the victim reads nothing")
    peer.header(0, attacker.SKIP, 128)
    peer.header(128 + 64 + 65536, attacker.WRAP)
    peer.header(128, attacker.DATA, 65536)
    peer.record(64, b"END__")  # the last that who passes the connection on reads
    ring(peer)
    return peer


def lie(peer, rng):
    which = rng.randrange(7)
    if which == 0:
        peer.side(4 * rng.randrange(64), rng.getrandbits(32), side=rng.randrange(2))
    elif which == 1:
        peer.side(4 * rng.randrange(64), 1 << rng.randrange(32), side=rng.randrange(2))
    elif which == 2:
        peer.header(64 * rng.randrange(64), rng.randrange(9), rng.choice(
            (rng.randrange(70000), 64 * rng.randrange(200), 0)))
    elif which == 3:
        peer.side(64, rng.choice((64 * rng.randrange(200), rng.getrandbits(32))))
    elif which == 4:
        peer.side(0, 1 << rng.randrange(16) | attacker.READY | attacker.TX_RING)
    elif which == 5:
        peer.side(8, rng.getrandbits(64), "Q")
    else:
        peer.side(rng.choice((16, 20, 24, 28)), rng.randrange(1 << 16))


def noise(port, rng, pace_s):
    peer = joined(port, pace_s)
    for _ in range(1 + rng.randrange(300)):
        lie(peer, rng)
        if not rng.randrange(20):
            ring(peer)
    ring(peer)
    return peer


def attack(port, how, n, path, pace_s):
    rng = random.Random(int(os.environ.get("OSF_TEST_SEED") or 1))
    peers = []
    for _ in range(n):
        try:
            peers.append(how(port, rng, pace_s))
        except (ConnectionError, TimeoutError, socket.timeout):
            pass  # reset by what we did: its right
    with open(path, "w") as f:
        f.write("%d %d" % (len(peers), sum(len(peer.seg) for peer in peers)))
    end = time.monotonic() + LOAD_S
    while how is drip and time.monotonic() < end:
        for peer in peers:
            try:
                peer.tcp.send(b".", socket.MSG_DONTWAIT)
            except OSError:
                pass
        time.sleep(0.1)  # the attack's pace
    time.sleep(60)


def start(run, port, how, n, pace_s=None):
    path = run.path("done.%s.%d" % (how.__name__, port))
    pid = attacker.as_user(0, lambda: attack(port, how, n, path, pace_s))
    run.need(attacker.until(lambda: os.path.exists(path) and os.path.getsize(path)),
             "%s: the attack did not take place" % how.__name__)
    with open(path) as f:
        n_done, segments = map(int, f.read().split())
    run.need(n_done, "%s: no connection was attacked" % how.__name__)
    return pid, n_done, segments >> 10


def stop(pid):
    os.kill(pid, 9)
    os.waitpid(pid, 0)
