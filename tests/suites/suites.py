# SPDX-License-Identifier: MIT
"""
tests/suites/suites.py - test suites of other projects, on the kernel and under osf

    import suites

    class Libuv(suites.Suite):
        name = "libuv"
        gates = {"quick": 20, "full": 60}
        def prepare(self): ...              get it, build it, skip("why")
        def tests(self): ...                what to run; self.is_quick
        def run(self, place, tests): ...    -> {test: "ok" | "skip" | "fail" ...}

    suites.main(Libuv)

A suite runs twice, each end of every connection in the same place: on the bare
kernel, and with libosf.so preloaded, where connections move to shared memory from
their first byte.  What passes on the kernel must pass under osf.  What does not is
repeated alone, in both places in turns, which tells a difference from a test that
is unsteady.  And so that nothing passes because nothing was offloaded, the number
of connections that moved must reach the suite's gate.

Usage of each suite:
    suite_NAME.py [--quick] [--list] [TEST ...]
Exit: 0, 77 when something needed cannot be had, 1 when there are differences.

Environment:
    OSF_BUILD           folder with libosf.so (default ./build); sources, builds and
                        logs of suites are kept in OSF_BUILD/suites
    OSF_UPGRADE_TURNS   as in osf(1); 0 when it is not set

known/NAME.txt lists differences that are known: test, two spaces, reason.
"""
import argparse
import ctypes
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "app"))
import harness  # noqa: E402

BUILD = os.path.abspath(os.environ.get("OSF_BUILD", "build"))
KEPT = os.path.join(BUILD, "suites")
N_RERUNS = 3
MAX_RERUN = 40  # tests; when more differ than that, it is not for being unsteady
TAIL_LINES = 30  # of the output of a test that differs
skip = harness.skip


def say(*words):
    print(*words, flush=True)


# --- processes: all that a command leaves behind ends with it ---

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans():
    """What a command started and left becomes a child of ours."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children():
    pids = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, "rb") as f:
                stat = f.read()
        except OSError:
            continue
        if int(stat[stat.rindex(b")") + 2:].split()[1]) == os.getpid():
            pids.append(int(path.split("/")[2]))
    return pids


def end_children():
    """Kills until there is none; children of killed ones come to us in turn."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        pids = children()
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass


class Ended:
    """A command's end: its status, None when it took too long, and output."""

    def __init__(self, status, text):
        self.status = status
        self.text = text

    def is_ok(self):
        return self.status == 0

    def tail(self, n_lines=TAIL_LINES):
        return "\n".join(self.text.rstrip().split("\n")[-n_lines:])

    def why(self):
        """A word for the result of a test that did not pass."""
        if self.status is None:
            return "timeout"
        if self.status < 0:
            return "killed by %s" % signal.Signals(-self.status).name
        return "fail"


# --- the two places ---

