# SPDX-License-Identifier: MIT
"""
tests/abi/rows.py - the table of program, header and library, each old or new

    rows(parts, old, new) -> each row, and what it did

An entry of the table is run with the old driver and with the new one.  What a program
prints is compared with what program, library and driver can do together.
"""
import hashlib
import subprocess

from parts import NEWEST, Failed, need

OLD, NEW = "Old", "New"
# Program, header, library; Y: works, N: does not compile.
TABLE = [(OLD, OLD, OLD, "Y"), (OLD, OLD, NEW, "Y"), (OLD, NEW, OLD, "Y"),
         (OLD, NEW, NEW, "Y"), (NEW, OLD, OLD, "N"), (NEW, OLD, NEW, "N"),
         (NEW, NEW, OLD, "Y"), (NEW, NEW, NEW, "Y")]
# What a program of a generation uses that the header before lacks.
MISSING = {1: "osf_query_device_ex", 2: "osf_query_values"}


def expected(app, can):
    """Return: the lines of a program of @app where library and driver are of @can."""
    lines = ["query_device: 4 elements", "data: 3 sends, 3 receives"]
    if app >= 1:
        lines += ["query_device_ex: inline", "create_cq_ex: flags", "post_send_ex: 3",
                  "poll_cq_ex: 6, 3 with src_qp"] if can >= 1 else \
            [call + ": ENOSYS" for call in ("query_device_ex", "create_cq_ex", "post_send_ex",
                                            "poll_cq_ex")]
    if app >= 2:
        calls = ["hwclock_khz", "query_values", "create_cq_ex with time stamps",
                 "post_send_ex with imm", "poll_cq_ex"]
        answers = {0: ["ENOSYS"] * 5,
                   1: ["absent", "ENOSYS", "EINVAL", "EINVAL", "0 with ts, 0 with imm"],
                   2: ["1000000", "hwclock", "yes", "3", "3 with ts, 3 with imm"]}[can]
        lines += ["%s: %s" % pair for pair in zip(calls, answers)]
    return lines


def of(generation):
    return NEWEST if generation in ("osf", "faults") else generation


def run(parts, program, app, library, driver):
    """Return: of the call that @app's generation has added, whether it works."""
    status, said = parts.run(program, library, driver)
    need(not status, "status %d: %s" % (status, said))
    device, *lines = said.splitlines()
    want = expected(app, min(of(library), of(driver)))
    need(device == "device: %s0" % ("faults" if driver == "faults" else "loop"), said)
    need(lines == want, "printed %s, not %s" % (lines, want))
    call = MISSING.get(app, "osf_query_device")[len("osf_"):]
    answer = [line for line in lines if line.startswith(call + ":")][0]
    return "runs, ENOSYS, falls back" if answer.endswith("ENOSYS") else "runs"


def undefined(program):
    got = subprocess.run(["nm", "-u", program], capture_output=True, text=True, check=True)
    return {line.split()[-1] for line in got.stdout.splitlines() if " osf_" in line}


def must_not_compile(parts, app, header, library):
    """Compiles and links in one go, so that the new library could help if it had a way."""
    said = parts.build_at_once(app, header, library)
    name = MISSING[app]
    right = [line for line in said.splitlines()
             if "error:" in line and name in line and
             ("implicit declaration" in line or "undeclared function" in line)]
    need(right, "no message says that %s is missing: %s" % (name, said))
    return "no %s()" % name


def one_row(parts, row, old, new):
    """Return: what to write for the old and for the new driver."""
    app, header, library = (
        {OLD: old, NEW: new}[which] for which in TABLE[row - 1][:3])
    if TABLE[row - 1][3] == "N":
        return [must_not_compile(parts, of(app), of(header), library), ""]
    if row == 2:
        # Row 1's, not built again.
        program = parts.program(of(app), of(header), old)
        with open(program, "rb") as f:
            before = hashlib.sha256(f.read()).digest()
    else:
        program = parts.program(of(app), of(header), library)
    if row == 7:
        need(undefined(program) == undefined(parts.program(old, old, old)),
             "needs other symbols than the old program: %s" % undefined(program))
    done = [run(parts, program, of(app), library, driver)
            for driver in (old, new if new != "osf" else NEWEST)]
    if row == 2:
        with open(program, "rb") as f:
            need(hashlib.sha256(f.read()).digest() == before, "the program has changed")
        done = [text + ", same file" for text in done]
    return done


def rows(parts, old, new):
    """Yield: the row, and what it did; the second text is None if that is wrong."""
    for number, row in enumerate(TABLE, 1):
        try:
            yield row, one_row(parts, number, old, new)
        except Failed as failure:
            yield row, [str(failure), None]


def show(parts, old, new, name):
    """Prints the table.  Return: how many rows are wrong."""
    print("\n%s" % name)
    print("%-10s%-12s%-9s%-11s%-30s%s" % ("Code API", "Header API", "Lib API", "Supported",
                                        "old driver", "new driver"))
    n_wrong = 0
    for row, done in rows(parts, old, new):
        is_wrong = done[1] is None
        n_wrong += is_wrong
        print("%-10s%-12s%-9s%-11s%s" % (*row, "WRONG: " + done[0] if is_wrong else
                                       "%-30s%s" % tuple(done)))
    return n_wrong
