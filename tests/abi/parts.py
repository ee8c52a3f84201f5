# SPDX-License-Identifier: MIT
"""
tests/abi/parts.py - programs, headers, libraries and drivers of each generation

    Parts(BUILD) -> header(1), library(1), driver(1), program(app, header, library)

Meson builds libraries and drivers, each with the headers of its generation.  Programs
are compiled here, because some of them must not compile.  Mutants are built here too:
a header, or a source, in which one check is missing.
"""
import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
VERBS = os.path.join(ROOT, "src", "api", "verbs")
FLAGS = ["-std=gnu17", "-D_GNU_SOURCE", "-g", "-Wall", "-Wextra", "-Wno-unused-parameter",
         "-Werror=implicit-function-declaration"]
NEWEST = 2  # generation: the tree's own headers
GENERATIONS = range(NEWEST + 1)
LIMIT_S = 120  # of one process, on a loaded machine

LOOP = ["driver/loop.c", "driver/loop_cq.c", "driver/loop_qp.c", "driver/loop_send.c",
        "driver/no_faults.c"]
DRIVER = {0: LOOP + [os.path.join(HERE, "gen0", "loop_gen0.c")],
          1: LOOP + ["driver/loop_ex.c", os.path.join(HERE, "gen1", "loop_gen1.c")],
          2: LOOP + ["driver/loop_ex.c", "driver/loop_time.c"]}
LIBRARY_2 = ["scheme/calls.c", "scheme/calls_ex.c", "scheme/calls_time.c", "scheme/load.c",
             "scheme/registry.c", "scheme/registry_ex.c"]


class Missing(Exception):
    """What a part needs is not installed."""


def compiler():
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and shutil.which(name.split()[0]):
            return name.split()
    raise Missing("no C compiler")


def in_parallel(function, items):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, items))


class Failed(Exception):
    pass


def need(is_so, what):
    if not is_so:
        raise Failed(what)