class Place:
    """Where a suite runs: the bare kernel, or osf.

    @tmp:   empty directory, TMPDIR of the programs; emptied by fresh()
    @log:   file with the output of all commands
    """

    def __init__(self, root, log_dir, is_osf):
        self.is_osf = is_osf
        self.name = "osf" if is_osf else "kernel"
        self.tmp = os.path.join(root, self.name)
        self.stats = os.path.join(root, "stats")
        self.log = os.path.join(log_dir, self.name + ".log")
        self.total = dict.fromkeys(harness.TOTALS, 0)
        self.by_program = {}
        open(self.log, "w").close()
        os.makedirs(self.stats, exist_ok=True)
        os.chmod(self.stats, 0o777)
        self.fresh()

    def fresh(self):
        shutil.rmtree(self.tmp, ignore_errors=True)
        os.makedirs(self.tmp, exist_ok=True)
        os.chmod(self.tmp, 0o1777)

    def env(self, extra=None):
        env = dict(os.environ, TMPDIR=self.tmp, LC_ALL="C.UTF-8")
        for name in list(env):
            if name == "LD_PRELOAD" or name.lower().endswith("_proxy"):
                del env[name]
        env.update(extra or {})
        if self.is_osf:
            env["LD_PRELOAD"] = os.path.join(BUILD, "libosf.so")
            env["OSF_STATS_DIR"] = self.stats
            env.setdefault("OSF_UPGRADE_TURNS", "0")
        return env

    def start(self, cmd, cwd=None, env=None, user=None):
        """Starts a program; its output goes to the log.  It ends with the next
        run(), or by end()."""
        with open(self.log, "ab") as log:
            return subprocess.Popen([str(word) for word in cmd], stdout=log,
                                    stderr=subprocess.STDOUT, user=user,
                                    stdin=subprocess.DEVNULL,
                                    cwd=cwd or self.tmp, env=self.env(env),
                                    start_new_session=True)

    def run(self, cmd, timeout, cwd=None, env=None, user=None, watch=None):
        """Runs a program to its end and ends what it left.  Return: Ended.

        @user:  a name, to run as another user
        @watch: called several times a second; True ends the program
        """
        with open(self.log, "ab") as log:
            log.write(("\n--- %s\n" % " ".join(str(w) for w in cmd)).encode())
            at = log.tell()
        popen = self.start(cmd, cwd, env, user)
        end = time.monotonic() + timeout
        is_late = False
        while popen.poll() is None and not is_late:
            try:
                popen.wait(0.2 if watch else timeout)
            except subprocess.TimeoutExpired:
                is_late = time.monotonic() >= end or bool(watch and watch())
        if is_late:
            end_politely(popen)
        status = None if is_late else popen.returncode
        self.end()
        with open(self.log, "rb") as log:
            log.seek(at)
            text = log.read().decode("utf-8", "replace")
        return Ended(status, text)

    def end(self):
        """Ends all programs and adds up their statistics."""
        end_children()
        for path in glob.glob(os.path.join(self.stats, "*.osf")):
            try:
                segment = harness.Segment(path)
            except (OSError, ValueError) as e:
                say("statistics:", e)
            else:
                self.add(segment)
            os.unlink(path)

    def add(self, segment):
        for name in harness.TOTALS:
            self.total[name] += segment.total[name]
        n = self.by_program.get(segment.program, 0)
        self.by_program[segment.program] = n + segment.total["n_upgraded"]

    def n_offloaded(self):
        """Connections: either end counts, so both are halved."""
        return self.total["n_upgraded"] // 2


def end_politely(popen):
    """SIGABRT first: some programs then say where they were."""
    popen.send_signal(signal.SIGABRT)
    try:
        popen.wait(3)
    except subprocess.TimeoutExpired:
        popen.kill()
        popen.wait()


# --- getting a suite ---

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


def source(package):
    """A Debian source package, unpacked with Debian's patches.  Return: its
    folder below KEPT, fetched once."""
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
    if not options or not build_step(["apt-get"] + options +
                                     ["source", package], cwd=at):
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


# --- a suite ---

class Suite:
    """See the top of this file."""
    name = ""
    gates = {"quick": 1, "full": 1}  # connections offloaded, at least

    def __init__(self, is_quick):
        self.is_quick = is_quick

    def prepare(self):
        pass

    def tests(self):
        """Return: the tests, or groups of tests, to run."""
        raise NotImplementedError

    def run(self, place, tests):
        """Return: {test: "ok", "skip" or why not}, of each single test."""
        raise NotImplementedError

    def run_one(self, place, test):
        """One test alone, a key of what run() returned."""
        place.fresh()
        return self.run(place, [test]).get(test, "missing")


def read_known(name):
    """Return: {test: reason}."""
    path = os.path.join(HERE, "known", name + ".txt")
    if not os.path.exists(path):
        return {}
    with open(path) as f:
        lines = [line.strip() for line in f
                 if line.strip() and not line.startswith("#")]
    return dict(line.split("  ", 1) for line in lines)


def run_whole(suite, place, tests):
    began = time.monotonic()
    results = suite.run(place, tests)
    n = {"ok": 0, "skip": 0}
    for result in results.values():
        word = result if result in n else "fail"
        n[word] = n.get(word, 0) + 1
    say("%s on %s: %d pass, %d fail, %d are skipped, %.0f s" %
        (suite.name, place.name, n["ok"], n.get("fail", 0), n["skip"],
         time.monotonic() - began))
    return results


def text_of(place, at):
    """The log of @place from @at on, its end."""
    with open(place.log, "rb") as f:
        f.seek(at)
        text = f.read().decode("utf-8", "replace")
    return "\n".join(text.rstrip().split("\n")[-TAIL_LINES:])


