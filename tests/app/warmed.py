# SPDX-License-Identifier: MIT
"""
tests/app/warmed.py - connections that have moved before a test begins

    warmed.serve(port, {b"s": check_stream, b"r": send_stream})     the far end
    conn = warmed.connect(port, b"s")                               the near end

The far end has a process for each connection.  Both take turns until the connection is worth
a move; then the near end says by one byte what the far end is to do.
"""
import os
import signal
import socket

TURNS = 20


def serve(port, ways):
    listener = socket.create_server(("127.0.0.1", port), backlog=64)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        conn = listener.accept()[0]
        if os.fork():
            conn.close()
            continue
        try:
            for _ in range(TURNS):
                conn.send(conn.recv(1))
            way = conn.recv(1)
            if way:
                ways[way](conn)
        except OSError:
            pass
        os._exit(0)


def connect(port, way):
    conn = socket.create_connection(("127.0.0.1", port))
    for _ in range(TURNS):
        conn.send(b"x")
        conn.recv(1)
    conn.send(way)
    return conn
