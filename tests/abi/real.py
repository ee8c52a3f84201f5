# SPDX-License-Identifier: MIT
"""
tests/abi/real.py - the table over infiniband/verbs.h, with programs linked to libibverbs

The scheme's original: struct verbs_context of rdma-core.  Three headers: the installed
one; an older one, from which the members above those of XRC and flow steering and the
functions that use them are taken out; and a newer one, with members on top as rdma-core
has added them since.  The library is one that stands in front of libibverbs (real/front.c),
built with each header; a program is linked to the installed libibverbs and finds the
front before it, as under a preload.
"""
import os
import re
import subprocess

from parts import FLAGS, HERE, LIMIT_S, Failed, Missing, need
from rows import TABLE, NEW, OLD

REAL = os.path.join(HERE, "real")
KEPT = "ibv_destroy_flow"  # the topmost member of the older header
MISSING = {1: "ibv_query_rt_values_ex", 2: "ibv_alloc_dmah"}
CALLS = ["open_xrcd", "query_rt_values", "alloc_dmah"]
NEWER_MEMBERS = """
	void (*free_buf)(void);
	void (*alloc_buf)(void);
	void (*dm_export_dmabuf_fd)(void);
	void (*reg_mr_ex)(void);
	int (*dealloc_dmah)(struct ibv_dmah *dmah);
	struct ibv_dmah *(*alloc_dmah)(struct ibv_context *context,
				       struct ibv_dmah_init_attr *attr);
"""
NEWER_TYPES = """
struct ibv_dmah { struct ibv_context *context; };
struct ibv_dmah_init_attr { uint32_t comp_mask; };

"""
NEWER_CALL = """
static inline struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context,
					      struct ibv_dmah_init_attr *attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, alloc_dmah);

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->alloc_dmah(context, attr);
}
"""
STRUCT = re.compile(r"struct verbs_context \{\n(.*?)\n\};\n", re.S)


def installed():
    path = "/usr/include/infiniband/verbs.h"
    if not os.path.exists(path):
        raise Missing("no infiniband/verbs.h (Debian package libibverbs-dev)")
    with open(path) as f:
        return f.read()


def member_names(declarations):
    return re.findall(r"\(\*\s*(\w+)\)\s*\(|\*(priv);", declarations)


def without_functions(text, names):
    """Takes out the inline functions that use one of @names, and who calls those."""
    gone = set(names)
    while True:
        for match in re.finditer(r"^static inline\s[^;{}]*?\b(\w+)\([^;{}]*\)\n\{.*?^\}\n", text,
                                 re.S | re.M):
            uses = set(re.findall(r"\b\w+\b", match.group(0)))
            if uses & gone and match.group(1) not in ("verbs_get_ctx", ):
                gone.add(match.group(1))
                text = text[:match.start()] + text[match.end():]
                break
        else:
            return text


def older(text):
    body = STRUCT.search(text).group(1)
    at = body.rindex("\n", 0, body.index("(*%s)" % KEPT))
    names = {a or b for a, b in member_names(body[:at])}
    need("query_rt_values" in names and "open_xrcd" not in names, "members: %s" % names)
    text = text.replace(body, body[at + 1:])
    text = re.sub(r"#define ibv_query_port\([^\n]*\\\n[^\n]*\n", "", text)
    return without_functions(text, names)


def newer(text):
    body = STRUCT.search(text).group(1)
    text = text.replace(body, NEWER_MEMBERS + body)
    text = text.replace("struct verbs_context {\n", NEWER_TYPES + "struct verbs_context {\n", 1)
    at = re.compile(r"#define verbs_get_ctx_op\((?:[^\n]*\\\n)*[^\n]*\n").search(text).end()
    return text[:at] + NEWER_CALL + text[at:]


