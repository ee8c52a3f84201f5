#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_mates.py - processes that share connections make random calls, one at a time

    test_mates.py MATES                        what was found once (FOUND)
    test_mates.py MATES --seconds N [--seed N] [--cases N] [--way WAY]
    test_mates.py MATES --play "WAY; 0 send 0 10 0 1; 1 recv 0 99 0; ..."

    seed -> steps -> what they answer on the kernel, and under osf     (make mates)

A step is one call of one process of mates.c: it sends, receives, shuts down, closes, forks,
executes, passes descriptors, polls, sets options.  No call waits, and the next one begins when
it has answered, so the kernel's answers depend on the steps alone, and osf has to give the same.

A difference counts only if it shows again when each process is given time after each step:
a relay (file/relay.c) moves bytes when it has a core.  Then steps are left out one by one, as
long as it shows, and the rest is printed as --play takes it.
"""
import argparse
import concurrent.futures
import itertools
import os
import random
import select
import socket
import subprocess
import sys
import time

import harness

PROCS, SLOTS, CONNS = 8, 8, 2
STEPS = 40
SIDE_BY_SIDE = 2
WARM = 6             # turns before the first step
ANSWER_S = 20
SETTLE_S = 0.02      # given after each step, where a difference is looked at again
SETTLE_LAST_S = 0.5  # before it counts: on a busy machine a relay waits for a core
WAYS = ["two", "one", "young"]
PEEK, TRUNC, WAITALL, OOB = 2, 0x20, 0x100, 1
IN, PRI, OUT, RDHUP, ONESHOT, ET = 1, 2, 4, 0x2000, 1 << 30, 1 << 31
LOWAT, ERROR, INLINE, NODELAY, KEEPALIVE, CORK, LINGER = range(7)


# What has differed once, as --play takes it.
FOUND = [
    # a set's first number is closed, and a duplicate goes on
    "one; 0 ep_new; 0 ep_add 3 0; 0 ep_wait",
    # bytes for an end that is shut in both directions: it answers with a reset
    "two; 1 shut 1 2; 0 send 1 500 0 1; 1 poll 1; 0 poll 1; 0 send 1 500 0 1; 0 poll 1; "
    "0 send 1 500 0 1; 1 get 1 1; 0 get 1 1; 1 recv 1 10 0; 0 recv 1 10 0",
    "two; 0 shut 1 2; 1 fork 2; 2 send 1 500 0 64; 0 send 1 1 0 49",
    # a reset that a call has told is still seen, also by another process
    "two; 0 close 1; 1 send 1 10 0 45; 1 fork 2; 2 send 1 3000 0 168; 2 poll 1; 1 poll 1; "
    "1 recv 1 10 0",
    # a read goes on from the ring to TCP, and stops before the urgent byte, read or not
    "two; 1 send 1 3000 0 12; 1 send 1 3000 1 131; 0 recv 1 100000 0; 0 recv 1 100000 0",
    "two; 1 send 1 3000 0 12; 1 send 1 1 1 131; 0 recv 1 100000 0; 0 recv 1 10 1; "
    "1 send 1 100 0 7; 0 recv 1 100000 0",
    "two; 1 send 1 3000 0 12; 1 send 1 1 1 131; 1 send 1 100 0 7; 0 recv 1 10 1; "
    "0 recv 1 100000 0; 0 recv 1 100000 0",
    # after the peer's death and our FIN there is nothing to shut
    "two; 1 exit 1; 0 poll 0; 0 shut 0 1; 0 poll 0; 0 shut 0 0",
    # a reset after the peer's FIN is EPIPE
    "two; 0 send 0 1 0 35; 1 shut 0 1; 1 exit 0; 0 get 0 1; 0 send 0 1 0 215; 0 send 0 1 0 215",
    "two; 0 send 0 1 0 35; 1 shut 0 1; 1 exit 0; 0 send 0 1 0 215; 0 send 0 1 0 215",
    # after shutdown() of both directions unread bytes can be read, also by the next program
    "two; 0 send 1 3000 0 119; 1 shut 1 2; 1 exec; 0 send 1 500 0 135; 0 send 1 500 0 135",
    "two; 0 send 1 3000 0 119; 1 shut 1 2; 1 pass 1 0; 0 poll 1; 1 poll 1; 1 recv 1 5000 0; "
    "1 recv 1 5000 0; 1 send 1 10 0 1; 0 recv 1 10 0; 0 send 1 10 0 5",
    # the peer has gone back to the kernel, and we have shut our reading
    "two; 0 fork 2; 2 exec; 1 shut 1 0; 1 poll 1; 1 recv 1 10 0; 0 send 1 10 0 1; 1 poll 1; "
    "1 recv 1 10 0",
    # a relay keeps urgent bytes urgent, and its new socket has the options of the old one
    "one; 0 send 0 500 1 230; 0 send 2 10 0 142; 0 pass 0 0; 0 fork 1; 1 send 0 1 1 120; 1 inq 2",
    "one; 0 send 0 500 1 230; 0 send 2 10 0 142; 0 set 0 2 1; 0 set 0 0 5; 0 set 0 4 1; "
    "0 set 0 6 1; 0 pass 0 0; 0 get 0 2; 0 get 0 0; 0 get 0 4; 0 get 0 6",
    # a look goes on from the ring to TCP as a read does, and stops before the urgent byte
    "two; 1 send 1 3000 0 12; 1 send 1 3000 1 131; 0 recv 1 100000 2; 0 recv 1 100000 34; "
    "0 recv 1 100000 0; 0 recv 1 100000 2; 0 recv 1 10 1; 1 send 1 500 0 9; 0 recv 1 100000 2",
    "one; 0 send 3 10 0 125; 0 send 1 2 1 117; 0 poll 3; 0 send 3 500 0 113; "
    "0 recv 1 100000 2; 0 recv 1 505 2; 0 recv 1 100000 0",
    # a reset shows after the FIN was seen, and after others have used the connection
    "two; 1 shut 1 2; 0 poll 1; 1 set 1 6 1; 1 close 1; 0 poll 1; 0 get 1 1; 0 poll 1",
    "two; 0 close 1; 1 send 1 2 0 210; 1 fork 3; 3 pass 1 0; 3 poll 1; 1 poll 1; 1 get 1 1",
    "two; 1 close 0; 0 send 0 10 0 1; 0 fork 2; 0 pass 0 1; 0 poll 0; 2 poll 0",
    # a reset is told by a direction that is shut, once
    "two; 0 shut 1 2; 1 send 1 64 0 7; 0 recv 1 100 2; 0 send 1 10 0 1; 0 recv 1 100 0",
    "two; 0 shut 1 2; 1 send 1 64 0 7; 0 recv 1 100 0; 0 recv 1 100 0; 0 send 1 10 0 1",
    # a set with a connection in shared memory and one of the kernel
    "one; 0 ep_new; 0 send 2 100 0 140; 0 set 2 2 1; 0 ep_add 0 4; 0 pass 0 0; 0 ep_add 2 8199; "
    "0 ep_wait",
]


# --- the processes ---

class World:
    """The processes of one run of a case."""

    def __init__(self, run, program, way, osf, settle):
        self.way = way
        self.settle = settle
        self.ours, theirs = zip(*[socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                                  for _ in range(PROCS)])
        inboxes, outs = zip(*[socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
                              for _ in range(PROCS)])
        for sock in self.ours:
            sock.settimeout(ANSWER_S)
        self.alive = set()
        self.pids = {}  # pidfds
        self.popens = []
        passed = [s.fileno() for s in theirs + inboxes + outs]
        words = ["%s=%s" % (name, ",".join(str(s.fileno()) for s in socks))
                 for name, socks in (("ctl", theirs), ("in", inboxes), ("out", outs))]
        for index in range(1 if way == "one" else 2):
            self.popens.append(subprocess.Popen(
                run.command([program, index] + words, osf), pass_fds=passed,
                env=run.env(osf, eager=True), stdin=subprocess.DEVNULL))
        for sock in theirs + inboxes + outs:
            sock.close()
        for index in range(len(self.popens)):
            self.born(index)
        self.connect()

    def connect(self):
        far = 0 if self.way == "one" else 1
        shift = CONNS if self.way == "one" else 0
        port = self.do(0, "listen")
        for conn in range(CONNS):
            self.do(far, "connect %d %s" % (conn + shift, port))
            self.do(0, "accept %d" % conn)
            for _ in range(0 if self.way == "young" else WARM):
                self.do(far, "send %d 1 0 1" % (conn + shift))
                self.do(0, "recv %d 1 0" % conn)
                self.do(0, "send %d 1 0 1" % conn)
                self.do(far, "recv %d 1 0" % (conn + shift))
        self.do(0, "unlisten")

    def answer(self, index):
        try:
            got = self.ours[index].recv(5000)
        except (TimeoutError, ConnectionError) as e:
            got = b""
            if isinstance(e, TimeoutError):
                return "no answer"
        if not got:
            self.alive.discard(index)
            return "ended"
        return got.rstrip(b"\0").decode()

    def born(self, index):
        """A process says its number, which is no part of the answer."""
        got, _, pid = self.answer(index).partition(" ")
        if pid:
            if index in self.pids:
                os.close(self.pids[index])
            self.pids[index] = os.pidfd_open(int(pid))
            self.alive.add(index)
        return got

    def has_ended(self, index):
        """The others have copies of its sockets, so only its number tells."""
        ended = select.select([self.pids[index]], [], [], ANSWER_S)[0]
        self.alive.discard(index)
        return "ended" if ended else "no end"

    def do(self, index, step):
        """What the call answered."""
        name, *words = step.split()
        if index not in self.alive:
            return "no process"
        if name == "fork" and int(words[0]) in self.alive:
            return "no"
        self.ours[index].send(step.encode())
        if name == "exit":
            got = self.has_ended(index)
        else:
            got = self.born(index) if name == "exec" else self.answer(index)
        if name == "fork" and got == "0":
            got += " " + self.born(int(words[0]))
        if self.settle:
            time.sleep(self.settle)
        return got

    def close(self):
        for sock in self.ours:
            sock.close()
        for fd in self.pids.values():
            os.close(fd)
        for popen in self.popens:
            try:
                popen.wait(ANSWER_S)
            except subprocess.TimeoutExpired:
                popen.kill()
                popen.wait()


# --- what they do ---

class Model:
    """Which process has which end, so that most steps mean something."""

    def __init__(self, way, rng):
        self.rng = rng
        self.slots = {0: {c: (c, 0) for c in range(CONNS)}}
        if way == "one":
            self.slots[0].update({c + CONNS: (c, 1) for c in range(CONNS)})
        else:
            self.slots[1] = {c: (c, 1) for c in range(CONNS)}
        self.sets = {}  # process: slots in its epoll set
        self.n_procs = len(self.slots)
        self.inbox = {}

    def step(self):
        """Return: the process, and its step."""
        index = self.rng.choice(sorted(self.slots))
        mine = self.slots[index]
        if self.inbox.get(index) and self.rng.random() < 0.5:
            return index, self.take(index)
        if not mine:
            return index, self.take(index) if self.inbox.get(index) else "exit 0"
        slot = self.rng.choice(sorted(mine))
        total = sum(weight for _, weight in CALLS)
        at = self.rng.randrange(total)
        for call, weight in CALLS:
            at -= weight
            if at < 0:
                return index, call(self, index, slot)

    def size(self):
        return self.rng.choice([1, 1, 2, 10, 64, 100, 500, 3000])

    def send(self, index, slot):
        flags = self.rng.choice([0] * 12 + [OOB])
        return "send %d %d %d %d" % (slot, self.size(), flags, self.rng.randrange(256))

    def recv(self, index, slot):
        flags = self.rng.choice([0] * 8 + [PEEK, PEEK, WAITALL, TRUNC, OOB, OOB | PEEK,
                                           PEEK | WAITALL])
        return "recv %d %d %d" % (slot, self.rng.choice([0, 1, 5, 50, 1000, 100000, 100000]),
                                  flags)

    def poll(self, index, slot):
        return "poll %d" % slot

    def epoll(self, index, slot):
        rng = self.rng
        watched = self.sets.get(index)
        if watched is None:
            self.sets[index] = set()
            return "ep_new"
        bits = rng.choice([IN, IN | RDHUP, IN | OUT, IN | OUT | RDHUP | PRI, OUT, 0])
        bits |= rng.choice([0, 0, ET, ET, ONESHOT])
        if not watched or rng.random() < 0.2:
            watched.add(slot)
            return "ep_add %d %d" % (slot, bits)
        if rng.random() < 0.2:
            return "ep_mod %d %d" % (rng.choice(sorted(watched)), bits)
        if rng.random() < 0.05:
            return "ep_del %d" % rng.choice(sorted(watched))
        return "ep_wait"

    def ask(self, index, slot):
        return self.rng.choice(["inq %d" % slot, "inq %d" % slot, "mark %d" % slot,
                                "get %d %d" % (slot, ERROR),
                                "get %d %d" % (slot, self.rng.choice(
                                    [LOWAT, INLINE, NODELAY, KEEPALIVE, LINGER]))])

    def set(self, index, slot):
        option, value = self.rng.choice([(LOWAT, self.size()), (LOWAT, self.size()),
                                         (INLINE, 1), (INLINE, 0), (NODELAY, 1),
                                         (KEEPALIVE, 1), (LINGER, 1), (LINGER, 0)])
        return "set %d %d %d" % (slot, option, value)

    def shut(self, index, slot):
        return "shut %d %d" % (slot, self.rng.choice([0, 1, 1, 1, 2]))

    def close(self, index, slot):
        del self.slots[index][slot]
        self.sets.get(index, set()).discard(slot)
        return "close %d" % slot

    def dup(self, index, slot):
        to = self.rng.randrange(SLOTS)
        if to == slot:
            return "poll %d" % slot
        self.slots[index][to] = self.slots[index][slot]
        self.sets.get(index, set()).discard(to)
        return "dup %d %d" % (slot, to)

    def fork(self, index, slot):
        if self.n_procs == PROCS:
            return "poll %d" % slot
        child = self.n_procs
        self.n_procs += 1
        self.slots[child] = dict(self.slots[index])
        if index in self.sets:
            self.sets[child] = set(self.sets[index])
        return "fork %d" % child

    def exec(self, index, slot):
        self.sets.pop(index, None)
        return "exec"

    def exit(self, index, slot):
        if len(self.slots) == 1:
            return "poll %d" % slot
        del self.slots[index]
        return "exit %d" % (self.rng.random() < 0.3)

    def pass_on(self, index, slot):
        to = self.rng.choice(sorted(self.slots))
        self.inbox.setdefault(to, []).append(self.slots[index][slot])
        return "pass %d %d" % (slot, to)

    def take(self, index):
        slot = self.rng.randrange(SLOTS)
        self.slots[index][slot] = self.inbox[index].pop(0)
        self.sets.get(index, set()).discard(slot)
        return "take %d" % slot


CALLS = [(Model.send, 30), (Model.recv, 24), (Model.poll, 10), (Model.epoll, 14), (Model.ask, 8),
         (Model.set, 4), (Model.shut, 5), (Model.close, 3), (Model.dup, 2), (Model.fork, 4),
         (Model.exec, 2), (Model.exit, 2), (Model.pass_on, 2)]


# --- a case, twice ---

class Fuzz:
    def __init__(self, run, program):
        self.run = run
        self.program = program
        self.n_late = 0

    def play(self, way, steps, osf, settle=0):
        """Return: what each of @steps answers."""
        world = World(self.run, self.program, way, osf, settle)
        try:
            return [world.do(index, step) for index, step in steps]
        finally:
            world.close()

    def differs(self, way, steps, settle):
        """Return: the number of the first step that answers otherwise, or None."""
        kernel, osf = (self.play(way, steps, on, settle) for on in (False, True))
        for i, (a, b) in enumerate(zip(kernel, osf)):
            if a != b:
                return i, a, b
        return None

    def choose(self, seed, way):
        model = Model(way, random.Random(seed))
        return [model.step() for _ in range(STEPS)]

    def look(self, way, steps):
        """Return: what differs() does, if it is more than a matter of time."""
        if not self.differs(way, steps, 0):
            return None
        found = self.differs(way, steps, SETTLE_S) and \
            self.differs(way, steps, SETTLE_LAST_S)
        self.n_late += not found
        return found

    def one(self, seed, way):
        """Return: a text that shows a difference, or None."""
        steps = self.choose(seed, way)
        found = self.look(way, steps)
        if not found:
            return None
        return self.report(seed, way, self.less(way, steps[:found[0] + 1]))

    def again(self, text):
        way, steps = played(text)
        return self.report("-", way, steps) if self.look(way, steps) else None

    def less(self, way, steps):
        """Leave out what the difference does not need: eight at once, then fewer."""
        for n in (8, 4, 2, 1):
            i = len(steps) - 1 - n
            while i >= 0:
                fewer = steps[:i] + steps[i + n:]
                found = self.differs(way, fewer, SETTLE_S)
                if found:
                    steps = fewer[:found[0] + 1]
                i = min(i, len(steps) - 1) - n
        return steps

    def report(self, seed, way, steps):
        answers = [self.play(way, steps, osf, SETTLE_S) for osf in (False, True)]
        lines = ["seed %s, way %s:" % (seed, way)]
        for (index, step), a, b in zip(steps, *answers):
            lines.append("  %d %-24s %s%s" % (index, step, a,
                                              "   osf: " + b if a != b else ""))
        lines.append('  --play "%s; %s"' % (way, "; ".join("%d %s" % s for s in steps)))
        return "\n".join(lines)


def played(text):
    way, *steps = text.split("; ")
    return way, [(int(s.split()[0]), s.split(" ", 1)[1]) for s in steps]


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("mates")
    p.add_argument("--seed", type=int, default=int(os.environ.get("OSF_TEST_SEED") or 1))
    p.add_argument("--cases", type=int, default=0)
    p.add_argument("--seconds", type=int, default=0, help="go on until then")
    p.add_argument("--way", choices=WAYS)
    p.add_argument("--play")
    return p.parse_args()


def main():
    args = arguments()
    harness.LIMIT_S = max(harness.LIMIT_S, args.seconds + 300)
    run = harness.Run(__file__)
    fuzz = Fuzz(run, os.path.abspath(args.mates))
    if args.play:
        print(fuzz.report("-", *played(args.play)))
        run.done()
        return
    jobs = [(fuzz.again, text) for text in FOUND]
    if args.seconds or args.cases:
        print("seed %d" % args.seed, flush=True)
        jobs = ((fuzz.one, seed, args.way or WAYS[seed % len(WAYS)])
                for seed in itertools.count(args.seed))
    end = time.monotonic() + args.seconds
    n_found = n = 0
    with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        jobs = iter(jobs)
        while n < args.cases or not args.cases and not args.seconds or time.monotonic() < end:
            batch = list(itertools.islice(jobs, SIDE_BY_SIDE))
            if not batch:
                break
            n += len(batch)
            for found in filter(None, pool.map(lambda job: job[0](*job[1:]), batch)):
                n_found += 1
                print(found, flush=True)
    print("%d cases, %d differ, %d differ in time only" % (n, n_found, fuzz.n_late))
    if not run.is_kernel:
        total = harness.sum_stats(harness.read_stats(run.stats))
        print("%d ends moved, %d fell back" % (total["n_upgraded"], total["n_fallbacks"]))
        run.need(total["n_upgraded"] >= n, "too few connections moved")
    run.need(not n_found, "%d cases differ" % n_found)
    run.done()


if __name__ == "__main__":
    main()
