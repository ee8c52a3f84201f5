#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/style/house.py - rules of the house that a machine can count

    the seam    preload, file, group and api read no socket's mode: they call through the
                table of operations.  (src/LAYERS keeps the protocols' headers from them.)
    functions   none in src, include and tools has more than 70 lines
    the words   docs/map.md has at most 20 words of our own, none of them twice, and each
                is in use
    shadows     a word that had two meanings does not come back in its second one
    names       a source file that comments and docs name by its path is there, and so is
                a function, macro or member that a comment calls name()
    titles      a file's own comment begins with the file's own path
"""
import os
import re

import tree

ABOVE_THE_SEAM = ["src/preload/", "src/file/", "src/group/", "src/api/"]
READS_A_MODE = re.compile(r"\b(sock_mode|state_mode|SOCK_MODE_MASK)\b|"
                          r"\bSOCK_(YOUNG|UPGRADING|PENDING|SHM|MODULE|TCP)\b")
A_PATH = re.compile(r"(?<![\w/.<-])(?:src/)?((?:base|ip|port|osfd|tcp|sock|proto|rdma|cm|ops|"
                    r"group|file|api|preload)/[\w/]+\.(?:c|h|def))\b(?![*(])")
A_CALL = re.compile(r"\b([A-Za-z_]\w+)\(\)")
# The kernel's, libc's and libibverbs' own; wildcards; and what ## puts together.
ELSEWHERE = {"sock_register", "put_cmsg", "pselect6", "clock_getres", "pthread_cancel",
             "ibv_start_poll", "ibv_wr_start", "ibv_wr_send", "ibv_wr_set_sge",
             "ibv_wr_complete", "osf_f", "ibv_f", "read_ours"}
LINES_MAX = 70
WORDS_MAX = 20
A_TITLE = re.compile(r"((?:[\w-]+/)+[\w.-]+\.\w+) - ")
TITLE_LINES = 5  # of a file: its title is in them
# The folder, the word, and what stands there in its place.
SHADOWS = [
    ("src/proto/shm/", r"\w*backlog_\w+", "readahead; a backlog is a listener's"),
    ("src/", r"page_mark|mark_behind", "begin_change, note; a mark is a ring's"),
    ("src/", r"\w*upgrade_turns", "pingpongs; a turn is a pass over what is to be done"),
    ("src/", r"sock_turns|turn_count", "port_sends; a turn is a pass over what is to be done"),
    ("src/api/vma/", r"\w*(take|leave|has|await)_turn", "the receive lock: visit_lock_rx"),
    ("src/", r"\w*(may_be_cut|allow_cut|cut_allowed)\w*", "fragment; a cut is a ring's"),
]


A_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def without_comments(text):
    return A_COMMENT.sub(lambda found: blank(found.group(0)), text)


def only_comments(text):
    """The same lines, without what is not in a comment."""
    parts, end = [], 0
    for found in A_COMMENT.finditer(text):
        parts += [blank(text[end:found.start()]), found.group(0)]
        end = found.end()
    return "".join(parts)


def seam(path, lines):
    for i, line in enumerate(lines, 1):
        if READS_A_MODE.search(line):
            tree.wrong("%s:%d" % (path, i), "a socket's mode above src/ops")


def shadows(path, lines):
    for i, line in enumerate(lines, 1):
        for folder, word, instead in SHADOWS:
            if path.startswith(folder) and re.search(r"\b%s\b" % word, line):
                tree.wrong("%s:%d" % (path, i), "say " + instead)


def functions(path, lines):
    start = 0
    for i, line in enumerate(lines, 1):
        if line == "{":
            start = i
        elif line == "}" and start:
            if i - start - 1 > LINES_MAX:
                tree.wrong("%s:%d" % (path, start), "a function of %d lines" %
                           (i - start - 1))
            start = 0


def names(path, lines):
    for i, line in enumerate(lines, 1):
        for name in A_PATH.findall(line):
            if not any(os.path.exists(os.path.join(tree.ROOT, root, name))
                       for root in ("src", "tests", "tools", "examples", ".")):
                tree.wrong("%s:%d" % (path, i), "there is no %s" % name)


def calls(comments, source):
    """@comments: of each file.  What it calls name() has to stand somewhere in @source."""
    known = set(re.findall(r"\w+", source)) | ELSEWHERE
    for path, text in comments:
        for i, line in enumerate(text.split("\n"), 1):
            for name in A_CALL.findall(line):
                if name not in known:
                    tree.wrong("%s:%d" % (path, i), "there is no %s()" % name)


def title(path, lines):
    for line in lines[:TITLE_LINES]:
        says = A_TITLE.search(line)
        if says and not ("/" + path).endswith("/" + says.group(1)):
            tree.wrong(path, "calls itself %s" % says.group(1))


def words(source):
    table = tree.read("docs/map.md").split("\n## The words\n")[1]
    listed = re.findall(r"^\| ([a-z ]+) \|", table, re.M)[1:]  # the first is the head
    if not listed or len(listed) > WORDS_MAX:
        tree.wrong("docs/map.md", "%d words of our own" % len(listed))
    for word in sorted(set(listed)):
        if listed.count(word) > 1:
            tree.wrong("docs/map.md", "%s stands there twice" % word)
        if not re.search(r"(\b|_)%s" % word.replace(" ", "[ _]"), source):
            tree.wrong("docs/map.md", "nobody uses the word %s" % word)


def main():
    source, code, comments = [], [], []
    for path in tree.files(".c", ".h", under=["src/", "include/", "tools/"]):
        text = tree.read(path)
        bare = without_comments(text)
        lines = bare.split("\n")
        code.append(bare)
        comments.append((path, only_comments(text)))
        if path.startswith("src/"):
            source.append(text)
        if path.startswith(tuple(ABOVE_THE_SEAM)):
            seam(path, lines)
        shadows(path, lines)
        functions(path, lines)
        names(path, text.split("\n"))
    for path in tree.files(".c", ".h", ".def", ".py", ".sh"):
        title(path, tree.read(path).split("\n"))
    for path in tree.files(".md", under=["docs/", "README.md"]):
        if not path.startswith("docs/notes/"):
            names(path, tree.read(path).split("\n"))
    for path in tree.files(".def"):
        code.append(tree.read(path))
    calls(comments, "\n".join(code))
    words("\n".join(source))
    tree.verdict("house")


main()
