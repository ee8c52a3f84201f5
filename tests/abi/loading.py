# SPDX-License-Identifier: MIT
"""
tests/abi/loading.py - OSF_DRIVERS: what is no driver is said so, and hangs nobody

A path that cannot be loaded costs a line on standard error.  The others are loaded.
"""
import os
import subprocess

from parts import HERE, LIMIT_S, Failed, need


def cases(parts):
    """Yield: OSF_DRIVERS, whether a device is there, what standard error says."""
    good, fifo, text = parts.driver(2), parts.path("fifo"), parts.path("text.so")
    os.mkfifo(fifo)
    with open(text, "w") as f:
        f.write("no library\n")
    yield good, True, []
    yield "", False, []
    yield "/no/such.so", False, ["driver not loaded: /no/such.so"]
    yield fifo, False, [fifo + ": is not a regular file"]
    yield text, False, ["driver not loaded: " + text]
    no_entry = os.path.join(parts.library(2), "libosf.so")
    yield no_entry, False, ["has no osf_driver_entry"]
    yield ":%s::/no/such.so:%s:" % (fifo, good), True, \
        [fifo + ": is not a regular file", "driver not loaded: /no/such.so"]
    yield "%s:%s" % (good, good), True, ["osf_driver_entry: File exists"]


def check(parts, library, drivers, is_there, says):
    status, said = parts.run(parts.program(0, 0, 2), library, drivers)
    lines = said.splitlines()
    found = [line for line in lines if "OSF_DRIVERS" in line]
    need(len(found) == len(says) and all(any(one in line for line in found) for one in says),
         "OSF_DRIVERS=%s: says %s, not %s" % (drivers, found, says))
    need(("device: loop0" in lines) == is_there == (not status),
         "OSF_DRIVERS=%s: status %d: %s" % (drivers, status, said))


def late(parts):
    """libosf.so has some of libibverbs' names, and finds a libibverbs that comes late."""
    library = parts.path("libibverbs.so.1")
    got = subprocess.run(parts.cc + ["-shared", "-fPIC", "-o", library, "-Wl,-soname,libibverbs.so.1",
                                     os.path.join(HERE, "late_lib.c")],
                         capture_output=True, text=True, timeout=LIMIT_S)
    need(not got.returncode, got.stderr)
    made, said = parts.compile(os.path.join(HERE, "late.c"), parts.header(2), "late")
    need(made, said)
    status, said = parts.run(parts.link([made], "osf", "late"), "osf", 2, library)
    need(not status and said == "holds\n", "status %d: %s" % (status, said))


def show(parts):
    n_wrong = n = 0
    for drivers, is_there, says in cases(parts):
        for library in (2, "osf"):
            try:
                n += 1
                check(parts, library, drivers, is_there, says)
            except Failed as failure:
                n_wrong += 1
                print("WRONG: library %s: %s" % (library, failure))
    print("\nOSF_DRIVERS: %d settings tried" % n)
    try:
        late(parts)
        print("libibverbs that a driver brings is found")
    except Failed as failure:
        n_wrong += 1
        print("WRONG: libibverbs that a driver brings: %s" % failure)
    return n_wrong
