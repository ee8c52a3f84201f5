# SPDX-License-Identifier: MIT
"""
tests/verbs/programs.py - programs of other projects on the software RDMA device, started and ended

    run_programs.py, run_cm.py, run_mpi.py, run_pyverbs.py

start() runs a program under `osf run` and keeps what it prints in a folder; finish() waits
for its end, for a bounded time; counters() says what the device has moved for it
(OSF_RDMA_COUNTERS); show() prints what a failed one said.
"""
import glob
import json
import os
import shutil
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
from ports import free_port  # noqa: E402, F401, for the tests

BUILD = os.environ.get("OSF_BUILD", "build")
OSF = os.path.join(BUILD, "osf")
LIBRSPRELOAD = glob.glob("/usr/lib/*/rsocket/librspreload.so")
# Of one program.  perftest measures the clock's speed first, a second or two on a busy machine.
LIMIT_S = 120
COUNTERS = "counters" # of all programs of a folder
# For a suite: what is read of counters is added to this file.
TOTALS = os.environ.get("OSF_VERBS_TOTALS")
LISTENING = {"tcp": "0A", "udp": "07"} # states of /proc/net


def need(program, package):
    """Ends the test as skipped where a program is not installed."""
    if not shutil.which(program):
        print("skip: no %s (%s)" % (program, package))
        sys.exit(77)


def own_address():
    """Return: an address of this host's that is not the loopback's, or that."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return s.getsockname()[0]


def listens(port, space="tcp"):
    """Does somebody listen on @port?  Without a connection, which the program would take.

    @space: "tcp", "udp", or a port space of rdma_cm's.
    """
    if space not in LISTENING:
        with open("/proc/net/unix") as f:
            return any("@osf-cm/%d/%d/" % (space, port) in line and " 00010000 " in line for line in f)
    want, state = ":%04X" % port, LISTENING[space]
    for table in (space, space + "6"):
        with open("/proc/net/" + table) as f:
            if any(line.split()[1].endswith(want) and line.split()[3] == state for line in f.readlines()[1:]):
                return True
    return False


def wait_listening(port, process, space="tcp"):
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end and process.poll() is None and not listens(port, space):
        time.sleep(0.01)


def preloaded(words):
    """A command, whose first word may be "rspreload": librspreload comes first, before osf's libraries."""
    if words[0] != "rspreload":
        return words
    return ["sh", "-c", 'LD_PRELOAD="$0:$LD_PRELOAD" exec "$@"', LIBRSPRELOAD[0]] + words[1:]


def environment(counters_path, **more):
    """Return: that of a program that tells what the device has moved for it."""
    env = dict(os.environ, OSF_RDMA_COUNTERS=counters_path, **more)
    env.pop("LD_PRELOAD", None)
    return env


def start(folder, end, command, counters_file=COUNTERS, **more):
    """Start one end of a connection; @more: variables of its environment."""
    with open(os.path.join(folder, end + ".out"), "w") as out:
        return subprocess.Popen([OSF, "run", "--"] + command, stdout=out, stderr=subprocess.STDOUT,
                                env=environment(os.path.join(folder, counters_file), **more))


def finish(process):
    """Return: its status, or a text where it had to be killed."""
    try:
        return process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return "no end in %d s" % LIMIT_S


def each_counters(path):
    """Return: for each process what it has written, by name."""
    if not os.path.exists(path):
        return []
    with open(path) as f:
        each = [{k: int(v) for k, v in (word.split("=") for word in line.split())} for line in f]
    if TOTALS:
        with open(TOTALS, "a") as f:
            f.writelines(json.dumps(one) + "\n" for one in each)
    return each


def counters(folder, counters_file=COUNTERS):
    """Return: what the processes have written, added up by name."""
    total = {}
    for one in each_counters(os.path.join(folder, counters_file)):
        for name, value in one.items():
            total[name] = total.get(name, 0) + value
    return total


def show(folder):
    for path in sorted(glob.glob(os.path.join(folder, "*.out"))):
        with open(path, errors="replace") as f:
            print("  ---", os.path.basename(path))
            print("   ", "\n    ".join(f.read().split("\n")[-60:]))
