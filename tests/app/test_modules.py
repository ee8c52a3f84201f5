#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_modules.py - what the switch and its modules have to say to each other

    test_modules.py FOLDER    the folder with the modules of module_dummy.c

Each scenario is a program of its own under osf, with OSF_MODULES and what else it
needs; afterwards the module's log says what it was asked, and osf's log what was
wrong.  That a module carries a connection is read from the statistics, while the
connection is open.
"""
import ctypes
import errno
import glob
import os
import select
import socket
import sys
import threading

import harness

PROTO_NONE, PROTO_INET, PROTO_SHM, PROTO_MODULE = range(4)
DIRECT = 0x4f44
N_BYTES = 1 << 20


# --- inside a program under osf ---

def listener(family=socket.AF_INET, host="127.0.0.1"):
    s = of_family(family)
    s.bind((host, 0))
    s.listen(8)
    return s


def of_family(family):
    """Python only knows what to do with the addresses of families it knows."""
    if family != DIRECT:
        return socket.socket(family)
    fd = socket.socket(DIRECT).detach()
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=fd)


def own_stats():
    """The last, if what started us had the same pid."""
    return sorted(glob.glob(os.path.join(os.environ["OSF_STATS_DIR"],
                                         "%d.*.osf" % os.getpid())))[-1]


def protos(*socks):
    """What carries each, as the statistics say."""
    by_fd = {s.fd: s.proto for s in harness.Segment(own_stats()).socks}
    return [by_fd.get(s.fileno()) for s in socks]


def expect(got, want):
    if got != want:
        raise SystemExit("%r, where %r was expected" % (got, want))


def receive(sock, n):
    data = bytearray()
    while len(data) < n:
        part = sock.recv(n - len(data))
        if not part:
            raise SystemExit("end after %d of %d bytes" % (len(data), n))
        data += part
    return bytes(data)


def exchange(one, two):
    """Bytes through both directions, more than any buffer takes."""
    for a, b in ((one, two), (two, one)):
        sent = os.urandom(4096) * (N_BYTES // 4096)
        thread = threading.Thread(target=a.sendall, args=(sent,))
        thread.start()
        expect(receive(b, N_BYTES) == sent, True)
        thread.join()


def connect(to, before=lambda s: None, family=socket.AF_INET):
    s = of_family(family)
    before(s)
    s.connect(to.getsockname())
    return s


def pair(replacements=None, family=socket.AF_INET, **kw):
    """A connection that works, and what carries its ends."""
    with listener(family, **kw) as l:
        one = connect(l, family=family)
        expect([p[0] for p in select.select([l], [], [], 10)[:1] if p], [l])
        two, peer = l.accept()
        expect(peer[0], l.getsockname()[0])
        expect((os.get_inheritable(one.fileno()),
                os.get_inheritable(two.fileno())), (False, False))
        exchange(one, two)
        if replacements:
            expect(protos(one, two), replacements)
        one.close()
        expect(two.recv(1), b"")
        two.close()


def carried():
    pair([PROTO_MODULE] * 2)


def by_kernel():
    pair([PROTO_INET] * 2)


def by_kernel_untouched():
    """Where a rule leaves everything to it, nothing else is recorded."""
    pair([PROTO_NONE, PROTO_INET])


def by_shm():
    pair([PROTO_SHM] * 2)


def reasons(*socks):
    names = harness.reason_names()
    by_fd = {s.fd: names[s.reason] for s in harness.Segment(own_stats()).socks}
    return [by_fd.get(s.fileno()) for s in socks]


def says_so():
    """Where a named protocol does not take a connection, the kernel has it."""
    os.environ["DUMMY_REFUSE"] = "dummy"
    with listener() as l:
        one = connect(l)
        two = l.accept()[0]
        exchange(one, two)
        expect(protos(one, two), [PROTO_INET] * 2)
        expect(reasons(one, two), ["RULE_OTHER", "NO_TCP"])


def prefork():
    """A child that was forked after listen() accepts."""
    with listener() as l:
        pid = os.fork()
        if not pid:
            two, _ = l.accept()
            expect(protos(two), [PROTO_MODULE])
            two.sendall(receive(two, N_BYTES))
            os._exit(0)
        one = connect(l)
        sent = os.urandom(N_BYTES)
        thread = threading.Thread(target=one.sendall, args=(sent,))
        thread.start()
        expect(receive(one, N_BYTES) == sent, True)
        thread.join()
        expect(os.waitpid(pid, 0)[1], 0)


def nonblocking():
    with listener() as l:
        l.setblocking(False)
        try:
            l.accept()
            raise SystemExit("accept() before anybody came")
        except BlockingIOError:
            pass
        one = connect(l, lambda s: s.setblocking(False))
        expect(os.get_blocking(one.fileno()), False)
        select.select([l], [], [], 10)
        two, _ = l.accept()
        expect(os.get_blocking(two.fileno()), True)
        expect(protos(one, two), [PROTO_MODULE] * 2)


def old_module():
    """It opens connections; arrivals, and closing, are none of its business."""
    with listener() as l, socket.socket(socket.AF_UNIX) as peer:
        peer.bind("\0osf-dummy/%d" % l.getsockname()[1])
        peer.listen(1)
        one = connect(l)
        two = peer.accept()[0]
        exchange(one, two)
        expect(protos(one), [PROTO_MODULE])
        peer.close()
        one = connect(l)  # refused by then, so the kernel's
        two = l.accept()[0]
        exchange(one, two)
        expect(protos(one)[0] in (PROTO_INET, PROTO_SHM), True)


def gone():
    """The first arrival is gone when it is accepted; accept() waits on."""
    with listener() as l:
        first, second = connect(l), connect(l)
        two, _ = l.accept()
        expect(first.recv(1), b"")
        exchange(second, two)
        expect(protos(second, two), [PROTO_MODULE] * 2)


def child_that_holds():
    """Return: what ends it."""
    r, w = os.pipe()
    child = os.fork()
    if not child:
        os.close(w)
        os.read(r, 1)
        os._exit(0)
    os.close(r)

    def end():
        os.close(w)
        os.waitpid(child, 0)
    return end


def not_asked():
    """Sockets whose place a replacement could not take, or must not."""
    with listener() as l, select.epoll() as ep:
        s = socket.socket()
        end = child_that_holds()
        s.connect(l.getsockname())
        expect(PROTO_MODULE in protos(s, l.accept()[0]), False)
        end()
        expect(s.connect_ex(l.getsockname()), errno.EISCONN)
        s = socket.socket()
        copy = s.dup()  # the entry of the set has lost its number
        ep.register(copy, select.EPOLLOUT)
        copy.close()
        s.connect(l.getsockname())
        expect(PROTO_MODULE in protos(s, l.accept()[0]), False)
        expect(len(ep.poll(10)), 1)
    pair(family=DIRECT)
    pair(family=socket.AF_INET6, host="::1")


def held_by_a_child():
    with listener() as l:
        s = socket.socket()
        end = child_that_holds()
        s.connect(l.getsockname())
        expect(reasons(s), ["SHARED"])
        end()


def after_a_child():
    """Who has let go of a socket does not keep it from a module."""
    with listener() as l:
        s = socket.socket()
        child_that_holds()()
        s.connect(l.getsockname())
        two = l.accept()[0]
        exchange(s, two)
        expect(protos(s, two), [PROTO_MODULE] * 2)


def duplicates():
    """Each descriptor leads to the replacement, and keeps what is its own."""
    with listener() as l:
        s = socket.socket()
        s.setblocking(False)
        copies = [s.dup() for i in range(3)]
        os.set_inheritable(copies[0].fileno(), True)
        s.close()
        copies[1].connect(l.getsockname())
        two = l.accept()[0]
        expect(protos(two), [PROTO_MODULE])
        expect([os.get_inheritable(c.fileno()) for c in copies],
               [True, False, False])
        expect([os.get_blocking(c.fileno()) for c in copies], [False] * 3)
        expect(len({os.fstat(c.fileno()).st_ino for c in copies}), 1)
        copies[0].setblocking(True)
        for c in copies:
            exchange(c, two)
            c.close()
        expect(two.recv(1), b"")


def ready(ep, wait=10):
    return sorted(ep.poll(wait))


def epoll_sets():
    """Entries go on with the replacement, as the program made them."""
    OUT, IN, ET, ONCE = (select.EPOLLOUT, select.EPOLLIN, select.EPOLLET,
                         select.EPOLLONESHOT)
    with listener() as l, select.epoll() as level, select.epoll() as edge, \
            select.epoll() as once, select.epoll() as none:
        s = socket.socket()
        copy = s.dup()
        level.register(s, OUT)
        level.register(copy, IN)
        edge.register(s, OUT | IN | ET)
        once.register(s, OUT | IN | ONCE)
        none.register(s, 0)
        hup = select.EPOLLHUP
        for ep in (level, edge, once):  # not connected
            expect(all(ev & hup for _, ev in ready(ep)), True)
        s.connect(l.getsockname())
        two = l.accept()[0]
        expect(protos(s, two), [PROTO_MODULE] * 2)
        expect(ready(level), [(s.fileno(), OUT)])
        expect(ready(edge), [(s.fileno(), OUT)])
        expect(ready(edge, 0), [])
        expect(ready(once, 0), [])
        once.modify(s, OUT | IN | ONCE)
        expect(ready(once), [(s.fileno(), OUT)])
        expect(ready(once, 0), [])
        expect(ready(none, 0), [])
        two.sendall(b"x")
        expect(ready(level), [(s.fileno(), OUT), (copy.fileno(), IN)])
        expect(ready(edge), [(s.fileno(), OUT | IN)])
        level.unregister(copy)
        level.modify(s, IN)
        expect(ready(level), [(s.fileno(), IN)])
        expect(s.recv(2), b"x")
        expect(ready(level, 0), [])
        for ep in (level, edge, once, none):
            ep.unregister(s)
        exchange(copy, two)


def nonblocking_connect(to):
    """Return: how often epoll and SO_ERROR tell of its outcome, and what."""
    with select.epoll() as ep:
        s = socket.socket()
        s.setblocking(False)
        before = s.connect_ex(to)
        expect(before in (0, errno.EINPROGRESS), True)
        ep.register(s, select.EPOLLOUT | select.EPOLLET)
        expect([fd for fd, _ in ready(ep)], [s.fileno()])
        expect(ready(ep, 0), [])
        errors = [s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                  for i in range(3)]
        return s, errors


def one_after_the_other():
    """The program hears of the last candidate's outcome, once."""
    with listener() as l:
        one, errors = nonblocking_connect(l.getsockname())
        expect(errors, [0, 0, 0])
        one.setblocking(True)
        exchange(one, l.accept()[0])
        to = l.getsockname()
    _, errors = nonblocking_connect(to)
    expect(errors, [errno.ECONNREFUSED, 0, 0])


