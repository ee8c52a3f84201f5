# SPDX-License-Identifier: MIT
"""
tests/trust/dropping.py - servers that begin as root and serve as somebody else

    drop = dropping.Drop(__file__, needs=["nginx"], user="www-data")
    drop.serve(["nginx", ...], port)        as root, under osf, in a session of its own
    drop.check([...], as_user=True)         a client of the user, or of root
    drop.expect()                           who shares memory with whom; then done()

The rule: no process of another user has memory mapped for writing that a process of root
has mapped, too, except counts of who holds what, which are numbers, and what the program
shares without osf (learn()).  A client of the worker's
user meets the worker in shared memory; a client of root does not.
"""
import contextlib
import os
import pwd
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
import attacker  # noqa: E402
import harness  # noqa: E402

COUNTS_KB = 16  # file/hold.c: claims
MAP = re.compile(r"(\w+)-(\w+) (\S+) \S+ (\S+) (\d+)")


def shared_maps(pid):
    """{(device, inode): (size, line)} of memory that others may have mapped for writing."""
    found = {}
    with contextlib.suppress(OSError), open("/proc/%d/maps" % pid) as f:
        for line in f:
            low, high, flags, dev, ino = MAP.match(line).groups()
            size = int(high, 16) - int(low, 16)
            if flags[1] == "w" and flags[3] == "s" and size > COUNTS_KB << 10:
                found[dev, ino] = size, line.strip()
    return found


def uids_of(pid):
    with contextlib.suppress(OSError), open("/proc/%d/status" % pid) as f:
        return re.search(r"Uid:\s+(.*)", f.read())[1].split()
    return []


class Drop:
    def __init__(self, path, needs, user):
        if os.geteuid():
            harness.skip("needs root, who can become another user")
        try:
            self.user = pwd.getpwnam(user)
        except KeyError:
            harness.skip("no user " + user)
        self.run = harness.Run(path, needs=needs + ["setpriv"],
                               not_with={"address": "who changes user cannot write reports",
                                         "thread": "who changes user cannot write reports"})
        self.servers = []
        self.n_judged = 0
        self.own_sizes = set()

    def serve(self, command, port, **how):
        how.setdefault("eager", True)
        proc = self.run.start(["setsid", harness.find(command[0])] + command[1:], **how)
        self.run.wait_port(port)
        self.servers.append(proc)
        return proc

    def command(self, words):
        return ["setpriv", "--reuid", self.user.pw_name, "--regid", str(self.user.pw_gid),
                "--clear-groups"] + list(words)

    def check(self, words, as_user=True, **how):
        how.setdefault("eager", True)
        return self.run.check(self.command(words) if as_user else words, **how)

    def learn(self, command, port):
        """What the program shares with its workers anyway, by size."""
        server = self.serve(command, port, osf=False)
        attacker.until(lambda: list(self.workers(server)))
        for _, both in self.workers(server):
            self.own_sizes |= {size for size, _ in both}
        self.run.stop(server)
        self.servers.remove(server)

    def workers(self, server):
        """Of each worker: its user, and [(size, line)] of what it shares with root."""
        pids = harness.family(server.popen.pid)
        roots = {}
        for pid in pids:
            if "0" in uids_of(pid):
                roots.update(shared_maps(pid))
        for pid in pids:
            uids = uids_of(pid)
            if uids and "0" not in uids:
                yield uids[1], [roots[each] for each in set(shared_maps(pid)) & set(roots)]

    def judge(self):
        """Call it while the workers are there.  Counts those of other users."""
        for server in self.servers:
            for uid, both in self.workers(server):
                self.n_judged += 1
                osfs = [line for size, line in both if size not in self.own_sizes]
                self.run.need(not osfs, "a worker of user %s can write its root parent's "
                              "memory: %s" % (uid, osfs))

    def fetch(self, port, as_user, n=30):
        """The server at @port gives its www/file, @n times."""
        url = "http://127.0.0.1:%d/file" % port
        got = self.check(["curl", "-sS", "-f", "--max-time", "20"] + [url] * n,
                         as_user=as_user, text=False)
        with open(self.run.path("www/file"), "rb") as f:
            self.run.need(got == f.read() * n, "other bytes came")

    def upgraded(self):
        return harness.sum_stats(harness.read_stats(self.run.stats))["n_upgraded"]

    def done(self, least=1):
        """@least: connections that moved; each has two ends, of which both count."""
        if not self.run.is_kernel:
            total = harness.sum_stats(harness.read_stats(self.run.stats))
            print("workers %d, ends moved %d, back %d, broken %d" %
                  (self.n_judged, total["n_upgraded"], total["n_fallbacks"],
                   total["n_broken"]))
            self.run.need(self.n_judged, "no worker of another user was seen")
            self.run.need(total["n_upgraded"] >= 2 * least, "too few moved")
            self.run.need(not total["n_broken"], "connections were broken")
        for server in self.servers:
            self.run.stop(server)
        self.run.done()
