# SPDX-License-Identifier: MIT
"""
tests/suites/place.py - where a suite runs: on the bare kernel, or under osf

    place = Place(root, log_dir, is_osf=True)
    ended = place.run(["perl", "t/basic.t"], timeout=60, cwd=tree)
    ended.is_ok(), ended.text, ended.why()

A command is bounded in time, all that it started ends with it, and the statistics
that processes under osf left are added up.
"""
import ctypes
import glob
import os
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "app"))
import harness  # noqa: E402

BUILD = os.path.abspath(os.environ.get("OSF_BUILD", "build"))
TAIL_LINES = 30  # of the output of a test that differs


def say(*words):
    print(*words, flush=True)


# --- processes: all that a command leaves behind ends with it ---

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans():
    """What a command started and left becomes a child of ours."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children():
    pids = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, "rb") as f:
                stat = f.read()
        except OSError:
            continue
        if int(stat[stat.rindex(b")") + 2:].split()[1]) == os.getpid():
            pids.append(int(path.split("/")[2]))
    return pids


def end_children():
    """Kills until there is none; children of killed ones come to us in turn."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        pids = children()
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass


class Ended:
    """A command's end: its status, None when it took too long, and output."""

    def __init__(self, status, text):
        self.status = status
        self.text = text

    def is_ok(self):
        return self.status == 0

    def tail(self, n_lines=TAIL_LINES):
        return "\n".join(self.text.rstrip().split("\n")[-n_lines:])

    def why(self):
        """A word for the result of a test that did not pass."""
        if self.status is None:
            return "timeout"
        if self.status < 0:
            return "killed by %s" % signal.Signals(-self.status).name
        return "fail"


# --- the two places ---

class Place:
    """Where a suite runs: the bare kernel, or osf.

    @tmp:   empty directory, TMPDIR of the programs; emptied by fresh()
    @log:   file with the output of all commands
    @lib:   the library to preload; a copy where other users may not read it
    """

    def __init__(self, root, log_dir, is_osf):
        self.is_osf = is_osf
        self.name = "osf" if is_osf else "kernel"
        self.tmp = os.path.join(root, self.name)
        self.stats = os.path.join(root, "stats")
        self.log = os.path.join(log_dir, self.name + ".log")
        self.lib = os.path.join(BUILD, "libosf.so")
        self.total = dict.fromkeys(harness.TOTALS, 0)
        self.by_program = {}
        self.reasons = {}
        self.log_dir = log_dir
        open(self.log, "w").close()
        os.makedirs(self.stats, exist_ok=True)
        os.chmod(self.stats, 0o777)
        self.fresh()

    def fresh(self):
        shutil.rmtree(self.tmp, ignore_errors=True)
        os.makedirs(self.tmp, exist_ok=True)
        os.chmod(self.tmp, 0o1777)

    def env(self, extra=None):
        env = dict(os.environ, TMPDIR=self.tmp, LC_ALL="C.UTF-8")
        for name in list(env):
            if name == "LD_PRELOAD" or name.lower().endswith("_proxy"):
                del env[name]
        env.update(extra or {})
        if self.is_osf:
            env["LD_PRELOAD"] = self.lib
            env["OSF_STATS_DIR"] = self.stats
            env.setdefault("OSF_UPGRADE_TURNS", "0")
        return env

    def start(self, cmd, cwd=None, env=None, user=None):
        """Starts a program; its output goes to the log.  It ends with the next
        run(), or by end()."""
        with open(self.log, "ab") as log:
            return subprocess.Popen([str(word) for word in cmd], stdout=log,
                                    stderr=subprocess.STDOUT, user=user,
                                    stdin=subprocess.DEVNULL,
                                    cwd=cwd or self.tmp, env=self.env(env),
                                    start_new_session=True)

    def run(self, cmd, timeout, cwd=None, env=None, user=None, watch=None):
        """Runs a program to its end and ends what it left.  Return: Ended.

        @user:  a name, to run as another user
        @watch: called several times a second; True ends the program
        """
        with open(self.log, "ab") as log:
            log.write(("\n--- %s\n" % " ".join(str(w) for w in cmd)).encode())
            at = log.tell()
        popen = self.start(cmd, cwd, env, user)
        began = time.monotonic()
        end = began + timeout
        is_late = False
        while popen.poll() is None and not is_late:
            try:
                popen.wait(0.2 if watch else timeout)
            except subprocess.TimeoutExpired:
                is_late = time.monotonic() >= end or bool(watch and watch())
        if is_late:
            end_politely(popen)
        status = None if is_late else popen.returncode
        self.end()
        with open(self.log, "rb") as log:
            log.seek(at)
            text = log.read().decode("utf-8", "replace")
        with open(self.log, "ab") as log:
            log.write(b"--- ended: %s, %.1f s\n" % (
                str(status).encode(), time.monotonic() - began))
        return Ended(status, text)

    def end(self):
        """Ends all programs and adds up their statistics."""
        end_children()
        for path in glob.glob(os.path.join(self.stats, "*.osf")):
            try:
                self.add(harness.Segment(path))
            except ValueError:
                pass  # killed at its very start, before the header was written
            os.unlink(path)

    def add(self, segment):
        for name in harness.TOTALS:
            self.total[name] += segment.total[name]
        n = self.by_program.get(segment.program, 0)
        self.by_program[segment.program] = n + segment.total["n_upgraded"]
        for name, count in zip(harness.reason_names(), segment.reasons):
            if count:
                self.reasons[name] = self.reasons.get(name, 0) + count

    def n_offloaded(self):
        """Connections: either end counts, so both are halved."""
        return self.total["n_upgraded"] // 2


def end_politely(popen):
    """SIGABRT first: some programs then say where they were."""
    popen.send_signal(signal.SIGABRT)
    try:
        popen.wait(3)
    except subprocess.TimeoutExpired:
        popen.kill()
        popen.wait()
