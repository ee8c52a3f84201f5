#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_setuid.py - a program that gains authority ignores its caller's settings

    /etc/ld.so.preload names libosf.so, as an administrator may have it
    another user starts a set-uid program, or one with file capabilities, and puts
    every OSF_* and XLIO_* variable into its environment

The program must not write where its caller could not, must not print the lines of a
file that its caller could not read, and must not wait for its caller.  The test has a
mount namespace of its own, and with it another /etc/ld.so.preload.
"""
import contextlib
import os
import re
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
import harness  # noqa: E402

USER = 12345
CAP_NET_BIND_SERVICE = 10
PATIENCE_S = 30


def copy_if_there(path, to):
    """Who adds a user makes files in /etc, and removes them again."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copy2(path, to, follow_symlinks=False)


def preload_for_all(lib):
    """In this mount namespace, every program loads @lib."""
    etc = os.path.join(os.environ["TRUST_TMP"], "etc")
    shutil.copytree("/etc", etc, symlinks=True, copy_function=copy_if_there)
    with open(os.path.join(etc, "ld.so.preload"), "w") as f:
        f.write(lib + "\n")
    subprocess.run(["mount", "--bind", etc, "/etc"], check=True)


def program(name):
    path = os.path.join(os.environ["TRUST_TMP"], name)
    shutil.copy(harness.find("true"), path)
    os.chmod(path, 0o755)
    return path


def set_uid():
    path = program("set-uid")
    os.chmod(path, 0o4755)
    return path


def with_capability():
    path = program("capable")
    os.setxattr(path, "security.capability",
                struct.pack("<IIIII", 0x02000001, 1 << CAP_NET_BIND_SERVICE, 0, 0, 0))
    return path


def start(path, closed, fifo):
    """As the other user.  Return: what it printed; "no end"."""
    settings = {"OSF_LOG": "dbg", "OSF_LOG_FILE": os.path.join(closed, "log"),
                "OSF_STATS_DIR": closed, "OSF_CONFIG_FILE": "/etc/shadow",
                "OSF_MODULES": os.path.join(closed, "module.so"),
                "OSF_IO_URING": "none", "OSF_ALLOW_UIDS": "all", "OSF_SPIN_US": "x",
                "OSF_RING": "x", "OSF_SHM": "x", "OSF_UPGRADE_TURNS": "x",
                "OSF_RULES": "x", "OSF_XLIO_ABI": "x", "XLIO_TRACELEVEL": "all",
                "XLIO_LOG_FILE": os.path.join(closed, "xlio"),
                "XLIO_CONFIG_FILE": fifo}
    command = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups",
               "env"] + ["%s=%s" % pair for pair in settings.items()] + [path]
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=PATIENCE_S, env={}).stdout
    except subprocess.TimeoutExpired:
        return "no end"


def attack(path, closed, fifo, is_trusted):
    """What the program did for its caller, in words."""
    os.mkdir(closed, 0o700)
    if not is_trusted:  # one that gains nothing may write where its caller may
        os.chown(closed, USER, USER)
    said = start(path, closed, fifo)
    made = os.listdir(closed)
    shutil.rmtree(closed)
    return (said + " made %s" % made) if said.strip() or made else ""


def inside(lib):
    tmp = os.environ["TRUST_TMP"]
    closed, fifo = os.path.join(tmp, "closed"), os.path.join(tmp, "fifo")
    os.mkfifo(fifo)
    os.chmod(fifo, 0o666)
    cases = [(program("plain"), False), (set_uid(), True), (with_capability(), True)]
    preload_for_all(lib)
    for path, is_trusted in cases:
        got = attack(path, closed, fifo, is_trusted)
        print("%s: %s" % (os.path.basename(path), got or "nothing"))


def need_secure_getenv(run):
    """No file of the library asks for a variable in another way."""
    src = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src")
    for folder, _, names in os.walk(src):
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                run.need(not re.search(r"(?<!secure_)\bgetenv\(", f.read()),
                         "%s calls getenv()" % name)


def outside():
    run = harness.Run(__file__, not_with=dict.fromkeys(
        ("address", "thread"), "its runtime would have to be preloaded, too"))
    if run.is_kernel:
        harness.skip("the settings are osf's")
    need_secure_getenv(run)
    if os.geteuid():
        harness.skip("only root can make set-uid programs of another user's")
    if subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode:
        harness.skip("no mount namespace can be made here")
    got = run.check(["unshare", "-m", sys.executable, os.path.abspath(__file__), run.lib],
                    osf=False, extra={"TRUST_TMP": run.tmp})
    print(got.strip())
    words = dict(line.split(": ", 1) for line in got.split("\n") if ": " in line)
    run.need("'log'" in words["plain"], "a plain program does not run under osf")
    for name in ("set-uid", "capable"):
        run.need(words[name] == "nothing", "%s: %s" % (name, words[name]))
    run.done()


if len(sys.argv) > 1 and "TRUST_TMP" in os.environ:
    inside(sys.argv[1])
else:
    outside()