class Parts:
    def __init__(self, build):
        self.build = os.path.abspath(build)
        self.cc = compiler()
        self.folder = tempfile.TemporaryDirectory(prefix="osf-abi-")
        self.objects, self.programs = {}, {}

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def header(self, generation):
        if generation == NEWEST:
            return os.path.join(ROOT, "include")
        return os.path.join(HERE, "gen%d" % generation, "include")

    def library(self, generation):
        """The folder of libosf.so; "osf": the tree's whole library."""
        if generation == "osf":
            return os.path.join(self.build, "src")
        return os.path.join(self.build, "tests", "abi", "gen%d" % generation)

    def driver(self, generation):
        if generation == "faults":
            return os.path.join(self.build, "src", "osf-faults.so")
        return os.path.join(self.library(generation), "driver.so")

    def compile(self, source, include, name):
        """Return: path of the object, and what the compiler says; no path: it failed."""
        target = self.path(name + ".o")
        got = subprocess.run(
            self.cc + FLAGS + ["-fPIC", "-I" + include, "-c", source, "-o", target],
            capture_output=True, text=True, timeout=LIMIT_S, env=dict(os.environ, LC_ALL="C"))
        return (None if got.returncode else target), got.stderr

    def sources(self, app):
        return ["app", "app_%d" % app] + (["app_gen1"] if app else [])

    def objects_of(self, app, generation):
        """Return: the objects of a program with the headers of @generation."""
        found = []
        for name in self.sources(app):
            key = "%s-%s" % (name, generation)
            if key not in self.objects:
                self.objects[key] = self.compile(os.path.join(HERE, name + ".c"),
                                                 self.header(generation), key)
            found.append(self.objects[key])
        return found

    def build_at_once(self, app, header, library):
        """Compiles and links a program that must not compile.  Return: what the compiler says."""
        target = self.path("never")
        got = subprocess.run(
            self.cc + FLAGS + ["-I" + self.header(header)] +
            [os.path.join(HERE, name + ".c") for name in self.sources(app)] +
            ["-o", target, "-L" + self.library(library), "-losf"],
            capture_output=True, text=True, timeout=LIMIT_S, env=dict(os.environ, LC_ALL="C"))
        need(got.returncode and not os.path.exists(target), "compiles")
        return got.stderr

    def link(self, objects, library, name):
        target = self.path(name)
        got = subprocess.run(
            self.cc + objects + ["-o", target, "-L" + self.library(library), "-losf"],
            capture_output=True, text=True, timeout=LIMIT_S)
        need(not got.returncode, "does not link: " + got.stderr)
        return target

    def program(self, app, header, library):
        """The program app_@app.c, compiled and linked; one that is there is not made again."""
        key = (app, header, library)
        if key not in self.programs:
            made = self.objects_of(app, header)
            for path, said in made:
                need(path, "does not compile: " + said)
                need("warning:" not in said, said)
            self.programs[key] = self.link([path for path, _ in made], library,
                                           "app%s-%s-%s" % key)
        return self.programs[key]

    def run(self, program, library, driver, *args, extra=()):
        """Return: exit status, and what it printed."""
        folder = self.library(library) if library in (*GENERATIONS, "osf") else library
        path = self.driver(driver) if driver in (*GENERATIONS, "faults") else driver
        env = dict(os.environ, LD_LIBRARY_PATH=folder, OSF_DRIVERS=path, LD_BIND_NOW="1")
        env.pop("LD_PRELOAD", None)
        env.update(extra)
        got = subprocess.run([program, *args], capture_output=True, text=True,
                             timeout=LIMIT_S, env=env)
        return got.returncode, got.stdout + got.stderr

    # --- mutants ---

    def mutant_header(self, name, generation, pattern, instead, file="verbs_scheme.h"):
        """Headers of @generation with one change.  Return: the folder to include."""
        folder = self.path("include-" + name)
        shutil.copytree(os.path.join(self.header(generation), "osf"),
                        os.path.join(folder, "osf"))
        change(os.path.join(folder, "osf", file), pattern, instead)
        return folder

    def shared(self, target, sources, include, libraries=()):
        def one(i):
            source = sources[i]
            flags = ["-fPIC", "-fvisibility=hidden", "-I" + include,
                     "-I" + os.path.join(ROOT, "include"), "-I" + os.path.join(ROOT, "src")]
            target_o = "%s-%d.o" % (target, i)
            got = subprocess.run(self.cc + FLAGS + flags + ["-c", os.path.join(VERBS, source),
                                                            "-o", target_o],
                                 capture_output=True, text=True, timeout=LIMIT_S)
            need(not got.returncode, got.stderr)
            return target_o
        objects = in_parallel(one, range(len(sources)))
        got = subprocess.run(self.cc + ["-shared", "-o", target] + objects + list(libraries) +
                             ["-pthread"], capture_output=True, text=True, timeout=LIMIT_S)
        need(not got.returncode, got.stderr)
        return target

    def mutant_driver(self, name, generation, include, changes=()):
        """@changes: (pattern, instead), in loop.c."""
        sources = list(DRIVER[generation])
        if changes:
            sources[0] = shutil.copy(os.path.join(VERBS, sources[0]), self.path(name + ".c"))
        for pattern, instead in changes:
            change(sources[0], pattern, instead)
        return self.shared(self.path(name + ".so"), sources, include)

    def mutant_library(self, name, file, pattern, instead):
        """The library of generation 2 with one change in @file.  Return: its folder."""
        folder = self.path("lib-" + name)
        os.mkdir(folder)
        changed = os.path.join(folder, os.path.basename(file))
        shutil.copy(os.path.join(VERBS, file), changed)
        change(changed, pattern, instead)
        base = os.path.join(self.build, "tests", "abi", "libabi_base.a")
        self.shared(os.path.join(folder, "libosf.so"),
                    [changed if one == file else one for one in LIBRARY_2],
                    self.header(2), [base, "-Wl,--exclude-libs,ALL"])
        return folder


def change(path, pattern, instead):
    with open(path) as f:
        text = f.read()
    changed, n = re.subn(pattern, instead, text, flags=re.S)
    need(n == 1, "%s has no place to change: %s" % (path, pattern))
    with open(path, "w") as f:
        f.write(changed)


def how_it_ended(status):
    return "ended by %s" % signal.Signals(-status).name if status < 0 else \
        "exit status %d" % status
