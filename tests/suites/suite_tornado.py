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
         "asyncio http1connection httpclient httpserver iostream netutil process "
         "simple_httpclient tcpclient tcpserver web websocket".split()]
# Speed, and times to the tenth of a second: a busy machine fails them anywhere.
LEFT_OUT = "linear_performance"
SLOW = LEFT_OUT + "|TestPipeIOStream|TestIOStreamSSLContext|SimpleHTTPSClient"


class Tornado(python_suite.PythonSuite):
    name = "tornado"
    gates = {"quick": 400, "full": 450}
    python = "/usr/bin/python3"
    quick = QUICK
    left_out = LEFT_OUT
    slow = SLOW

    def prepare(self):
        suites.need_program(self.python, "python3")
        listed = suites.output([self.python, "-c", LIST])
        if not listed:
            suites.skip("no tornado.test (Debian package python3-tornado)")
        self.modules = [name for name in listed.split()
                        if not name.endswith(("doctests", ".test_doctest"))]


if __name__ == "__main__":
    suites.main(Tornado)
