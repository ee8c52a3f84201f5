#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_redis.py - redis: benchmark, pipelines, pub/sub, snapshots, and
values of every size compared by a client of our own
"""
import random
import socket
import sys

import harness


# --- our own client: runs as a program of its own, so under osf ---

class Client:
    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), 10)
        self.file = self.sock.makefile("rb", 65536)

    def send(self, *words):
        parts = [b"*%d\r\n" % len(words)]
        for word in words:
            parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
        self.sock.sendall(b"".join(parts))

    def reply(self):
        line = self.file.readline()
        if line[:1] in b"+:":
            return line[1:-2]
        if line[:1] != b"$":
            raise SystemExit("redis said %r" % line)
        size = int(line[1:])
        if size < 0:
            return None
        value = self.file.read(size + 2)
        return value[:-2]


def client_main(port, seed):
    rnd = random.Random(seed)
    client = Client(port)
    values = {}
    for i in range(120):
        size = min(int(2 ** rnd.uniform(0, 22)), 4 << 20)
        key = b"v%d.%d" % (seed, i)
        values[key] = rnd.randbytes(size)
        client.send(b"SET", key, values[key])
        if client.reply() != b"OK":
            raise SystemExit("SET %r failed" % key)
    for key in rnd.sample(sorted(values), len(values)):
        client.send(b"GET", key)
        if client.reply() != values[key]:
            raise SystemExit("%r has another value" % key)
    # Many small ones in flight.
    for i in range(1000):
        client.send(b"SET", b"p%d" % i, b"%d" % (i * seed))
    for i in range(1000):
        client.reply()
    for i in range(1000):
        client.send(b"GET", b"p%d" % i)
    for i in range(1000):
        if client.reply() != b"%d" % (i * seed):
            raise SystemExit("pipelined GET %d is wrong" % i)
    for key in values:
        client.send(b"DEL", key)
        client.reply()
    print("values: %d bytes" % sum(len(v) for v in values.values()))


# --- the test ---

def server_start(run, port):
    proc = run.start(["redis-server", "--port", port, "--bind", "127.0.0.1",
                      "--dir", run.tmp, "--save", "", "--appendonly", "no",
                      "--daemonize", "no"])
    run.wait_port(port)
    return proc


def cli(run, port, *words, **kw):
    return run.check(["redis-cli", "-p", port] + list(words), **kw).strip()


def test_benchmark(run, port):
    for args in (["-t", "set,get,incr,lpush,lrange_100", "-n", "10000"],
                 ["-t", "set,get", "-n", "100000", "-P", "16"],
                 ["-t", "set,get", "-n", "5000", "-d", "20000", "-c", "10"],
                 ["-t", "get", "-n", "20000", "-c", "1"],
                 ["-t", "set,get", "-n", "20000", "--threads", "2"]):
        text = run.check(["redis-benchmark", "-p", port, "-q"] + args)
        run.need("requests per second" in text and "rror" not in text,
                 "redis-benchmark %s:\n%s" % (args, text))


def test_pubsub(run, port):
    n = 2000
    sub = run.start(["redis-cli", "-p", port, "subscribe", "news"])
    run.until(lambda: "subscribe" in sub.text(), "the subscriber heard nothing")
    script = run.path("publish")
    with open(script, "w") as f:
        for i in range(n):
            f.write("publish news message-%d\n" % i)
    with open(script) as f:
        cli(run, port, stdin=f)
    run.until(lambda: sub.text().count("message-") >= n,
              lambda: "the subscriber has %d of %d" % (sub.text().count("message-"), n))
    heard = [int(line.split("-")[1]) for line in sub.text().split("\n")
             if line.startswith("message-")]
    run.need(heard == list(range(n)), "messages lost or out of order")
    run.stop(sub)


def wait_saved(run, port):
    run.until(lambda: "rdb_bgsave_in_progress:0" in cli(run, port, "info", "persistence"),
              "BGSAVE does not end")
    run.need("rdb_last_bgsave_status:ok" in
             cli(run, port, "info", "persistence"), "BGSAVE failed")


def wait_loaded(run, port):
    """The server takes connections while it still reads the snapshot."""
    run.until(lambda: "loading:0" in cli(run, port, "info", "persistence"),
              "the snapshot is not read")


def test_snapshot(run, server, port):
    load = run.start(["redis-benchmark", "-p", port, "-q", "-t", "set", "-r",
                      "20000", "-n", "60000", "-d", "100", "-c", "20"])
    run.until(lambda: int(cli(run, port, "dbsize").split()[-1]) > 1000,
              "the server gets no keys")
    run.need("saving started" in cli(run, port, "bgsave"), "BGSAVE refused")
    run.wait(load)
    wait_saved(run, port)
    run.need("saving started" in cli(run, port, "bgsave"), "BGSAVE refused")
    wait_saved(run, port)
    size = cli(run, port, "dbsize")
    cli(run, port, "shutdown", "nosave")
    run.wait(server)
    server_start(run, port)
    wait_loaded(run, port)
    run.need(cli(run, port, "dbsize") == size and int(size) > 10000,
             "the snapshot has %s keys, not %s" %
             (cli(run, port, "dbsize"), size))


def main():
    run = harness.Run(__file__, ["redis-server", "redis-benchmark",
                                 "redis-cli"])
    port = harness.free_port()
    server = server_start(run, port)
    test_benchmark(run, port)
    for seed in (1, 2):
        run.python(__file__, "client", port, seed)
    test_pubsub(run, port)
    test_snapshot(run, server, port)
    run.expect_offloaded(50, 10 << 20)
    run.done()


if sys.argv[1:2] == ["client"]:
    client_main(int(sys.argv[2]), int(sys.argv[3]))
else:
    main()
