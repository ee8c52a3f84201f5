# SPDX-License-Identifier: MIT
"""
tests/app/sanitizer.py - programs under a library that was built with a sanitizer

    s = Sanitizer(build, reports)     what Meson says BUILD was built with
    env.update(s.env("libosf.so"))    LD_PRELOAD and the runtime's options
    s.reports()                       what the runtimes of all programs said

A program that was not built with the sanitizer needs the sanitizer's runtime loaded
in front of the library (docs/notes/2026-11-21-sanitizers.md).  The runtimes write
what they find to files, so that a report of a server counts that the test kills, and
one of a program whose output nobody reads.
"""
import ctypes
import glob
import json
import os
import subprocess

ADDR_NO_RANDOMIZE = 0x0040000

RUNTIMES = {"address": "libasan.so", "thread": "libtsan.so"}
SLOWER = {"address": 3, "undefined": 1, "thread": 6}  # at worst, about
OPTIONS = {
    # libosf.so's calls go on to the runtime's, and from there to libc's.  A thread that is
    # cancelled has lost the signal stack that the runtime would take back.
    "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0:use_sigaltstack=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    # The runtime calls our sigaction() before it can be instrumented.  Programs that
    # were not built with the sanitizer show it no locks of their own making.
    "TSAN_OPTIONS": "handle_segv=0:handle_abort=0:handle_sigill=0:handle_sigfpe=0:"
                    "handle_sigbus=0:handle_sigtrap=0:die_after_fork=0:"
                    "ignore_noninstrumented_modules=1:report_signal_unsafe=0",
}
# Programs that cannot have a runtime in front of them, with libosf.so or without.
CANNOT = {("curl", "address"): "curl hangs in setlocale() under libasan.so alone",
          ("curl", "thread"): "curl hangs in setlocale() under libtsan.so alone"}


def built_with(build):
    """Return: Meson's b_sanitize: "none", "address,undefined", "thread" ..."""
    path = os.path.join(build, "meson-info", "intro-buildoptions.json")
    if not os.path.exists(path):
        return "none"
    with open(path) as f:
        return [option["value"] for option in json.load(f)
                if option["name"] == "b_sanitize"][0]


class Sanitizer:
    def __init__(self, build, reports):
        self.names = [name for name in built_with(build).split(",")
                      if name != "none"]
        self.slower = max([SLOWER.get(name, 1) for name in self.names] or [1])
        self.runtime = ""
        self.folder = reports
        for name in self.names:
            if name in RUNTIMES:
                self.runtime = subprocess.run(
                    ["cc", "-print-file-name=" + RUNTIMES[name]],
                    capture_output=True, text=True, check=True).stdout.strip()
        if "thread" in self.names:
            # The runtime knows few layouts of an address space; children inherit this.
            ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE)
        if self.names:
            os.makedirs(reports, exist_ok=True)
            os.chmod(reports, 0o1777)

    def why_not(self, programs, reasons):
        """Return: why a test that runs @programs cannot run, or None.

        @reasons: {sanitizer: why}, of the test itself"""
        for name in self.names:
            for program in programs:
                if (program, name) in CANNOT:
                    return CANNOT[program, name]
            if name in reasons:
                return "with the sanitizer %s: %s" % (name, reasons[name])
        return None

    def preload(self, lib):
        return ("%s %s" % (self.runtime, lib)).strip()

    def env(self):
        """The runtimes' options, for all programs that may have a runtime."""
        if not self.names:
            return {}
        log = "log_path=" + os.path.join(self.folder, "report")
        return {name: "%s:%s:%s" % (os.environ.get(name, ""), text, log)
                for name, text in OPTIONS.items()}

    def reports(self):
        """Return: the text of each report, in the order of their files."""
        texts = []
        for path in sorted(glob.glob(os.path.join(self.folder, "report*"))):
            with open(path, errors="replace") as f:
                texts.append(f.read())
        return texts
