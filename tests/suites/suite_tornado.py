#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/suites/suite_tornado.py - tornado's own tests: HTTP servers and clients, web
sockets and TLS over one loop in one process
"""
import python_suite
import suites

LIST = "import tornado.test.runtests as r; print('\\n'.join(r.TEST_MODULES))"
QUICK = ["tornado.test.%s_test" % name for name in
         "asyncio autoreload httpclient httpserver http1connection iostream netutil "
         "process simple_httpclient tcpclient tcpserver twisted websocket".split()]


class Tornado(python_suite.PythonSuite):
    name = "tornado"
    gates = {"quick": 1, "full": 1}
    python = "/usr/bin/python3"
    quick = QUICK

    def prepare(self):
        suites.need_program(self.python, "python3")
        listed = suites.output([self.python, "-c", LIST])
        if not listed:
            suites.skip("no tornado.test (Debian package python3-tornado)")
        self.modules = [name for name in listed.split()
                        if not name.endswith(("doctests", ".test_doctest"))]


if __name__ == "__main__":
    suites.main(Tornado)