def under_way():
    """A connection under way is not opened a second time."""
    with listener() as l:
        s = socket.socket()
        s.setblocking(False)
        os.environ["DUMMY_REFUSE"] = "dummy"
        expect(s.connect_ex(l.getsockname()), errno.EINPROGRESS)
        del os.environ["DUMMY_REFUSE"]
        select.select([], [s], [], 10)
        expect(s.connect_ex(l.getsockname()) in (0, errno.EISCONN), True)
        expect(protos(s)[0] in (PROTO_INET, PROTO_SHM), True)


def notified():
    event = (ctypes.c_uint32 * 4)(16, 4, 0, 0)
    ctypes.CDLL(None).ops_inet_notification(event)


# --- outside ---

class Modules:
    def __init__(self, run, folder):
        self.run = run
        self.folder = folder
        self.n = 0

    def path(self, name):
        return name if "/" in name else \
            os.path.join(self.folder, "module_%s.so" % name)

    def play(self, scenario, modules, **env):
        """Return: the lines of the modules' log, and osf's log."""
        self.n += 1
        logs = [self.run.path("%s.%d" % (name, self.n))
                for name in ("module", "osf")]
        extra = {"OSF_MODULES": ":".join(self.path(m) for m in modules),
                 "DUMMY_LOG": logs[0], "OSF_LOG": "info",
                 "OSF_LOG_FILE": logs[1]}
        extra.update(env)
        self.run.python(__file__, "program", scenario.__name__, eager=True,
                        extra=extra)
        texts = []
        for path in logs:
            with open(path) as f:
                texts.append(f.read())
        return texts[0].splitlines(), texts[1]

    def expect(self, lines, *words):
        """@lines are those of @words, in order, ports left out."""
        got = [" ".join(w for w in line.split() if not w.isdigit())
               for line in lines if "registered" not in line]
        self.run.need(got == list(words), "modules said %r, not %r" %
                      (got, list(words)))


