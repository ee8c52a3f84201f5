#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/xlio/test_examples.py - the programs of examples/, with each other and with others

    test_examples.py FOLDER

The echo servers are asked by the echo client over shared memory and over the kernel, by
nc, by this process and by openssl s_client, which know nothing of osf (the last is told
its own greeting, says so and hangs up); and the echo client asks a server that is one
of socat's.
"""
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
import harness  # noqa: E402

BYTES = 6 << 20
KERNEL = {"OSF_SHM": "0"}


def wait_listening(run, port):
    """Without connecting: the servers count their connections."""
    want = ":%04X" % port
    for _ in range(500):
        for path in ("/proc/net/tcp", "/proc/net/tcp6"):
            if os.path.exists(path):
                with open(path) as f:
                    for line in f:
                        words = line.split()
                        if words[1].endswith(want) and words[3] == "0A":
                            return
        run.check(["sleep", "0.02"], osf=False)
    run.fail("nobody listens at %d" % port)


def ask_plainly(port, data):
    """By this process, on the kernel."""
    got = bytearray()
    with socket.create_connection(("127.0.0.1", port), 20) as s:
        for at in range(0, len(data), 65536):
            part = data[at:at + 65536]
            s.sendall(part)
            want = len(got) + len(part)
            while len(got) < want:
                got += s.recv(want - len(got)) or b"?"
        s.shutdown(socket.SHUT_WR)
        s.recv(1)
    return bytes(got)


def ask_for_tls(run, port):
    said = run.check(["sh", "-c", "openssl s_client -connect 127.0.0.1:%s 2>&1; echo" % port],
                     osf=False)
    run.need("CONNECTED" in said and "error:" in said, "openssl s_client: " + said)


def ask(run, cmd, request, data, extra=None):
    with open(request, "rb") as f:
        got = run.check(cmd, osf=False, stdin=f, text=False, extra=extra)
    run.need(got == data, "%s: another answer, of %d bytes" % (cmd[0], len(got)))


def serve(run, folder, server, n, *args, extra=None):
    port = harness.free_port()
    proc = run.start([os.path.join(folder, server), str(port)] + list(args) + [str(n)],
                     osf=False, extra=extra)
    wait_listening(run, port)
    return proc, str(port)


def main():
    folder = sys.argv[1]
    run = harness.Run(__file__, needs=["nc.openbsd", "openssl", "socat"])
    client = os.path.join(folder, "echo_client")
    request = harness.make_file(run.path("request"), BYTES)
    with open(request, "rb") as f:
        data = f.read()
    for server, args in (("echo_server", []), ("multi_server", ["3"])):
        stats = {"OSF_STATS_DIR": run.stats, "OSF_UPGRADE_TURNS": "0"}
        proc, port = serve(run, folder, server, 5, *args, extra=stats)
        ask(run, [client, port], request, data, extra=stats)
        ask(run, [client, port], request, data, extra=KERNEL)
        ask(run, ["nc.openbsd", "-N", "127.0.0.1", port], request, data)
        ask_for_tls(run, port)
        run.need(ask_plainly(int(port), data) == data, server + " answers otherwise")
        run.wait(proc)
    run.expect_offloaded(2, BYTES)
    port = str(harness.free_port())
    run.start(["socat", "TCP-LISTEN:%s,bind=127.0.0.1,reuseaddr" % port, "EXEC:cat"],
              osf=False)
    wait_listening(run, int(port))
    ask(run, [client, port], request, data)
    for extra in ({}, KERNEL):
        port = str(harness.free_port())
        ping = os.path.join(folder, "ping_pong")
        proc = run.start([ping, "server", port], osf=False, extra=extra)
        wait_listening(run, int(port))
        print(run.check([ping, "client", port, "50", "64"], osf=False, extra=extra,
                        timeout=60).strip())
    run.done()


main()
