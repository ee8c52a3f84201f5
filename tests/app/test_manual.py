#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_manual.py - the manual pages are in step with the programs

The two commands of osf(1)'s first example run in a shell that finds osf along PATH.  The
client must say that its connections went over shared memory.  Each option that --help
lists is in the manual page of its program, by its long and its short name, and the page
has no other option.
"""
import os
import re
import socket

import harness

# A command, its page, and the section of the page that has its options.
PAGES = ((["osf", "run"], "osf.1", "osf run"), (["osf", "stat"], "osf.1", "osf stat"),
         (["osf", "rdma"], "osf.1", "osf rdma"), (["osf", "bench"], "osf.1", "osf bench"),
         (["osf", "tap"], "osf-tap.1", "OPTIONS"), (["osf", "port"], "osf-port.8", "OPTIONS"),
         (["osfd"], "osfd.8", "OPTIONS"), (["vma_stats"], "vma_stats.8", "OPTIONS"))


def docs(page):
    with open(os.path.join(harness.HERE, "..", "..", "docs", page)) as f:
        return f.read()


def helped(text):
    """Return: the options of a text of --help, as "-r --rule" or "--log"."""
    names = re.findall(r"^  (?:-(\S), |    )--([a-z_-]+)", text, re.MULTILINE)
    return {("-%s " % short if short else "") + "--" + name for short, name in names
            if name not in ("help", "usage", "version")}


def described(page, section):
    """Return: the same of the entries of a manual page's section."""
    text = re.search(r'\n\.S[SH] "?%s"?\n(.*?)(?=\n\.S[SH] |\Z)' % section, docs(page),
                     re.DOTALL).group(1).replace("\\-", "-")
    entries = re.findall(r"\.TP\n(.*-.*)", text)
    plain = [re.sub(r'\\f.|^\.\w+ |"', "", line) for line in entries]
    names = [re.findall(r"(?<![\w-])(--?[a-zA-Z][a-z_-]*)", line) for line in plain]
    return {" ".join(found) for found in names if found}


def compare_options(run):
    for command, page, section in PAGES:
        program = os.path.join(run.build, command[0])
        if not os.path.exists(program):
            continue
        said = run.check([program, *command[1:], "--help"], osf=False)
        run.need(helped(said) == described(page, section),
                 "%s: --help and %s differ: %s" % (
                     " ".join(command), page,
                     " ".join(sorted(helped(said) ^ described(page, section)))))


def first_example():
    text = docs("osf.1").split(".SH EXAMPLES")[1]
    block = re.search(r"\.EX\n(.*?)\.EE", text, re.DOTALL).group(1)
    lines = [line.replace("\\-", "-").replace("\\(aq", "'")
             for line in block.splitlines()]
    return [line[2:] for line in lines if line.startswith("$ ")]


def is_free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def main():
    run = harness.Run(__file__, needs=["redis-server", "redis-benchmark"])
    if run.is_kernel or not os.path.exists(os.path.join(run.build, "osf")):
        harness.skip("no osf command")
    compare_options(run)
    server, client = first_example()
    run.need(server.endswith(" &"), server)
    port = int(re.search(r"--port (\d+)", server).group(1))
    if not is_free(port):
        harness.skip("somebody else has port %d" % port)
    path = {"PATH": run.build + ":" + os.environ["PATH"], "OSF_STATS_DIR": ""}
    if run.sanitizer.runtime:
        path["LD_PRELOAD"] = run.sanitizer.runtime
    run.start(["sh", "-c", "exec " + server[:-2]], osf=False, extra=path)
    run.wait_port(port)
    said = run.check(["sh", "-c", client + " 2>&1"], osf=False, extra=path)
    found = re.search(r"(\d+) opened, 0 accepted, (\d+) upgraded", said)
    run.need(found and int(found.group(2)) > 0, said)
    bytes_shm = re.search(r"over shm: (\S+) in", said)
    run.need(bytes_shm and bytes_shm.group(1) != "0", said)
    run.done()


main()
