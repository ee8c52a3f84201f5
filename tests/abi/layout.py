#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/abi/layout.py - where each member of each structure lies, in each generation

    layout.py --fix        writes gen0/layout.txt, gen1/layout.txt and so on

A line of the text is a structure's member, its offset and its size; the offset of members
of struct osf_context_ex counts from struct osf_context, as older code sees it.  The last
line is a checksum of all above.  The numbers are those of 64-bit machines.  The compiler is asked twice: _Static_assert() of each
line, and what offsetof() of each member in the header prints, so that no member is
forgotten.  A later generation keeps every line of the one before, and its structures do
not shrink.
"""
import os
import re
import subprocess
import sys
import zlib

from parts import GENERATIONS, HERE, LIMIT_S, Failed, Parts, need

HEADERS = ["verbs_api.h", "verbs_driver.h"]
GROWS_UP = "osf_context_ex"


def text_of(folder, name):
    with open(os.path.join(folder, "osf", name)) as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    return re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.M)


def members(folder):
    """Yield: structure, member."""
    for name in HEADERS:
        for struct, body in re.findall(r"\bstruct (\w+) \{(.*?)\n\};", text_of(folder, name),
                                       re.S):
            for declaration in body.split(";"):
                pointer = re.search(r"\(\*(\w+)\)", declaration)
                names = [pointer.group(1)] if pointer else \
                    [re.search(r"(\w+)\s*(\[\w+\])?\s*$", part).group(1)
                     for part in declaration.split(",") if part.strip()]
                for member in names:
                    yield struct, member


def from_context(struct, member):
    """A C expression of type long."""
    at = "(long)offsetof(struct %s, %s)" % (struct, member)
    if struct == GROWS_UP:
        at += " - (long)offsetof(struct %s, context)" % GROWS_UP
    return at


def size_of(struct, member):
    return "(long)sizeof(((struct %s *)0)->%s)" % (struct, member)


def compile_c(parts, generation, text, name, more=(), include=None):
    source = parts.path(name + ".c")
    with open(source, "w") as f:
        f.write("#include <stdio.h>\n#include \"osf/verbs_driver.h\"\n" + text)
    got = subprocess.run(parts.cc + ["-std=gnu17", "-Wall", "-I" + (include or
                                                               parts.header(generation)),
                                     source, "-o", parts.path(name), *more],
                         capture_output=True, text=True, timeout=LIMIT_S)
    need(not got.returncode, "generation %d: %s" % (generation, got.stderr))
    return parts.path(name)


def measured(parts, generation):
    """Return: the lines, as the compiler has them."""
    found = list(members(parts.header(generation)))
    need(len(found) > 50, "only %d members" % len(found))
    prints = ["printf(\"%s.%s %%ld %%ld\\n\", %s, %s);" %
              (struct, member, from_context(struct, member), size_of(struct, member))
              for struct, member in found]
    prints += ["printf(\"%s %%ld\\n\", (long)sizeof(struct %s));" % (struct, struct)
               for struct in dict.fromkeys(struct for struct, _ in found)]
    # A weak reference to nothing is no reason to need the library.
    program = compile_c(parts, generation, "int main(void)\n{\n%s\nreturn 0;\n}\n" %
                        "\n".join(prints), "layout-%d" % generation,
                        ["-Wl,--unresolved-symbols=ignore-all"])
    got = subprocess.run([program], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    lines = got.stdout.splitlines()
    return lines + ["checksum %08x" % zlib.crc32("\n".join(lines).encode())]


def path_of(generation):
    return os.path.join(HERE, "gen%d" % generation, "layout.txt")


def committed(generation):
    with open(path_of(generation)) as f:
        lines = f.read().splitlines()
    sum_of = "checksum %08x" % zlib.crc32("\n".join(lines[:-1]).encode())
    need(lines[-1] == sum_of, "%s: the checksum is not %s" % (path_of(generation), sum_of))
    return lines


def static_asserts(parts, generation, lines, include=None):
    out = []
    for line in lines[:-1]:
        name, *numbers = line.split()
        struct, _, member = name.partition(".")
        if not member:
            out.append("_Static_assert(sizeof(struct %s) == %s, \"%s\");" %
                       (struct, numbers[0], name))
            continue
        out.append("_Static_assert(%s == %s && %s == %s, \"%s\");" %
                   (from_context(struct, member), numbers[0], size_of(struct, member),
                    numbers[1], name))
    compile_c(parts, generation, "\n".join(out) + "\n", "asserts-%d" % generation, ["-c"],
              include)


def mutant(parts):
    """A member that is put in the middle must be found.  Return: how."""
    include = parts.mutant_header("g", 2, r"\tuint32_t ts_clock;",
                                  "\tuint64_t before;\n\tuint32_t ts_clock;", "verbs_api.h")
    try:
        static_asserts(parts, 2, committed(2), include)
    except Failed as failure:
        need("osf_cq_init_attr_ex.ts_clock" in str(failure), str(failure))
        return "a member put in the middle: the assertion of ts_clock fails to compile"
    raise Failed("a member that is put in the middle goes unnoticed")


def keeps(older, newer, generation):
    """What is there stays where it is, and grows in the right direction."""
    later = {line.split()[0]: line.split()[1:] for line in newer[:-1]}
    for line in older[:-1]:
        name, *numbers = line.split()
        need(name in later, "generation %d lacks %s" % (generation, name))
        if "." in name:
            need(name == GROWS_UP + ".context" or later[name] == numbers,
                 "generation %d: %s has moved" % (generation, name))
        else:
            need(int(later[name][0]) >= int(numbers[0]),
                 "generation %d: %s has shrunk" % (generation, name))
    for name in ("osf_context", "osf_context_ops", "osf_wc", "osf_send_wr", "osf_device_attr"):
        need(later[name] == [line.split()[1] for line in older if line.startswith(name + " ")],
             "generation %d: %s, whose size is fixed, has grown" % (generation, name))


def show(parts):
    print("\nLayouts, and (g): _Static_assert() of each offset, and a checksum")
    n_wrong, older = 0, None
    for generation in GENERATIONS:
        try:
            lines = committed(generation)
            static_asserts(parts, generation, lines)
            need(measured(parts, generation) == lines, "%s is not what the header has: "
                 "layout.py --fix, if that is meant" % path_of(generation))
            if older:
                keeps(older, lines, generation)
            print("generation %d: %d lines, %s" % (generation, len(lines) - 1, lines[-1]))
            older = lines
        except Failed as failure:
            n_wrong += 1
            print("WRONG: %s" % failure)
    try:
        print(mutant(parts))
    except Failed as failure:
        n_wrong += 1
        print("WRONG: %s" % failure)
    return n_wrong


def fix():
    for generation in GENERATIONS:
        with open(path_of(generation), "w") as f:
            f.write("\n".join(measured(Parts("build"), generation)) + "\n")


if __name__ == "__main__":
    if "--fix" not in sys.argv:
        sys.exit(__doc__)
    fix()
