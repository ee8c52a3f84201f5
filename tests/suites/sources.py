# SPDX-License-Identifier: MIT
"""
tests/suites/sources.py - getting a suite: programs of packages, Debian's sources

    need_program("tclsh", "tcl")                             or the suite is skipped
    tree = built("redis", [["make", "-j2"]])                 fetched and built once

Sources and builds are kept in OSF_BUILD/suites.
"""
import glob
import os
import re
import shutil
import subprocess
import time

from place import BUILD, harness, say

KEPT = os.path.join(BUILD, "suites")
skip = harness.skip


def need_program(program, package=None):
    """Return: its path."""
    path = harness.find(program)
    if not path:
        skip("no %s (Debian package %s)" % (program, package or program))
    return path


def build_step(cmd, cwd=None, env=None, timeout=900):
    """Return: whether it went well; what it printed is shown when not."""
    try:
        got = subprocess.run(cmd, cwd=cwd, env=env, timeout=timeout,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
    except (OSError, subprocess.TimeoutExpired) as e:
        say("%s: %s" % (" ".join(cmd), e))
        return False
    if got.returncode:
        say("%s:" % " ".join(cmd))
        say(got.stdout.decode("utf-8", "replace")[-2000:])
    return got.returncode == 0


def output(cmd, cwd=None, env=None, timeout=60):
    """What a command prints, or None when it fails."""
    try:
        got = subprocess.run(cmd, cwd=cwd, timeout=timeout,
                             env=dict(os.environ, **(env or {})),
                             stdin=subprocess.DEVNULL, capture_output=True)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if got.returncode:
        return None
    return got.stdout.decode("utf-8", "replace")


KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
DEB_SRC = """\
deb-src [signed-by=%s] http://deb.debian.org/debian bookworm main
deb-src [signed-by=%s] http://deb.debian.org/debian-security bookworm-security main
""" % (KEYRING, KEYRING)


def apt_options():
    """Of an apt with lists of its own, so that the machine's stay as they are.
    Return: None when sources cannot be listed."""
    apt = os.path.join(KEPT, "apt")
    sources = os.path.join(apt, "sources.list")
    for part in ("lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(apt, part), exist_ok=True)
    with open(sources, "w") as f:
        f.write(DEB_SRC)
    options = ["-q", "-o", "Dir::Etc::sourcelist=" + sources,
               "-o", "Dir::Etc::sourceparts=-",
               "-o", "Dir::State::lists=" + os.path.join(apt, "lists"),
               "-o", "Dir::Cache=" + os.path.join(apt, "cache"),
               "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3"]
    done = os.path.join(apt, "updated")
    if not os.path.exists(done) or time.time() - os.stat(done).st_mtime > 86400:
        if not build_step(["apt-get"] + options + ["update"]):
            return None
        open(done, "w").close()
    return options


def versions(package, like, options):
    """The sources to try, as apt-get names them: that of the installed package
    @like first, then all that are listed, since a mirror may lack the newest."""
    names = [package]
    if like:
        installed = output(["dpkg-query", "-W", "-f", "${source:Version}", like])
        names = ["%s=%s" % (package, installed)] if installed else names
    listed = output(["apt-cache"] + options + ["showsrc", package]) or ""
    return names + ["%s=%s" % (package, version) for version
                    in re.findall(r"^Version: (\S+)$", listed, re.M)]


def source(package, like=None):
    """A Debian source package, unpacked with Debian's patches.  Return: its
    folder below KEPT, fetched once.

    @like: an installed package, to whose version the source should belong"""
    at = os.path.join(KEPT, package)
    tree = os.path.join(at, "source")
    if os.path.isdir(tree):
        return tree
    need_program("apt-get", "apt")
    need_program("dpkg-source", "dpkg-dev")
    if not os.path.exists(KEYRING):
        skip("no %s (Debian package debian-archive-keyring)" % KEYRING)
    shutil.rmtree(at, ignore_errors=True)
    os.makedirs(at)
    options = apt_options()
    if not options or not any(
            build_step(["apt-get"] + options + ["source", name], cwd=at)
            for name in versions(package, like, options)):
        skip("the source of %s cannot be had" % package)
    found = [path for path in glob.glob(os.path.join(at, "*"))
             if os.path.isdir(path)]
    os.rename(found[0], tree)
    return tree


def built(package, steps, env=None):
    """The source of @package after @steps (commands, run in its folder), which
    are taken once.  Return: its folder.  A build that fails is no skip: what
    the build needs is asked for before."""
    tree = source(package)
    done = os.path.join(KEPT, package, "built")
    if not os.path.exists(done):
        for cmd in steps:
            if not build_step(cmd, cwd=tree, env=env):
                harness.fail("%s does not build" % package)
        open(done, "w").close()
    return tree
