#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/xlio/test_linking.py - programs linked against an installed tree

    test_linking.py BUILD SOURCE

Installs into a folder and builds examples/ as a stranger would, by pkg-config: with
libosf.so, with libosf.a, wholly static, and with libxlio.so.  What each asks for at run
time is checked, and tests/xlio/test_examples.py runs what contains the library.  The
archive must show no names but the API's.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = ["echo_server", "echo_client", "multi_server", "ping_pong"]
API = ("xlio_", "osf_", "ibv_", "ops_proto_", "ops_inet_notification", "ops_route")
# A program may have functions of its own by names that we use inside.
CLASH = """
#include <mellanox/xlio.h>
int log_level = 7;
int libc(void);
int libc(void) { return 1; }
int ring_push(void);
int ring_push(void) { return 2; }
int group_create(void);
int group_create(void) { return 3; }
int main(void)
{
	return libc() + ring_push() + group_create() + log_level != 13 || xlio_init() ||
	       xlio_exit();
}
"""


def say(*cmd, env=None):
    got = subprocess.run(cmd, capture_output=True, text=True, timeout=120,
                         env=dict(os.environ, **(env or {})))
    if got.returncode:
        sys.exit("%s: %s%s" % (" ".join(cmd), got.stdout, got.stderr))
    return got.stdout


class Tree:
    def __init__(self, build, dest):
        say("meson", "install", "-C", build, "--no-rebuild", "--destdir", dest)
        found = glob.glob(dest + "/**/osf.pc", recursive=True)
        if len(found) != 1:
            sys.exit("osf.pc: %s" % found)
        self.lib = os.path.dirname(os.path.dirname(found[0]))
        self.env = {"PKG_CONFIG_PATH": os.path.dirname(found[0]),
                    "PKG_CONFIG_SYSROOT_DIR": dest}

    def config(self, *args):
        return say("pkg-config", *args, "osf", env=self.env).split()

    def flags(self, how):
        cflags = self.config("--cflags")
        if how == "shared":
            return cflags + self.config("--libs")
        if how == "archive":
            return cflags + [self.lib + "/libosf.a"] + [
                lib for lib in self.config("--libs", "--static") if lib != "-losf"]
        if how == "static":
            return cflags + ["-static"] + self.config("--libs", "--static")
        return cflags + ["-L" + self.lib + "/osf-xlio", "-lxlio"]


def needed(program):
    return [line.split("[")[1].rstrip("]") for line in say("readelf", "-d", program).split("\n")
            if "(NEEDED)" in line]


def is_wanted(how, libs):
    ours = [lib for lib in libs if "osf" in lib or "xlio" in lib]
    return {"shared": ours == ["libosf.so"], "archive": not ours, "static": not libs,
            "xlio": ours == ["libxlio.so.3"]}[how]


def build_all(tree, source, how, folder):
    os.mkdir(folder)
    for name in EXAMPLES:
        program = os.path.join(folder, name)
        say("cc", os.path.join(source, "examples", name + ".c"), "-o", program, "-pthread",
            *tree.flags(how))
        if not is_wanted(how, needed(program)):
            sys.exit("%s, %s asks for %s" % (name, how, needed(program)))


def check_names(archive):
    for line in say("nm", "-g", "--defined-only", archive).split("\n"):
        words = line.split()
        if len(words) == 3 and not words[2].startswith(API):
            sys.exit("libosf.a shows " + words[2])


def main():
    build, source = map(os.path.abspath, sys.argv[1:3])
    if not all(map(shutil.which, ("cc", "meson", "nm", "pkg-config", "readelf"))):
        sys.exit(77)
    with tempfile.TemporaryDirectory() as top:
        tree = Tree(build, os.path.join(top, "dest"))
        check_names(tree.lib + "/libosf.a")
        with open(top + "/clash.c", "w") as f:
            f.write(CLASH)
        say("cc", top + "/clash.c", "-o", top + "/clash", *tree.flags("archive"))
        say(top + "/clash")
        for how in ("shared", "xlio", "archive", "static"):
            folder = os.path.join(top, how)
            build_all(tree, source, how, folder)
            env = {"LD_LIBRARY_PATH": {"shared": tree.lib, "xlio": tree.lib + "/osf-xlio"}
                   .get(how, "/nonexistent")}
            print(how, say(sys.executable, os.path.join(HERE, "test_examples.py"), folder,
                           env=env), end="")


main()
