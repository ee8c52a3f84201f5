#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_pipes.py - socat and nc in pipelines with half-closes: a request,
the end of it, then a large answer; both ways at once; and many small runs
"""
import os
import shlex

import harness

ANSWER_BYTES = 200 << 20


def server_script(run):
    """Reads all of its request, then sends the request's digest and the
    answer."""
    path = run.path("serve")
    with open(path, "w") as f:
        f.write("#!/bin/sh\nsha256sum | cut -d' ' -f1\nexec cat %s\n" %
                shlex.quote(run.path("answer")))
    os.chmod(path, 0o755)
    return path


def check_answer(run, what, out, request):
    with open(out, "rb") as f:
        head = f.readline().strip().decode()
    run.need(head == harness.sha256(request), "%s: the request's digest is %r" %
             (what, head))
    size = os.path.getsize(out) - 65
    run.need(size == ANSWER_BYTES, "%s: %d bytes of answer" % (what, size))
    tail = run.check(["sh", "-c", "tail -c +66 %s | sha256sum" %
                      shlex.quote(out)], osf=False)
    run.need(tail.split()[0] == harness.sha256(run.path("answer")),
             "%s: the answer differs" % what)


def test_request(run, what, cmd, port, request):
    """@cmd's standard input is the request, its output the answer."""
    out = run.path("out." + what)
    with open(request, "rb") as f:
        data = run.check(cmd, eager=True, stdin=f, text=False)
    with open(out, "wb") as f:
        f.write(data)
    check_answer(run, what, out, request)
    os.unlink(out)


def socat_server(run):
    port = harness.free_port()
    run.start(["socat", "-t", "30",
               "TCP-LISTEN:%d,bind=127.0.0.1,reuseaddr,fork" % port,
               "EXEC:" + server_script(run)], eager=True)
    run.wait_listening(port)
    return port


def test_nc_to_nc(run, size):
    """One nc listens, one sends; what arrives is compared."""
    port = harness.free_port()
    src = harness.make_file(run.path("src"), size, 5)
    server = run.start(["sh", "-c", "exec nc.openbsd -d -l 127.0.0.1 %d "
                        ">%s" % (port, run.path("dst"))],
                       eager=True)
    run.wait_listening(port)
    with open(src, "rb") as f:
        run.check(["nc.openbsd", "-N", "127.0.0.1", port], eager=True,
                  stdin=f)
    run.wait(server)
    run.need(harness.sha256(run.path("dst")) == harness.sha256(src),
             "nc to nc, %d bytes: differs" % size)


def test_both_ways(run):
    """Large streams in both directions through the same connection.  (nc is of no
    use here: it may end before its own stream has gone out.)"""
    port = harness.free_port()
    a = harness.make_file(run.path("a"), 50 << 20, 6)
    b = harness.make_file(run.path("b"), 50 << 20, 7)
    server = run.start(["sh", "-c", "exec socat -t 30 TCP-LISTEN:%d,bind="
                        "127.0.0.1,reuseaddr - <%s >%s" %
                        (port, b, run.path("a.got"))], eager=True)
    run.wait_listening(port)
    with open(a, "rb") as f:
        data = run.check(["socat", "-t", "30", "-", "TCP:127.0.0.1:%d" % port],
                         eager=True, stdin=f, text=False)
    with open(run.path("b.got"), "wb") as f:
        f.write(data)
    run.wait(server)
    for name in "ab":
        run.need(harness.sha256(run.path(name + ".got")) ==
                 harness.sha256(run.path(name)), "both ways: %s differs" %
                 name)


def main():
    run = harness.Run(__file__, ["socat", "nc.openbsd"])
    harness.make_file(run.path("answer"), ANSWER_BYTES, 4)
    small = harness.make_file(run.path("request.small"), 70)
    large = harness.make_file(run.path("request.large"), 30 << 20, 8)
    port = socat_server(run)
    for size, request in (("small", small), ("large", large)):
        test_request(run, "nc-" + size, ["nc.openbsd", "-N", "127.0.0.1",
                                         port], port, request)
        test_request(run, "socat-" + size,
                     ["socat", "-t", "30", "-", "TCP:127.0.0.1:%d" % port],
                     port, request)
    for size in (0, 1, 100000, 100 << 20):
        test_nc_to_nc(run, size)
    test_both_ways(run)
    run.expect_offloaded(3, 300 << 20)
    run.done()


main()