class Real:
    def __init__(self, parts):
        self.parts, self.programs = parts, {}
        text = installed()
        for age, header in enumerate((older(text), text, newer(text))):
            folder = os.path.join(self.header(age), "infiniband")
            os.makedirs(folder)
            with open(os.path.join(folder, "verbs.h"), "w") as f:
                f.write(header)
        self.fronts = [self.front(age) for age in (0, 1, 2)]
        self.ours = os.path.join(parts.build, "src", "libosf-verbs.so")

    def header(self, age):
        return self.parts.path("verbs-%d" % age)

    def cc(self, age, args):
        return subprocess.run(self.parts.cc + FLAGS + ["-I" + self.header(age), *args],
                              capture_output=True, text=True, timeout=LIMIT_S,
                              env=dict(os.environ, LC_ALL="C"))

    def shared(self, age, target, more):
        names = ["front", "front_%d" % age] + (["front_rt"] if age else []) + more
        got = self.cc(age, ["-shared", "-fPIC", "-Wl,-soname," + os.path.basename(target),
                            "-o", target] + [os.path.join(REAL, name + ".c") for name in names])
        need(not got.returncode, got.stderr)
        return target

    def front(self, age):
        return self.shared(age, self.parts.path("front-%d.so" % age), [])

    def program(self, app, header):
        key = (app, header)
        if key not in self.programs:
            target = self.parts.path("real-%d-%d" % key)
            got = self.cc(header, [os.path.join(REAL, "app_%d.c" % app), "-o", target,
                                   "-libverbs"])
            need(not got.returncode, got.stderr)
            self.programs[key] = target
        return self.programs[key]

    def start(self, program, front):
        return subprocess.run([program], capture_output=True, text=True, timeout=LIMIT_S,
                              env=dict(os.environ, LD_PRELOAD=front, LD_BIND_NOW="1"))

    def runs(self, app, header, library):
        """Return: how the call that @app is for ended."""
        got = self.start(self.program(app, header), self.fronts[library])
        want = ["%s: %s" % (call, "works" if i <= library else "EOPNOTSUPP")
                for i, call in enumerate(CALLS[:app + 1])]
        need(not got.returncode and got.stdout.splitlines() == want,
             "%s%s, not %s" % (got.stdout, got.stderr, want))
        return "runs" if app <= library else "runs, EOPNOTSUPP, falls back"

    def must_not_compile(self, app, header):
        got = self.cc(header, [os.path.join(REAL, "app_%d.c" % app), "-o",
                               self.parts.path("never"), "-libverbs"])
        name = MISSING[app]
        right = [line for line in got.stderr.splitlines() if "error:" in line and
                 name in line and ("implicit declaration" in line or
                                   "undeclared function" in line)]
        need(got.returncode and right, "compiles, or does not miss %s: %s" % (name, got.stderr))
        return "no %s()" % name

    def row(self, number, old, new):
        app, header, library = ({OLD: old, NEW: new}[which] for which in TABLE[number - 1][:3])
        if TABLE[number - 1][3] == "N":
            return self.must_not_compile(app, header)
        return self.runs(app, header, library)

    def on_ours(self):
        """Programs of each age on libosf-verbs.so, which the installed header compiled."""
        for app in (0, 1, 2):
            for header in range(app, 3):
                got = self.start(self.program(app, header), self.ours)
                xrcd, *lines = got.stdout.splitlines() or [""]
                need(not got.returncode and xrcd == "open_xrcd: works" and
                     lines == ["query_rt_values: works", "alloc_dmah: EOPNOTSUPP"][:app],
                     "program %d, header %d: %s%s" % (app, header, got.stdout, got.stderr))
        return "programs of three ages run"

    def counter_example(self):
        """A call that is an exported symbol; a program that is linked with it."""
        target = self.parts.path("symbol")
        library = self.shared(2, self.parts.path("libibverbs.so.1"), ["port_speed"])
        got = self.cc(2, [os.path.join(REAL, "symbol.c"), "-o", target, library])
        need(not got.returncode, got.stderr)
        got = self.start(target, self.fronts[1])
        need(got.returncode == 127 and "undefined symbol: ibv_query_port_speed" in got.stderr,
             "status %d: %s" % (got.returncode, got.stderr))
        return "does not start: undefined symbol"


def show(parts):
    n_wrong, real = 0, Real(parts)
    for old, new, name in (
            (0, 1, "Old: verbs.h without what came after XRC.  New: as installed"),
            (1, 2, "Old: as installed.  New: with six members more"),
            (0, 2, "Old: without what came after XRC.  New: with six members more")):
        print("\ninfiniband/verbs.h.  %s" % name)
        print("%-10s%-12s%-9s%-11s%s" % ("Code API", "Header API", "Lib API", "Supported", "result"))
        for number, row in enumerate(TABLE, 1):
            try:
                done = real.row(number, old, new)
            except Failed as failure:
                n_wrong += 1
                done = "WRONG: %s" % failure
            print("%-10s%-12s%-9s%-11s%s" % (*row, done))
    try:
        if os.path.exists(real.ours):
            print("\nOur own front, libosf-verbs.so: " + real.on_ours())
        print("\nA new exported symbol in place of a member, older library: " +
              real.counter_example())
    except Failed as failure:
        n_wrong += 1
        print("WRONG: %s" % failure)
    return n_wrong