CARRIED = ["dummy listen", "dummy connect", "dummy connected",
           "dummy accepted", "dummy close",
           "dummy close", "dummy close listener"]
REFUSED = ["dummy listen", "dummy connect", "dummy not mine",
           "dummy close listener"]


def one_module(m):
    m.expect(m.play(carried, ["dummy"])[0], *CARRIED)
    m.expect(m.play(carried, ["dummy"], OSF_SHM="0")[0], *CARRIED)
    lines = m.play(prefork, ["dummy"])[0]
    m.run.need("dummy accepted" in lines, lines)
    m.play(nonblocking, ["dummy"])
    lines = m.play(gone, ["dummy"], DUMMY_GONE="1")[0]
    m.run.need(lines.count("dummy gone") == 1 and
               lines.count("dummy accepted") == 1, lines)
    m.expect(m.play(notified, ["dummy"])[0], "dummy notify")


def refusal(m):
    """The next is asked before there is a connection; the kernel is the last."""
    refuse = {"DUMMY_REFUSE": "dummy"}
    m.expect(m.play(by_shm, ["dummy"], **refuse)[0], *REFUSED)
    m.expect(m.play(by_kernel, ["dummy"], OSF_SHM="0", **refuse)[0], *REFUSED)
    lines = m.play(carried, ["dummy", "other"], DUMMY_REFUSE="other")[0]
    asked = [line.rsplit(" ", 1)[0] for line in lines if "connect" in line]
    m.run.need(asked[:3] == ["other connect", "dummy connect",
                             "dummy connected"], asked)
    lines = m.play(not_asked, ["dummy"])[0]
    m.run.need(not any("dummy connect" in line for line in lines), lines)
    m.play(held_by_a_child, ["dummy"],
           OSF_RULES="use dummy tcp_client *:*")
    for scenario in (after_a_child, duplicates, epoll_sets):
        lines = m.play(scenario, ["dummy"])[0]
        m.run.need(any("dummy connected" in line for line in lines), lines)
    for refuse, module in (("dummy:other", None), ("other", "dummy"),
                           ("", "other")):
        lines = m.play(one_after_the_other, ["dummy", "other"],
                       DUMMY_REFUSE=refuse)[0]
        got = {line.split()[0] for line in lines if "connected" in line}
        m.run.need(got == {module} - {None}, lines)
    lines = m.play(under_way, ["dummy"])[0]
    m.run.need(not any("connected" in line for line in lines), lines)


