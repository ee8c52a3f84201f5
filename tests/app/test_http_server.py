#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_http_server.py - python's http.server and curl: small and large
files, many at a time, and one end on the kernel only
"""
import os
import sys

import harness

SIZES = {"empty": 0, "one": 1, "small": 3000, "middle": 400000,
         "large": 200 << 20}


def server_start(run, osf):
    port = harness.free_port()
    run.start([sys.executable, "-m", "http.server", port, "--bind",
               "127.0.0.1", "--protocol", "HTTP/1.1", "--directory",
               run.path("www")], osf=osf, eager=True)
    run.wait_port(port)
    return port


def fetch(run, port, name, osf):
    out = run.path("got")
    run.check(["curl", "-sS", "-f", "-o", out,
               "http://127.0.0.1:%d/%s" % (port, name)], osf=osf, eager=True)
    same = os.path.getsize(out) == SIZES[name] and \
        harness.sha256(out) == harness.sha256(run.path("www/" + name))
    run.need(same, "%s differs" % name)
    os.unlink(out)


def test_parallel(run, port, osf):
    cmd = ["curl", "-sS", "-f", "-Z"]
    for i in range(12):
        cmd += ["http://127.0.0.1:%d/middle" % port, "-o",
                run.path("par%d" % i)]
    run.check(cmd, osf=osf, eager=True)
    digest = harness.sha256(run.path("www/middle"))
    for i in range(12):
        run.need(harness.sha256(run.path("par%d" % i)) == digest,
                 "parallel answer %d differs" % i)


def test_pair(run, server_osf, client_osf):
    port = server_start(run, server_osf)
    for name in SIZES:
        fetch(run, port, name, client_osf)
    test_parallel(run, port, client_osf)


def main():
    run = harness.Run(__file__, ["curl"])
    os.mkdir(run.path("www"))
    for seed, (name, size) in enumerate(SIZES.items()):
        harness.make_file(run.path("www/" + name), size, seed)
    # One end only under osf: nothing may change, and nothing is offloaded.
    test_pair(run, True, False)
    test_pair(run, False, True)
    run.expect_on_kernel()
    test_pair(run, True, True)
    run.expect_offloaded(2, 190 << 20)
    run.done()


main()
