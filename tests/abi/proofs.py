# SPDX-License-Identifier: MIT
"""
tests/abi/proofs.py - the checks of the scheme are what makes the table hold

Each proof runs a program that would be harmed, and then does the same without the check:
a header, a driver or a library in which that one check is missing.  The mutant must
fail; otherwise the proof proves nothing.
"""
import os

from parts import HERE, Failed, how_it_ended, need

NEVER_OLDER = r"\(\(ctx_ex\)->sz >=.*?member\)\)"
ANY_SIZE = r"\(\(size\) >= offsetof.*?\)->member\)\)"
ANY_STRIDE = r"\(\(type \*\)\(void \*\)\(\(char \*\).*?\(stride\)\)\)"


class Proofs:
    def __init__(self, parts):
        self.parts = parts

    def program(self, name, generation, include=None, tag=""):
        """@name.c with app.c."""
        parts = self.parts
        made = [parts.compile(os.path.join(HERE, source + ".c"),
                              include or parts.header(generation),
                              "%s-%s%s" % (name, source, tag)) for source in (name, "app")]
        for path, said in made:
            need(path and "warning:" not in said, said)
        return parts.link([path for path, _ in made], generation, name + tag)

    def holds(self, program, library, driver, what):
        status, said = self.parts.run(program, library, driver, what)
        need(not status and said.endswith("holds\n"),
             "%s, library %s, driver %s: %s: %s" % (what, library, driver,
                                                    how_it_ended(status), said))
        return said

    def fails(self, program, library, driver, what):
        """Return: how."""
        status, said = self.parts.run(program, library, driver, what)
        need(status, "%s: the mutant does no harm: %s" % (what, said))
        return said.splitlines()[-1] if said and status > 0 else how_it_ended(status)

    # --- (a) to (f); (g) is layout.py ---

    def size_check_of_the_program(self):
        program = self.program("proof_new", 2)
        for library, driver in ((0, 0), (1, 1), (2, 1), (2, 2)):
            self.holds(program, library, driver, "calls")
        mutant = self.program("proof_new", 2, self.parts.mutant_header(
            "a", 2, NEVER_OLDER, "1"), "-a")
        self.holds(mutant, 2, 2, "calls")
        how = self.fails(mutant, 1, 1, "calls")
        return "without it a new program on an old library: " + how

    def marker(self):
        """The context of a driver from before the scheme; above it is nothing."""
        page = "mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)"
        driver = self.parts.mutant_driver("driver-marker", 0, self.parts.header(0), [
            (r"loop_alloc\(sizeof\(\*context\)\);",
             page + "; mprotect(context, 4096, PROT_NONE);"
             " context = (struct osf_context *)((char *)context + 4096);"),
            (r"legacy_free\(struct osf_context \*context\) \{ free\(context\); \}",
             "legacy_free(struct osf_context *context) {}"),
            (r"#include <stdlib.h>", "#include <stdlib.h>\n#include <sys/mman.h>")])
        program = self.program("proof_new", 2)
        for library in (0, 1, 2, "osf"):
            self.holds(program, library, driver, "calls")
        include = self.parts.mutant_header(
            "marker", 2, r"\tif \(context->abi_compat != OSF_ABI_EXTENDED\)\n\t\treturn NULL;\n",
            "", "verbs_api.h")
        how = self.fails(self.program("proof_new", 2, include, "-marker"), 2, driver, "calls")
        need("page with ---p, 8 bytes below its end" in how, how)
        return "without it a new program with an old driver: " + how

    def guard_page(self):
        program = self.program("proof_new", 2)
        self.holds(program, 1, 2, "open")
        mutant = self.parts.mutant_driver("driver-b", 2, self.parts.mutant_header(
            "b", 2, NEVER_OLDER, "1"))
        self.holds(program, 2, mutant, "open")
        how = self.fails(program, 1, mutant, "open")
        # drv_query_values is the first of a pair that the library does not have.
        need("page with ---p, 16 bytes below its end" in how, how)
        return "a driver that does not ask: " + how

    def canaries(self):
        program = self.program("proof_old", 1)
        for what in ("canary", "canary-cq"):
            for library, driver in ((1, 1), (1, 2), (2, 1), (2, 2), ("osf", 2)):
                self.holds(program, library, driver, what)
        mutant = self.parts.mutant_driver("driver-c", 2, self.parts.mutant_header(
            "c", 2, ANY_SIZE, "(((size_t)(size) | 1) != 0 && sizeof(((type *)0)->member))"))
        self.holds(self.program("proof_new", 2), 2, mutant, "tail")
        hows = [self.fails(program, 2, mutant, what) for what in ("canary", )]
        return "a driver that ignores the size: " + "; ".join(hows)

    def strides(self):
        program = self.program("proof_new", 2)
        for library, driver in ((1, 1), (1, 2), (2, 1), (2, 2), ("osf", 2)):
            self.holds(program, library, driver, "stride")
        include = self.parts.mutant_header("d", 1, ANY_STRIDE,
                                           "((type *)(uintptr_t)(array) + (i) + 0 * (stride))")
        how = self.fails(program, 1, self.parts.mutant_driver("driver-d", 1, include), "stride")
        return "a driver that walks by its own size: " + how

    def unknown_bits(self):
        program = self.program("proof_new", 2)
        for library, driver in ((1, 1), (1, 2), (2, 1), (2, 2), ("osf", 2)):
            self.holds(program, library, driver, "unknown")
        mutant = self.parts.mutant_library("e", "scheme/calls_ex.c",
                                           r"if \(!cq_attr_is_known\(attr\)\)", "if (0)")
        # The driver has the check, too: it may be the older one.
        self.holds(program, mutant, 2, "unknown")
        include = self.parts.mutant_header("e", 2, r"#define OSF_CQ_FLAGS_KNOWN[^\n]*",
                                           "#define OSF_CQ_FLAGS_KNOWN UINT32_MAX",
                                           "verbs_api.h")
        driver = self.parts.mutant_driver("driver-e", 2, include)
        self.holds(program, 2, driver, "unknown")
        return "library and driver each refuse; without both checks: " + \
            self.fails(program, mutant, driver, "unknown")

    def comp_mask2(self):
        old, new = self.program("proof_old", 1), self.program("proof_new", 2)
        for library, driver in ((1, 1), (1, 2), (2, 1), (2, 2), ("osf", 2)):
            self.holds(old, library, driver, "mask2")
            said = self.holds(new, library, driver, "mask2")
            knows = library != 1 and driver == 2
            need(("bit 31: known" if knows else "bit 31: EINVAL") in said, said)
        mutant = self.parts.mutant_library(
            "f", "scheme/calls_time.c", r"!\(attr->comp_mask & OSF_COMP_MASK2\) \|\|", "0 ||")
        return "a library that reads it always: " + self.fails(old, mutant, 2, "mask2")


