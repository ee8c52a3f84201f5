#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/suites/suite_libuv.py - libuv's own tests: its loop over TCP, UDP, poll, ipc

Built from Debian's source package.  Its runner starts each test in a process of its
own, and the echo servers that a test needs in further ones.
"""
import os
import re

import suites

# What has to do with sockets, descriptors, processes, and the loop over them.
WANTED = re.compile(r"^(tcp|udp|poll|ipc|pipe|fork|shutdown|socket|spawn|signal|"
                    r"connect|connection|close|closed|delayed|multiple|callback|"
                    r"watcher|loop|readable|not|emfile|getsockname|handle|eintr|"
                    r"embed|active|has|unref|run|we|stdio|kill|process)_")
# Addresses beyond this host, and what belongs to another system.
LEFT_OUT = re.compile(r"_(connect_timeout|close_while_connecting|multicast_.*|"
                      r"closesocket|no_autobind|osfhandle|title_.*)$|priority")
QUICK = re.compile(r"^(tcp|udp|ipc|shutdown|poll|connection|fork|spawn_tcp)")
SLOW = re.compile(r"write_ready|unexpected_read|close_after_read|write_queue_order|"
                  r"local_connect_timeout|unreachable|fs_events|dual_stack|"
                  r"ipv6_only|_inprocess$")
ENV = {"UV_RUN_AS_ROOT": "1"}  # it refuses otherwise
LIMIT_S = 60  # of one test; libuv ends most of its own after 5


class Libuv(suites.Suite):
    name = "libuv"
    gates = {"quick": 10, "full": 13}

    def prepare(self):
        suites.need_program("cmake")
        suites.need_program("cc", "gcc")
        jobs = str(os.cpu_count())
        tree = suites.built("libuv1", [
            ["cmake", "-S", ".", "-B", "made", "-DLIBUV_BUILD_TESTS=ON"],
            ["cmake", "--build", "made", "-j", jobs, "--target",
             "uv_run_tests"]])
        self.folder = os.path.join(tree, "made")
        self.program = os.path.join(self.folder, "uv_run_tests")

    def tests(self):
        listed = suites.output([self.program, "--list"], self.folder, ENV)
        names = [line.split()[0] for line in listed.split("\n") if line]
        wanted = [name for name in names if WANTED.match(name) and
                  not LEFT_OUT.search(name)]
        if self.is_quick:
            wanted = [name for name in wanted if QUICK.match(name) and
                      not SLOW.search(name)]
        return wanted

    def run(self, place, tests):
        return {test: self.run_test(place, test) for test in tests}

    def run_test(self, place, test):
        ended = place.run([self.program, test], LIMIT_S, cwd=self.folder, env=ENV)
        if ended.is_ok():
            return "skip" if re.search(r"^(ok \d+ - \S+ # SKIP)",
                                       ended.text, re.M) else "ok"
        return ended.why()


if __name__ == "__main__":
    suites.main(Libuv)
