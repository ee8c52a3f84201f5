# SPDX-License-Identifier: MIT
"""
tests/suites/several.py - programs of a suite that run beside each other

    jobs = [several.Job("unit/quit", cmd, cwd, limit_s=60), ...]
    for name, ended in several.run(place, jobs, 4).items(): ...

Much of a test suite's time is spent asleep, so a few at a time do no harm as long
as each has its own directory and ports.  Each job is a session of its own and what
is left of that ends with it; what has left the session ends with the last job, as
after Place.run().
"""
import os
import signal
import subprocess
import time

from place import Ended, children, end_politely


class Job:
    """@cmd in @cwd with @env added to the place's, for @limit_s at most."""

    def __init__(self, name, cmd, cwd, limit_s, env=None):
        self.name = name
        self.cmd = [str(word) for word in cmd]
        self.cwd = cwd
        self.limit_s = limit_s
        self.env = env
        self.popen = None
        self.log = None
        self.end = None

    def start(self, place):
        self.log = os.path.join(os.path.dirname(place.log), "%s.%s.log" %
                                (self.name.replace("/", "-"), place.name))
        with open(self.log, "wb") as log:
            self.popen = subprocess.Popen(
                self.cmd, stdout=log, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL, cwd=self.cwd,
                env=place.env(self.env), start_new_session=True)
        self.end = time.monotonic() + self.limit_s

    def has_ended(self):
        return self.popen.poll() is not None or time.monotonic() > self.end

    def finish(self, place):
        """Ends what is left.  Return: Ended, its output also in the log."""
        is_late = self.popen.poll() is None
        if is_late:
            end_politely(self.popen)
        try:
            os.killpg(self.popen.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        with open(self.log, "rb") as f:
            said = f.read()
        os.unlink(self.log)
        with open(place.log, "ab") as log:
            log.write(b"\n--- %s\n" % " ".join(self.cmd).encode() + said)
        return Ended(None if is_late else self.popen.returncode,
                            said.decode("utf-8", "replace"))


def bury(running):
    """Orphans that have ended: tests ask by kill() whether they still run."""
    ours = {job.popen.pid for job in running}
    for pid in children():
        if pid not in ours:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass


def run(place, jobs, n_at_once):
    """Return: {name: Ended}."""
    waiting, running, ended = list(jobs), [], {}
    buried = time.monotonic()
    while waiting or running:
        while waiting and len(running) < n_at_once:
            running.append(waiting.pop(0))
            running[-1].start(place)
        for job in [job for job in running if job.has_ended()]:
            ended[job.name] = job.finish(place)
            running.remove(job)
        if time.monotonic() - buried > 0.5:
            bury(running)
            buried = time.monotonic()
        time.sleep(0.02)
    place.end()
    return ended
