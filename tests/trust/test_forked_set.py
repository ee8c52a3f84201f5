#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_forked_set.py - a forked worker follows nothing of its parent's epoll set

A server has so many connections in one epoll set that the set takes several places in osf's
tables.  It forks a worker, which closes all of them and the set, makes a set of its own, and
serves a new connection there, while the parent's connections have news.  What the worker has
freed is not used again.
"""
import os
import select
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
import harness  # noqa: E402

CONNECTIONS = 400
TURNS = 10
# However little others have gained by it.
EACH_MOVES = {"OSF_UPGRADE_PINGPONGS": "5"}
LATE = 20  # connections that the worker accepts


def serve_in_worker(listener, conns, edges):
    for conn in conns:
        conn.close()
    edges.close()
    own = select.epoll()
    own.register(listener, select.EPOLLIN)
    mine, n_ended = {}, 0
    while n_ended < LATE:
        for fd, _ in own.poll(20):
            if fd == listener.fileno():
                conn = listener.accept()[0]
                mine[conn.fileno()] = conn
                own.register(conn, select.EPOLLIN)
                continue
            data = mine[fd].recv(90)
            if data:
                mine[fd].sendall(data)
            else:
                n_ended += 1
                own.unregister(fd)
                mine.pop(fd).close()
    os._exit(0)


def server(port):
    listener = socket.create_server(("127.0.0.1", port), backlog=CONNECTIONS)
    listener.accept()[0].close()  # of wait_port()
    edges = select.epoll()
    conns = []
    for _ in range(CONNECTIONS):
        conn = listener.accept()[0]
        conns.append(conn)
        edges.register(conn, select.EPOLLIN)
        for _ in range(TURNS):
            conn.sendall(conn.recv(9))
    edges.poll(0)
    pid = os.fork()
    if not pid:
        serve_in_worker(listener, conns, edges)
    status = os.waitpid(pid, 0)[1]
    for conn in conns:
        conn.sendall(conn.recv(9))
    print("worker: %d" % status, flush=True)


def client(port):
    conns = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
    for conn in conns:
        for _ in range(TURNS):
            conn.sendall(b"x")
            conn.recv(9)
    for i in range(LATE):
        late = socket.create_connection(("127.0.0.1", port))
        conns[i].sendall(b"news")  # for the set that the worker has closed
        for _ in range(3 * TURNS):
            late.sendall(b"late")
            if late.recv(9) != b"late":
                sys.exit("wrong bytes")
        late.close()
    for i, conn in enumerate(conns):
        if i >= LATE:
            conn.sendall(b"news")
        if conn.recv(9) != b"news":
            sys.exit("wrong bytes of the parent")


def main():
    run = harness.Run(__file__)
    port = harness.free_port()
    script = os.path.abspath(__file__)
    run.start([sys.executable, script, "server", port], extra=EACH_MOVES)
    run.wait_port(port)
    run.python(script, "client", port, extra=EACH_MOVES)
    total = harness.sum_stats(harness.read_stats(run.stats))
    run.need(run.is_kernel or total["n_upgraded"] > CONNECTIONS,
             "%d ends of connections moved" % total["n_upgraded"])
    run.done()


if sys.argv[1:2] == ["server"]:
    server(int(sys.argv[2]))
elif sys.argv[1:2] == ["client"]:
    client(int(sys.argv[2]))
else:
    main()
