#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/script/test_runner.py - the runner of packet scripts reports errors

    test_runner.py RUNNER

There is one correct script, and copies of it with one changed line each.  For a copy the runner
must fail and name that line.  The engine runs them in virtual time.
"""
import os
import re
import subprocess
import sys
import tempfile

RIGHT = """# An open, bytes both ways, a close.
socket(...) = 3
bind(3, ...) = 0
listen(3, 1) = 0
+0.1 < S 0:0(0) win 32792 <mss 1000,sackOK,nop,wscale 7>
> S. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK,nop,wscale 7>
+0.1 < . 1:1(0) ack 1 win 1000
accept(3) = 4
write(4, 100) = 100
> P. 1:101(100) ack 1
+0.25~+0.35 > P. 1:101(100) ack 1
+0.05 < . 1:1(0) ack 101 win 1000
+0.1 > none
< P. 11:21(10) ack 101 win 1000
> . 101:101(0) ack 1 <nop,nop,sack 11:21>
read(4, 10) = -1 EAGAIN
poll(4, POLLIN|POLLOUT) = POLLOUT
close(4) = 0
> F. 101:101(0) ack 1 <...>
"""

# What is there, what is put in its place, which line fails, and what is said.
WRONG = [
    ("> S. 0:0(0)", "> S 0:0(0)", 6, "the flags differ"),
    ("> S. 0:0(0) ack 1", "> S. 0:0(0) ack 2", 6, "the ACK differs"),
    ("mss 1460,nop,nop,sackOK", "mss 1400,nop,nop,sackOK", 6, "the options differ"),
    ("<mss 1460,nop,nop,sackOK,nop,wscale 7>", "<mss 1460>", 6, "the options differ"),
    ("<mss 1460,nop,nop,sackOK,nop,wscale 7>", "win 1", 6, "the window differs"),
    ("> P. 1:101(100) ack 1\n+0", "> P. 1:100(99) ack 1\n+0", 10, "the numbers differ"),
    ("> P. 1:101(100) ack 1\n+0", "> [ce] P. 1:101(100) ack 1\n+0", 10, "the ECN bits differ"),
    ("> P. 1:101(100) ack 1\n+0", "> P. 1:101(100) ack 1 urg 3\n+0", 10,
     "the urgent pointer differs"),
    ("+0.25~+0.35 > P.", "+0.1 > P.", 11, "no packet came"),
    ("+0.25~+0.35 > P.", "+0.5 > P.", 11, "the time is wrong"),
    ("+0.25~+0.35 > P.", "+0.5 > none\n> P.", 11, "a packet came where none should"),
    ("sack 11:21>\nread", "sack 11:22>\nread", 15, "the options differ"),
    ("-1 EAGAIN", "-1 EPIPE", 16, "the call's result differs"),
    ("read(4, 10) = -1 EAGAIN", "read(4, 10) = 0", 16, "the call's result differs"),
    ("= POLLOUT", "= POLLIN", 17, "the call's result differs"),
    ("> F. 101:101(0) ack 1 <...>\n", "", 0, "was not expected"),
    ("> F. 101", "> :40009 F. 101", 19, "of another flow"),
    ("read(4, 10)", "raed(4, 10)", 16, "there is no call"),
    ("+0.1 > none", "+0.1 > nothing", 13, "flags are FSRP"),
    ("1:101(100) ack 1\n+0.25", "1:101(99) ack 1\n+0.25", 10, "END is SEQ + LEN"),
    ("sackOK,nop,wscale 7>\n> S.", "sackNO,nop,wscale 7>\n> S.", 5, "no such option"),
    ("EAGAIN", "EAGIAN", 16, "no such errno"),
    ("# An open, bytes both ways, a close.", "# kernel-only:", 1, "has a reason"),
]


def run(runner, text):
    with tempfile.NamedTemporaryFile("w", suffix=".pkt") as f:
        f.write(text)
        f.flush()
        done = subprocess.run([runner, "--engine", "-4", f.name], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr, os.path.basename(f.name)


def main():
    status, said, _ = run(sys.argv[1], RIGHT)
    wrong = [] if status == 0 else ["the script that is right fails:\n" + said]
    for old, new, line, what in WRONG:
        assert RIGHT.count(old) >= 1, old
        status, said, name = run(sys.argv[1], RIGHT.replace(old, new, 1))
        if status != 1 or what not in said or not re.search(r"%s:%d:" % (name, line), said):
            wrong.append("%r for %r: exit status %d, line %d and %r were wanted:\n%s" %
                         (new, old, status, line, what, said))
    print("\n".join(wrong) or "%d wrong scripts were found" % len(WRONG))
    return len(wrong) > 0


sys.exit(main())