def repeat(suite, test, kernel, osf):
    """Runs a test alone in both places in turns.

    Return: "kernel" when it is unsteady there, "osf" when it passes under osf
    more often than not, "differs"; and the output of a failure under osf."""
    n_failed = n_passed = 0
    shown = ""
    for _ in range(N_RERUNS):
        if suite.run_one(kernel, test) != "ok":
            return "kernel", ""
        at = os.path.getsize(osf.log)
        if suite.run_one(osf, test) == "ok":
            n_passed += 1
        else:
            n_failed += 1
            shown = text_of(osf, at)
        if 2 * max(n_failed, n_passed) > N_RERUNS:
            break
    return ("differs" if n_failed > n_passed else "osf"), shown


def sort_out(suite, differing, results, kernel, osf):
    """Says of each test that differs whether it is known, unsteady or a
    difference.  Return: the differences."""
    known = read_known(suite.name)
    bad = []
    for i, test in enumerate(differing):
        result = results.get(test, "missing")
        if test in known:
            say("known difference: %s (%s): %s" % (test, result, known[test]))
            continue
        if i >= MAX_RERUN:
            verdict, shown = "differs", ""
        else:
            verdict, shown = repeat(suite, test, kernel, osf)
        if verdict == "kernel":
            say("unsteady on the kernel: %s" % test)
        elif verdict == "osf":
            say("unsteady under osf: %s (%s)" % (test, result))
        else:
            say("DIFFERS: %s (%s)" % (test, result))
            say("\n".join("    " + line for line in shown.split("\n")))
            bad.append(test)
    return bad


def compare(suite, tests, root, log_dir):
    """Return: what went wrong, as texts, none when all is well."""
    began = time.monotonic()
    kernel = Place(root, log_dir, False)
    osf = Place(root, log_dir, True)
    expected = run_whole(suite, kernel, tests)
    got = run_whole(suite, osf, tests)
    total, n_offloaded = dict(osf.total), osf.n_offloaded()
    save(log_dir, expected, got, osf)
    passing = [test for test in expected if expected[test] == "ok"]
    differing = [test for test in passing if got.get(test) != "ok"]
    bad = sort_out(suite, differing, got, kernel, osf)
    wrong = ["%d tests differ" % len(bad)] if bad else []
    if not passing:
        wrong.append("nothing passes on the kernel")
    if total["n_broken"]:
        wrong.append("%d segments broken" % total["n_broken"])
    if n_offloaded < suite.gate:
        wrong.append("%d connections offloaded, %d expected" %
                     (n_offloaded, suite.gate))
    say("%s: %d of %d that pass on the kernel, %d connections offloaded, "
        "%.0f s" % (suite.name, len(passing) - len(differing), len(passing),
                    n_offloaded, time.monotonic() - began))
    return wrong


def save(log_dir, expected, got, osf):
    """What a later look at a run wants to know."""
    with open(os.path.join(log_dir, "results.json"), "w") as f:
        json.dump({"kernel": expected, "osf": got, "totals": osf.total,
                   "upgraded_by_program": osf.by_program}, f, indent=1)


def arguments():
    parser = argparse.ArgumentParser(add_help=True)
    parser.add_argument("--quick", action="store_true",
                        help="what make check runs")
    parser.add_argument("--list", action="store_true",
                        help="names what would run")
    parser.add_argument("tests", nargs="*", metavar="TEST")
    return parser.parse_args()


def stopped(*unused):
    say("stopped")
    end_children()
    os._exit(1)


def main(kind):
    args = arguments()
    suite = kind(args.quick)
    suite.gate = 0 if args.tests else \
        suite.gates["quick" if args.quick else "full"]
    if not os.path.exists(os.path.join(BUILD, "libosf.so")):
        skip("no %s/libosf.so; set OSF_BUILD" % BUILD)
    log_dir = os.path.join(KEPT, "logs", suite.name)
    os.makedirs(log_dir, exist_ok=True)
    suite.prepare()
    tests = args.tests or suite.tests()
    if args.list:
        say("\n".join(tests))
        return
    adopt_orphans()
    signal.signal(signal.SIGTERM, stopped)
    signal.signal(signal.SIGINT, stopped)
    root = tempfile.mkdtemp(prefix="osf-suite.")
    os.chmod(root, 0o755)
    try:
        wrong = compare(suite, tests, root, log_dir)
    finally:
        end_children()
        shutil.rmtree(root, ignore_errors=True)
    for why in wrong:
        say("FAIL: %s: %s" % (suite.name, why))
    sys.exit(1 if wrong else 0)
