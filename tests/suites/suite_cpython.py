#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/suites/suite_cpython.py - Python's own tests of sockets, and of what is built on
them: selectors, asyncio, ssl, clients and servers of a dozen protocols; and of what
must not suffer: processes, signals, threads
"""
import os

import python_suite
import suites

MODULES = """socket selectors epoll poll select asyncio socketserver asyncore asynchat
ssl httplib httpservers ftplib smtplib imaplib poplib telnetlib urllib2_localnet wsgiref
xmlrpc timeout eintr signal subprocess fork1 multiprocessing_fork threading"""
QUICK = """socket selectors epoll socketserver asyncore asynchat httplib httpservers ftplib
smtplib poplib telnetlib urllib2_localnet asyncio.test_buffered_proto asyncio.test_server
asyncio.test_streams"""
# Vsock has no loopback on most machines, and the test waits; then names of other
# hosts are looked up; the last are minutes of the garbage collector's.
LEFT_OUT = r"ThreadedVSOCKSocketStreamTest|TCPTimeoutTestCase|_del_collect"
# They wait for seconds, to see that nothing comes.
SLOW = LEFT_OUT + r"""|(?x: [Tt]imeout | [Ii]nterrupt | select_interrupt |
above_fd_setsize | NetworkConnectionBehaviour | TCPCloserTest | test_ftplib.*_mlsd |
test_ftplib.*_encoding_param | test_ftplib.*_all_errors)"""


def named(names):
    return ["test.test_" + name for name in names.split()]


class CPython(python_suite.PythonSuite):
    name = "cpython"
    gates = {"quick": 180, "full": 480}
    python = "/usr/bin/python3.11"
    modules = named(MODULES)
    quick = named(QUICK)
    left_out = LEFT_OUT
    slow = SLOW

    def prepare(self):
        suites.need_program(self.python, "python3.11")
        if not os.path.exists("/usr/lib/python3.11/test/test_socket.py"):
            suites.skip("no tests (Debian package libpython3.11-testsuite)")


if __name__ == "__main__":
    suites.main(CPython)
