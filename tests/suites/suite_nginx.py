#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/suites/suite_nginx.py - nginx reloads and replaces itself under load

    reload   HUP: new workers, the old ones end when their connections do
    upgrade  USR2: a new program inherits the listening sockets by exec();
             WINCH and QUIT: the old one ends

While either goes on wrk asks over lasting and over new connections, and curl reads
a page in each round.  A request must not fail because nginx changes, so a client of
new connections must see no failure at all.  A lasting connection that nginx closes
may meet a request that is under way, on the kernel in nearly every round, and hardly
more than once in it.  After the last round the workers, of a program that came by
exec(), must still have their connections offloaded.
"""
import os
import pwd
import re
import signal
import subprocess
import time

import suites
from place import harness

ROUNDS = {"quick": 10, "full": 100}
PATIENCE_S = 30  # with what should take a second
PAGE_SIZE = 100000
N_PAGES = 5  # that curl reads in each round, twice
N_LASTING = 4  # connections of each wrk
COMPLAINT = r"\[(alert|crit|emerg)\]|exited on signal"

CONFIG = """
# Without a daemon USR2 is ignored.
daemon on;
worker_processes 2;
user %(user)s;
pid %(tmp)s/nginx.pid;
error_log %(tmp)s/error.log notice;
# nginx clears the environment of what it executes.
env LD_PRELOAD;
env OSF_STATS_DIR;
env OSF_UPGRADE_TURNS;
events { worker_connections 512; }
http {
    access_log off;
    client_body_temp_path %(tmp)s/body;
    proxy_temp_path %(tmp)s/proxy;
    fastcgi_temp_path %(tmp)s/fastcgi;
    uwsgi_temp_path %(tmp)s/uwsgi;
    scgi_temp_path %(tmp)s/scgi;
    keepalive_requests 1000000;
    server { listen 127.0.0.1:%(port)d; root %(tmp)s/www; }
}
"""


class Failed(Exception):
    pass


def wait_until(is_so, what):
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > end:
            raise Failed("waited %d s until %s" % (PATIENCE_S, what))
        time.sleep(0.01)


def children(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            return [int(word) for word in f.read().split()]
    except OSError:
        return []


def cmdline(pid):
    try:
        with open("/proc/%d/cmdline" % pid) as f:
            return f.read()
    except OSError:
        return ""


# --- the server, whatever program and process it is by now ---

class Nginx:
    def __init__(self, place):
        self.place = place
        self.port = harness.free_port()
        self.url = "http://127.0.0.1:%d/" % self.port

    def path(self, name):
        return os.path.join(self.place.tmp, name)

    def start(self):
        os.mkdir(self.path("www"))
        harness.make_file(self.path("www/page"), PAGE_SIZE)
        harness.make_file(self.path("www/small"), 300, 2)
        with open(self.path("nginx.conf"), "w") as f:
            f.write(CONFIG % {"port": self.port, "tmp": self.place.tmp,
                              "user": pwd.getpwuid(os.getuid()).pw_name})
        self.place.start([harness.find("nginx"), "-p", self.place.tmp,
                          "-e", self.path("error.log"),
                          "-c", self.path("nginx.conf")])
        wait_until(lambda: len(self.workers()) == 2, "nginx serves")

    def master(self, suffix=""):
        """Return: its process number, 0 when there is none."""
        try:
            with open(self.path("nginx.pid" + suffix)) as f:
                return int(f.read() or 0)
        except FileNotFoundError:
            return 0

    def workers(self):
        """Those that serve, not those that are on their way out."""
        titles = {pid: cmdline(pid) for pid in children(self.master())}
        return {pid for pid, title in titles.items()
                if "worker process" in title and "shutting" not in title}

    def reload(self):
        """Until other workers serve; the old ones may still be leaving."""
        before = self.workers()
        os.kill(self.master(), signal.SIGHUP)
        wait_until(lambda: len(self.workers() - before) == 2 and
                   not self.workers() & before, "other workers serve")

    def upgrade(self):
        """Until the old program has ended."""
        old = self.master()
        os.kill(old, signal.SIGUSR2)
        wait_until(lambda: self.master(".oldbin") == old and
                   self.master() not in (0, old) and
                   len(self.workers()) == 2, "a new program serves")
        os.kill(old, signal.SIGWINCH)
        time.sleep(0.05)
        os.kill(old, signal.SIGQUIT)
        wait_until(lambda: not self.master(".oldbin"), "the old program ends")

    def complaints(self):
        """Return: what its log has of them; the first are shown."""
        with open(self.path("error.log"), errors="replace") as f:
            lines = [line for line in f if re.search(COMPLAINT, line)]
        for line in lines[:10]:
            suites.say(line.rstrip())
        return lines


# --- load ---

class Wrk:
    """wrk until stop(), which counts its failures."""

    def __init__(self, nginx, headers):
        self.log = nginx.path("wrk.%d" % len(headers))
        cmd = [harness.find("wrk"), "-t", "1", "-c", str(N_LASTING), "-d", "3600"]
        for header in headers:
            cmd += ["-H", header]
        with open(self.log, "wb") as log:
            self.popen = subprocess.Popen(
                cmd + [nginx.url + "small"], stdout=log,
                stderr=subprocess.STDOUT, env=nginx.place.env())

    def stop(self):
        """Return: failed requests, served requests.  INT makes wrk print."""
        self.popen.send_signal(signal.SIGINT)
        self.popen.wait(PATIENCE_S)
        with open(self.log) as f:
            text = f.read()
        served = re.search(r"(\d+) requests in", text)
        if not served or int(served.group(1)) == 0:
            raise Failed("wrk has not been served:\n" + text)
        failed = re.findall(r"(?:connect|read|write|timeout) (\d+)", text)
        failed += re.findall(r"Non-2xx or 3xx responses: (\d+)", text)
        return sum(int(n) for n in failed), int(served.group(1))


def n_bad_pages(nginx):
    """curl reads the page over one connection, and over one for each time."""
    return n_bad_of(nginx, []) + n_bad_of(nginx, ["-H", "Connection: close"])


def n_bad_of(nginx, options):
    out = [nginx.path("got.%d" % i) for i in range(N_PAGES)]
    cmd = [harness.find("curl"), "-sS", "-m", "10"] + options
    for path in out:
        cmd += [nginx.url + "page", "-o", path]
        if os.path.exists(path):
            os.unlink(path)
    subprocess.run(cmd, env=nginx.place.env(), timeout=PATIENCE_S * N_PAGES)
    with open(nginx.path("www/page"), "rb") as f:
        page = f.read()
    return sum(not is_page(path, page) for path in out)


def is_page(path, page):
    if not os.path.exists(path):
        return False
    with open(path, "rb") as f:
        return f.read() == page


# --- the suite ---

class NginxSuite(suites.Suite):
    name = "nginx"
    gates = {"quick": 50, "full": 500}

    def __init__(self, is_quick):
        super().__init__(is_quick)
        self.n_rounds = ROUNDS["quick" if is_quick else "full"]

    def prepare(self):
        for program in ("nginx", "wrk", "curl"):
            suites.need_program(program)

    def tests(self):
        return ["reload", "upgrade"]

    def run(self, place, tests):
        results = {}
        for test in tests:
            place.fresh()
            results.update({"%s: %s" % (test, what): result for what, result
                            in self.run_test(place, test).items()})
            place.end()
        return results

    def run_one(self, place, test):
        return self.run(place, [test.split(": ")[0]]).get(test, "missing")

    def run_test(self, place, test):
        """Return: {what: result} of all rounds of one kind."""
        nginx = Nginx(place)
        try:
            nginx.start()
            lasting, new = Wrk(nginx, []), Wrk(nginx, ["Connection: close"])
            n_bad = 0
            for _ in range(self.n_rounds):
                getattr(nginx, test)()
                n_bad += n_bad_pages(nginx)
            n_lasting, n_served = lasting.stop()
            n_new, n_served_new = new.stop()
            n_bad += n_bad_pages(nginx)
        except (Failed, subprocess.TimeoutExpired) as e:
            suites.say("%s on %s: %s" % (test, place.name, e))
            return {"rounds": "fail"}
        suites.say("%s on %s: %d rounds; broken: %d of %d requests over lasting "
                   "connections, %d of %d over new ones, %d pages" %
                   (test, place.name, self.n_rounds, n_lasting, n_served,
                    n_new, n_served_new, n_bad))
        return {"rounds": "ok", "pages": verdict(n_bad == 0),
                "new connections": verdict(n_new == 0),
                "lasting connections": verdict(
                    n_lasting <= 1.5 * N_LASTING * self.n_rounds),
                "error log": verdict(not nginx.complaints()),
                "offloaded at the end": verdict(is_offloaded(nginx))}


def verdict(is_ok):
    return "ok" if is_ok else "fail"


def is_offloaded(nginx):
    """Have the workers that serve now had connections in shared memory?"""
    if not nginx.place.is_osf:
        return True
    serving = nginx.workers()
    return sum(segment.total["n_upgraded"] for segment
               in harness.read_stats(nginx.place.stats)
               if segment.pid in serving) > 0


suites.main(NginxSuite)