def rules(m):
    """They say which module is told of a listener, or asked to connect."""
    def play(scenario, text, modules=("dummy",)):
        return m.play(scenario, modules, OSF_RULES=text)[0]

    m.expect(play(by_kernel, "use os tcp_client *:*"),
             "dummy listen", "dummy not mine", "dummy close listener")
    m.expect(play(by_shm, "use shm tcp_client *:*"),
             "dummy listen", "dummy not mine", "dummy close listener")
    m.expect(play(by_kernel, "use os tcp_server *:*"),
             "dummy connect", "dummy close")
    m.expect(play(by_kernel_untouched, "use os tcp_server *:*; "
                  "use os tcp_client *:*"), "dummy close")
    m.expect(play(carried, "use osf tcp_client *:*"), *CARRIED)
    m.expect(play(by_kernel_untouched, "use nobody tcp_client *:*"),
             "dummy close")
    lines = play(carried, "use dummy tcp_client 127.0.0.0/8:*; "
                 "use dummy tcp_server *:*", ("dummy", "other"))
    m.expect([line for line in lines if "dummy" in line], *CARRIED)
    m.run.need(not any("other" in line and "registered" not in line and
                       "close" not in line for line in lines), lines)
    play(says_so, "use dummy tcp_client *:*; use tcp tcp_server *:*")
    lines = play(carried, "", ("dummy", "other"))  # by priority
    m.run.need(any("other connected" in line for line in lines) and
               not any("dummy connect" in line for line in lines), lines)


def generations(m):
    lines = m.play(old_module, ["dummy_old"])[0]
    m.run.need(lines[0] == "dummy registered 1: 0", lines)
    m.expect(lines, "dummy connect", "dummy connected", "dummy connect")
    lines, log = m.play(carried, ["dummy_newer"])
    m.run.need(lines[:2] == ["dummy registered 4: -7",
                             "dummy registered again: 0"], lines)
    m.run.need("made for a newer osf" in log, log)
    m.expect(lines, *CARRIED)


    lines, log = m.play(carried, ["dummy_streams"])
    m.run.need(lines[:2] == ["dummy registered 3: -7",
                             "dummy registered again: 0"], lines)
    m.run.need("made for a newer osf" in log, log)
    m.expect(lines, *CARRIED)


def what_is_wrong_is_said(m):
    missing = os.path.join(m.folder, "missing.so")
    long_path = "/" + "x" * 600
    lines, log = m.play(carried, [missing, "", __file__, "dummy_no_entry",
                                  "dummy_fails", long_path, "dummy",
                                  "dummy_newer"])
    for words in ("missing.so: cannot open shared object file",
                  "test_modules.py: invalid ELF header",
                  "module_dummy_no_entry.so: has no osf_module_init",
                  "module_dummy_fails.so: not used: osf_module_init: "
                  "Input/output error", "its path is too long",
                  "protocol dummy not registered: there is one of that name"):
        m.run.need(words in log, "%r is not in:\n%s" % (words, log))
    m.expect(lines, *CARRIED)


def main():
    run = harness.Run(__file__)
    if run.is_kernel:
        harness.skip("modules need osf")
    m = Modules(run, os.path.abspath(sys.argv[1]))
    if not os.path.exists(m.path("dummy")):
        harness.skip("no modules in %s" % m.folder)
    for part in (one_module, refusal, rules, generations,
                 what_is_wrong_is_said):
        part(m)
    run.done()


if sys.argv[1] == "program":
    globals()[sys.argv[2]]()
else:
    main()
