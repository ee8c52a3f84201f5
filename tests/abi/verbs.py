# SPDX-License-Identifier: MIT
"""
tests/abi/verbs.py - the driver osf-ibverbs over our software RDMA device

Programs of each generation run on a device of libibverbs.  The device is the one of
libosf-verbs.so, which stands in front of libibverbs, so no hardware is needed.  Then two
processes send each other messages, which go through shared memory.  The driver has some
of the newer calls and lacks others, so the table has gaps that the library fills.
"""
import os
import subprocess
import threading

from parts import LIMIT_S, Failed, Missing, need
from proofs import Proofs

# What a program of generation 2 prints, by the library's generation.
COMMON = ["device: osf0", "query_device: 4 elements", "data: 3 sends, 3 receives",
          "query_device_ex: no inline", "create_cq_ex: ENOSYS", "post_send_ex: 3",
          "poll_cq_ex: 6, 0 with src_qp", "hwclock_khz: absent"]
WANT = {1: COMMON + ["query_values: ENOSYS", "create_cq_ex with time stamps: EINVAL",
                     "post_send_ex with imm: EINVAL", "poll_cq_ex: 0 with ts, 0 with imm"],
        2: COMMON + ["query_values: hwclock", "create_cq_ex with time stamps: ENOSYS",
                     "post_send_ex with imm: 3", "poll_cq_ex: 0 with ts, 3 with imm"]}
LINES_OF = {0: 3, 1: 7, 2: len(WANT[2])}


class Verbs:
    def __init__(self, parts):
        self.parts = parts
        self.driver = os.path.join(parts.build, "src", "osf-ibverbs.so")
        self.front = os.path.join(parts.build, "src", "libosf-verbs.so")
        if not os.path.exists(self.driver):
            raise Missing("no libibverbs (Debian package libibverbs-dev)")
        if not os.path.exists(self.front):
            raise Missing("no software RDMA device: libosf-verbs.so is not built")

    def row(self, app, library):
        program = self.parts.program(app, app, library if library != "osf" else 2)
        status, said = self.parts.run(program, library, self.driver,
                                      extra={"LD_PRELOAD": self.front})
        want = WANT[2 if library == "osf" else library][:LINES_OF[app]]
        need(not status and said.splitlines() == want,
             "program %s, library %s: status %d: %s" % (app, library, status, said))

    def two_processes(self):
        program = Proofs(self.parts).program("two", 2)
        env = dict(os.environ, LD_PRELOAD=self.front, OSF_DRIVERS=self.driver,
                   LD_LIBRARY_PATH=self.parts.library(2))
        both = [subprocess.Popen([program, str(tag)], env=env, text=True, bufsize=1,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                for tag in (0, 1)]
        timer = threading.Timer(LIMIT_S, lambda: [one.kill() for one in both])
        timer.start()
        try:
            return converse(both)
        finally:
            timer.cancel()
            for one in both:
                one.kill()
                one.wait()
                one.stdin.close()
                one.stdout.close()


def converse(both):
    numbers = []
    for one in both:
        need(one.stdout.readline() == "device: osf0\n", "no device osf0")
        name, number = one.stdout.readline().split()
        need(name == "qp_num:", name)
        numbers.append(number)
    for one, number in zip(both, reversed(numbers)):
        one.stdin.write(number + "\n")
    for one in both:
        said = one.stdout.readline()
        need(said == "ready\n", said)
    for one in both:
        one.stdin.write("go\n")
    for one in both:
        said = one.stdout.readline()
        need(said == "sent 3, received 3\n", said)
    for one in both:
        one.stdin.write("end\n")
    for one in both:
        rest = one.stdout.read()
        need(not one.wait() and not rest, "status %d: %s" % (one.wait(), rest))
    return "3 messages each way"


def show(parts):
    n_wrong = 0
    print("\nosf-ibverbs over the software RDMA device")
    verbs = Verbs(parts)
    for app in (0, 1, 2):
        for library in (1, 2, "osf"):
            try:
                verbs.row(app, library)
                print("program of generation %d, library %s: runs" % (app, library))
            except Failed as failure:
                n_wrong += 1
                print("WRONG: %s" % failure)
    try:
        print("two processes: " + verbs.two_processes())
    except Failed as failure:
        n_wrong += 1
        print("WRONG: two processes: %s" % failure)
    return n_wrong