PROOFS = [("(a) the program asks sz", Proofs.size_check_of_the_program),
          ("    and the marker, first", Proofs.marker),
          ("(b) a page without access above the head", Proofs.guard_page),
          ("(c) outputs keep to their size", Proofs.canaries),
          ("(d) arrays go by the stride", Proofs.strides),
          ("(e) unknown bits are refused", Proofs.unknown_bits),
          ("(f) comp_mask2 counts with bit 31 alone", Proofs.comp_mask2)]


# OSF_FAULTS, and what tests/abi/faults.c counts in 60 rounds of 4 sends.
FAULTS = [("", "fine 240, lost 0, flushed 0, refused 0, no memory 0"),
          ("held=100", "fine 240, lost 0, flushed 0, refused 0, no memory 0"),
          ("lost=100", "fine 0, lost 60, flushed 180, refused 0, no memory 0"),
          ("full=100", "fine 0, lost 0, flushed 0, refused 240, no memory 0"),
          ("memory=100", "fine 0, lost 0, flushed 0, refused 0, no memory 60")]
WRONG_FAULTS = ["lost=101", "lost", "lost=", "lost=1x", "luck=1", "=1", "lost=1,,", "lost=-1"]


def mixed(parts, program, seed):
    status, said = parts.run(program, 2, "faults", extra={
        "OSF_FAULTS": "seed=%d,lost=5,held=30,full=5,memory=3" % seed})
    need(not status, "seed %d: %s: %s" % (seed, how_it_ended(status), said))
    return said


def faults(parts):
    program = Proofs(parts).program("faults", 2)
    for setting, want in FAULTS:
        status, said = parts.run(program, 2, "faults", extra={"OSF_FAULTS": setting})
        need(not status and said.strip() == want, "OSF_FAULTS=%s: %s" % (setting, said))
    for setting in WRONG_FAULTS:
        status, said = parts.run(program, 2, "faults", extra={"OSF_FAULTS": setting})
        need(status and "Invalid argument" in said, "OSF_FAULTS=%s: %s" % (setting, said))
    runs = [mixed(parts, program, seed) for seed in range(8)]
    need(len(set(runs)) > 1, "each seed gives %s" % runs[0])
    need(mixed(parts, program, 3) == runs[3], "seed 3 gives something else each time")
    return runs[3].strip()


def show_faults(parts):
    try:
        print("each fault alone, wrong settings, 8 seeds of a mixture; seed 3: " + faults(parts))
    except Failed as failure:
        print("WRONG: %s" % failure)
        return 1
    return 0


def show(parts):
    proofs, n_wrong = Proofs(parts), 0
    print("\nProofs: each check, and what happens without it")
    for name, run in PROOFS:
        try:
            said = run(proofs)
        except Failed as failure:
            n_wrong += 1
            said = "WRONG: %s" % failure
        print("%s\n    %s" % (name, said))
    return n_wrong
