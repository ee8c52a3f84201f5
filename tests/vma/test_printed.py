#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/vma/test_printed.py - the SocketXtreme server of VMA's documentation, as printed

    test_printed.py

The document is not part of this tree: OSF_SEEDS names its folder, ../shared/seeds unless it
is set, and without it the test is skipped.  The program there has lost its line ends, two
comments have gained an underscore, and its last brace is missing.  This test puts those right
and changes nothing else, compiles it as C and as C++ with our header, and connects to it.
Without osf the program must say that there is no API.
"""
import glob
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
from ports import free_port  # noqa: E402
from sanitizer import Sanitizer  # noqa: E402

TREE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
LIMIT_S = 60
SKIP = 77


def need(ok, what):
    if not ok:
        sys.exit("not so: " + what)


def printed(folder):
    """The program's text, or None."""
    for path in sorted(glob.glob(os.path.join(folder, "004_*.txt"))):
        with open(path, encoding="utf-8") as f:
            text = f.read().replace("\u00a0", " ")
        found = re.search(r"#include <stdio\.h> .*?int main\(.*?return 0;", text, re.S)
        if found:
            text = re.sub(r"(#include <[^>]*>)", r"\1\n", found.group())
            return text.replace("_/*", "/*") + "\n}\n"
    return None


def compiled(text, folder):
    for compiler, name in (("cc", "printed.c"), ("c++", "printed.cc")):
        source = os.path.join(folder, name)
        if not shutil.which(compiler):
            continue
        with open(source, "w", encoding="utf-8") as f:
            f.write(text)
        subprocess.run([compiler, "-O2", "-I" + os.path.join(TREE, "include"), source,
                        "-o", source + ".out"], check=True)
        yield source + ".out"


def without_osf(program):
    got = subprocess.run([program, "lo", "127.0.0.1", "1"], capture_output=True, text=True,
                         timeout=LIMIT_S, check=False)
    need(got.returncode == 1 and "VMA Extra API not found" in got.stdout, got.stdout)


def line_of(p, start):
    for line in p.stdout:
        if line.startswith(start):
            return line
    p.wait()
    sys.exit("no line %r: status %d, %s" % (start, p.returncode, p.stderr.read()))


def served(program, env):
    """Two connections are accepted; what the first one then sends ends the program."""
    port = str(free_port())
    command = [program, "lo", "127.0.0.1", port]
    if shutil.which("stdbuf"):  # else its lines come at its end
        env = dict(env, LD_PRELOAD="%s %s" % (env["LD_PRELOAD"], stdbuf()), _STDBUF_O="L")
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as p:
        try:
            line_of(p, "Waiting on: fd=")
            socks = []
            fds = set()
            for _ in range(2):
                socks.append(socket.create_connection(("127.0.0.1", int(port)), LIMIT_S))
                need(line_of(p, "socketxtreme_poll: rc=1 event=0x200000000 "), "its event")
                fds.add(line_of(p, "Accepted connection: fd="))
            need(len(fds) == 2, "two descriptors, not %r" % fds)
            socks[0].sendall(b"x")
            need("event=0x100000000 " in line_of(p, "socketxtreme_poll: rc=1 "), "a packet")
            need(p.stderr.read() == "socket closed\n" and not p.wait(LIMIT_S), "its end")
            need(socks[1].recv(1) == b"", "the other connection ends, too")
        finally:
            p.kill()


def stdbuf():
    """The library by which stdbuf has lines written at once."""
    return subprocess.run(["stdbuf", "-oL", "printenv", "LD_PRELOAD"], check=True,
                          capture_output=True, text=True).stdout.strip()


def main():
    text = printed(os.environ.get("OSF_SEEDS", os.path.join(TREE, "..", "shared", "seeds")))
    if not text:
        print("skip: no document: set OSF_SEEDS to its folder")
        sys.exit(SKIP)
    build = os.environ.get("OSF_BUILD", "build")
    with tempfile.TemporaryDirectory() as tmp:
        sanitizer = Sanitizer(build, os.path.join(tmp, "reports"))
        env = dict(os.environ, **sanitizer.env())
        lib = os.path.join(os.path.abspath(build), "src", "libosf.so")
        env["LD_PRELOAD"] = " ".join(filter(None, (env.get("LD_PRELOAD"), lib)))
        n = 0
        for program in compiled(text, tmp):
            without_osf(program)
            for shm in "0", "1":
                served(program, dict(env, OSF_SHM=shm))
                n += 1
        need(not sanitizer.reports(), "\n".join(sanitizer.reports()[:3]))
    print("printed: %d runs" % n)
    sys.exit(0 if n else SKIP)


main()
