#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_sockperf.py - sockperf: ping-pong, throughput, checked contents,
and servers that wait in select, poll and epoll for sockets from a file
"""
import re
from concurrent.futures import ThreadPoolExecutor

import harness


def client(run, what, where, *args):
    tcp = [] if "-f" in where else ["--tcp"]  # a feed says it itself
    if what == "ping-pong":  # it has memory for 600,000 a second, and ends then
        tcp += ["--mps", "300000"]
    text = run.check(["sockperf", what, "-t", "1"] + tcp + where + list(args))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    run.need("error" not in plain.lower().replace("errors = 0", ""),
             "sockperf %s %s:\n%s" % (what, args, plain))
    if what == "ping-pong":
        run.need(re.search(r"dropped messages = 0; # duplicated messages = 0;"
                           r" # out-of-order messages = 0", plain),
                 "sockperf %s %s:\n%s" % (what, args, plain))
        counts = re.search(r"\[Valid Duration\].*SentMessages=(\d+);"
                           r" ReceivedMessages=(\d+)", plain)
        run.need(counts and int(counts[1]) > 100 and
                 counts[1] == counts[2], "sockperf %s %s:\n%s" %
                 (what, args, plain))
    else:
        run.need("BandWidth" in plain, "sockperf %s:\n%s" % (what, plain))


def test_server(run, args, clients):
    """A server with @args, and one client after the other."""
    ports = [harness.free_port() for _ in range(3)]
    where = ["-i", "127.0.0.1", "-p", ports[0]]
    if "-F" in args:
        feed = run.path("feed.%d" % ports[0])
        with open(feed, "w") as f:
            for port in ports:
                f.write("T:127.0.0.1:%d\n" % port)
        feed = ["-f", feed]
        server = run.start(["sockperf", "server"] + feed + args)
        ports_used = ports
    else:
        feed = where
        server = run.start(["sockperf", "server", "--tcp"] + where + args)
        ports_used = ports[:1]
    for port in ports_used:
        run.wait_port(port)
    for what, *more in clients:
        is_fed = "-F" in more
        client(run, what, feed if is_fed else where, *more)
    run.need(server.popen.poll() is None, "the server ended")
    run.stop(server, harness.signal.SIGINT, 0.5)


def cases():
    yield [], [["ping-pong"],
               ["ping-pong", "-m", "1000", "--data-integrity"],
               ["throughput", "-m", "60000"]]
    yield [], [["ping-pong", "-m", "5000", "-r", "4000"],
               ["ping-pong", "--nonblocked"],
               ["throughput", "-m", "1400"]]
    for how in "spe":
        yield ["-F", how], [["ping-pong", "-F", how],
                            ["ping-pong", "--data-integrity"]]
        yield ["-F", how, "--nonblocked"], \
            [["ping-pong", "-F", how, "--nonblocked"]]


def main():
    run = harness.Run(__file__, ["sockperf"])
    # A run of a second takes three, asleep: so some go side by side.
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda case: test_server(run, *case), cases()))
    run.expect_offloaded(15, 1 << 20)
    run.done()


main()
