#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_memcached.py - memcached with two threads: a client of our own
with many threads and values up to 1 MB, memcslap, and libmemcached's own
protocol test
"""
import os
import pwd
import random
import socket
import sys
import threading

import harness

N_THREADS = 12
N_KEYS = 60


class Client:
    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), 10)
        self.file = self.sock.makefile("rb", 65536)

    def set(self, key, value):
        self.sock.sendall(b"set %s 0 0 %d\r\n%s\r\n" %
                          (key, len(value), value))
        return self.file.readline()

    def get(self, key):
        self.sock.sendall(b"get %s\r\n" % key)
        line = self.file.readline()
        if line == b"END\r\n":
            return None
        size = int(line.split()[3])
        value = self.file.read(size + 2)[:-2]
        if self.file.readline() != b"END\r\n":
            raise SystemExit("no END after a value")
        return value


def client_thread(port, index, failed):
    try:
        rnd = random.Random(index)
        client = Client(port)
        values = {}
        for turn in range(200):
            key = b"k%d.%d" % (index, rnd.randrange(N_KEYS))
            if rnd.random() < 0.5:
                size = min(int(2 ** rnd.uniform(0, 19.9)), 1000000)
                values[key] = rnd.randbytes(size)
                if client.set(key, values[key]) != b"STORED\r\n":
                    raise SystemExit("set failed")
            elif client.get(key) != values.get(key):
                raise SystemExit("%r has another value" % key)
        client.sock.sendall(b"incr n%d 1\r\n" % index)
        if client.file.readline() != b"NOT_FOUND\r\n":
            raise SystemExit("incr of nothing")
    except BaseException as why:
        failed.append(why)


def client_main(port):
    failed = []
    threads = [threading.Thread(target=client_thread, args=(port, i, failed))
               for i in range(N_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise SystemExit("%d threads failed: %r" % (len(failed), failed[0]))


def main():
    # The server becomes nobody, and the clients stay who they are.
    os.environ["OSF_ALLOW_UIDS"] = "%d,%d" % (os.geteuid(),
                                              pwd.getpwnam("nobody").pw_uid)
    run = harness.Run(__file__, ["memcached", "memcslap", "memccapable"])
    port = harness.free_port()
    server = run.start(["memcached", "-t", "2", "-p", port, "-l", "127.0.0.1",
                        "-U", "0", "-m", "512", "-u", "nobody", "-P",
                        run.path("pid")])
    run.wait_port(port)
    run.python(__file__, "client", port)
    where = "127.0.0.1:%d" % port
    for args in (["--test=set"], ["--test=get"], ["--test=mget"],
                 ["--test=set", "--binary"], ["--test=get", "--non-blocking"]):
        run.check(["memcslap", "--servers", where, "--concurrency=4",
                   "--execute-number=2000", "--initial-load=500"] + args)
    # memcached 1.6 closes on "quit foo bar"; the test wants an error, and gets
    # one or not as the timing is.
    text = run.check(["sh", "-c", "memccapable -h 127.0.0.1 -p %d -t 10; true" %
                      port])
    failed = [line.strip() for line in text.split("\n")
              if line.strip() and "[pass]" not in line and
              "tests" not in line]
    run.need(text.count("[pass]") >= 50 and failed in ([], ["ascii quit"]),
             "memccapable:\n" + text)
    run.need(server.popen.poll() is None, "memcached ended")
    run.expect_offloaded(N_THREADS + 4, 10 << 20)
    run.done()


if sys.argv[1:2] == ["client"]:
    client_main(int(sys.argv[2]))
else:
    main()
