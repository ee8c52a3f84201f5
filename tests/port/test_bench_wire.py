#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/port/test_bench_wire.py - `osf bench wire` measures, and leaves nothing behind

    test_bench_wire.py OSF

No figure is judged.  Those benchmarks that take little time run once.  Then one is
interrupted and another one is killed while it runs: the programs that it has started, osfd
among them, have to end, and with them the network namespaces, which have no names.  A user
who is not root hears why nothing is measured.
"""
import json
import os
import re
import signal
import subprocess
import sys
import time

PATIENCE_S = 60
NOBODY = 65534
# No ping-pong of TCP: it has a number of turns, which take minutes on a busy machine.
ALONE = ["wire-floor", "wire-memcached", "wire-freeze", "wire-thaw"]


def skip(why):
    print("skip: " + why)
    sys.exit(77)


def fail(why):
    print("FAIL: " + why)
    sys.exit(1)


def bench(osf, words, **more):
    r = subprocess.run([osf, "bench", "--json", "-n", "1", "-t", "0.1"] + words,
                       stdout=subprocess.PIPE, timeout=PATIENCE_S, **more)
    return {b["name"]: b for b in json.loads(r.stdout)["benches"]}


def measures(osf):
    for name, b in bench(osf, ALONE).items():
        if b["result"] == "skipped":
            skip(b["note"])
        if b["result"] not in ("ok", "NOT REACHED", "not judged"):
            fail("%s: %s" % (name, b))
        if name == "wire-memcached" and not re.match(r"\d+ ends, \d+ moves, \d+ back", b["note"]):
            fail("it does not say what has moved: %s" % b)
        print(name, b["result"])


def not_root(osf):
    def become_nobody():
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    b = bench(osf, ["wire-floor"], preexec_fn=become_nobody)["wire-floor"]
    if b["result"] != "skipped" or "root" not in b["note"]:
        fail("not root: %s" % b)


def starts(pid):
    """A process's number and the time of its start, which no other process has."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            after = f.read().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if after[0] == "Z" else (pid, after[19])


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        return [int(word) for word in f.read().split()]


def wait_for(what, condition):
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            fail(what)
        time.sleep(0.01)


def name_of(pid):
    try:
        with open("/proc/%d/comm" % pid) as f:
            return f.read().strip()
    except OSError:
        return ""


def ends(osf, sig):
    proc = subprocess.Popen([osf, "bench", "-t", "600", "wire-freeze"],
                            stdout=subprocess.DEVNULL)
    try:
        is_interrupted(proc, sig)
    finally:
        proc.kill()


def is_interrupted(proc, sig):
    wait_for("two osfd and two peers", lambda: proc.poll() is not None or sorted(
        name_of(pid) for pid in children(proc.pid)) == ["osf", "osf", "osfd", "osfd"])
    started = [starts(pid) for pid in children(proc.pid)]
    proc.send_signal(sig)
    status = proc.wait(timeout=PATIENCE_S)
    if status != (130 if sig == signal.SIGINT else -sig):
        fail("signal %d: status %d" % (sig, status))
    wait_for("what it has started goes on", lambda: not any(
        one and starts(one[0]) == one for one in started))
    print("signal %d: nothing is left" % sig)


def main():
    osf = os.path.abspath(sys.argv[1])
    if os.geteuid():
        skip("needs root")
    measures(osf)
    not_root(osf)
    ends(osf, signal.SIGINT)
    ends(osf, signal.SIGKILL)


if __name__ == "__main__":
    main()
