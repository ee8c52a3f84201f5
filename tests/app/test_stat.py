#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_stat.py - what osf stat says of programs that run, and that it is true

    test_stat.py               the test
    test_stat.py PART ...      one of its programs, see "inside a program"

Servers and clients exchange a known number of bytes and then wait, holding their
connection, until the test closes their standard input.  What `osf stat --json`
says meanwhile is compared with what is known: bytes, addresses, who holds a
socket, and why it runs where it runs.
"""
import ctypes
import json
import os
import socket
import subprocess
import sys

import harness

TURN = 10  # bytes each way
MANY = 25000  # turns: by then a connection has given up to look for a peer
LIBC = ctypes.CDLL(None)


# --- inside a program ---

def wait_for_end():
    print("ready", flush=True)
    sys.stdin.read()


def receive(sock, n):
    while n:
        part = sock.recv(n)
        if not part:
            return False
        n -= len(part)
    return True


def echo(conn):
    while receive(conn, TURN):
        conn.sendall(b"x" * TURN)


def listener(port, host):
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((host, int(port)))
    sock.listen(5)
    print("ready", flush=True)
    return sock


def serve(port, host="127.0.0.1"):
    sock = listener(port, host)
    conn, _ = sock.accept()
    echo(conn)


def serve_by_child(port):
    """As PostgreSQL does: who accepts hands over to a child, by fork."""
    sock = listener(port, "127.0.0.1")
    conn, _ = sock.accept()
    if os.fork() == 0:
        sock.close()
        print("child", os.getpid(), flush=True)
        echo(conn)
        os._exit(0)
    conn.close()
    os.wait()
    wait_for_end()


def serve_after_uring(port):
    if LIBC.syscall(425, 4, ctypes.create_string_buffer(256)) < 0:
        print("no io_uring")
        return
    serve(port)


def client(port, turns, host="127.0.0.1"):
    conn = socket.create_connection((host, int(port)))
    for _ in range(int(turns)):
        conn.sendall(b"x" * TURN)
        receive(conn, TURN)
    wait_for_end()


def client_that_goes_back(port, turns):
    """Half of its turns in shared memory, half on the kernel again."""
    conn = socket.create_connection(("127.0.0.1", int(port)))
    for i in range(int(turns)):
        if i == int(turns) // 2:
            LIBC.syscall(425, 4, ctypes.create_string_buffer(256))
        conn.sendall(b"x" * TURN)
        receive(conn, TURN)
    wait_for_end()


def titled(port):
    """As nginx does: writes over its arguments, then makes workers."""
    name = ctypes.c_char_p.in_dll(LIBC, "program_invocation_name")
    title = b"titled: worker process\0"
    ctypes.memmove(ctypes.c_void_p.from_buffer(name).value, title, len(title))
    if os.fork() == 0:
        client(port, 1)
        os._exit(0)
    os.wait()


# --- outside ---

def osf_stat(run, *args):
    text = run.check([os.path.join(run.build, "osf"), "stat", "--json", *args],
                     osf=False)
    return json.loads(text)


def part(run, *args, **kw):
    """Starts a program of ours.  Return: it, when it has said that it is ready."""
    env = kw.pop("osf", True)
    prefix = kw.pop("prefix", [])
    popen = subprocess.Popen(
        prefix + run.command([sys.executable, os.path.abspath(__file__)] +
                             [str(a) for a in args], env),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=run.env(env, extra={"OSF_STATS_DIR": "", **kw}))
    run.procs.append(harness.Proc(popen, os.devnull, args[0]))
    line = popen.stdout.readline()
    if line != "ready\n":
        return None
    return popen


def end(run, *popens):
    for popen in popens:
        popen.stdin.close()
        run.need(popen.wait(10) == 0, "%r" % popen.returncode)
        popen.stdout.close()


def rows(run, *pids):
    return [(p, s) for p in osf_stat(run, *map(str, pids))["processes"]
            for s in p["sockets"] if not s["listening"]]


def row(run, pid):
    found = rows(run, pid)
    run.need(len(found) == 1, "rows of %d: %r" % (pid, found))
    return found[0][1]


def need(run, what, got, want):
    run.need(got == want, "%s: %r, not %r" % (what, got, want))


def test_bytes(run):
    """However it came to the kernel: by giving up, or by a rule."""
    for turns, env in ((MANY, {}), (100, {"OSF_RULES": "use os tcp_client *:*"}),
                       (100, {"OSF_RULES": "use os tcp_client *:*; "
                              "use os tcp_server *:*"}),
                       (100, {"OSF_SHM": "0"})):
        port = harness.free_port()
        server = part(run, "serve", port, osf=False)
        one = part(run, "client", port, turns, **env)
        s = row(run, one.pid)
        need(run, "bytes, %r" % env, (s["rx_bytes_inet"], s["tx_bytes_inet"]),
             (turns * TURN, turns * TURN))
        need(run, "the peer", s["peer"], "127.0.0.1:%d" % port)
        end(run, one, server)


def test_bytes_of_the_dead(run):
    """What ended left its totals in a file."""
    port = harness.free_port()
    server = part(run, "serve", port, osf=False)
    stats = run.path("dead")
    os.mkdir(stats)
    one = part(run, "client", port, 300, OSF_STATS_DIR=stats,
               OSF_RULES="use os tcp_client *:*")
    end(run, one, server)
    t = osf_stat(run, "--dir", stats)["processes"][0]["totals"]
    need(run, "bytes of a process that ended",
         (t["rx_bytes_inet_all"], t["tx_bytes_inet_all"], t["n_uncounted_all"]),
         (3000, 3000, 0))


def test_bytes_of_two_ways(run):
    """Doorbells, which go over the kernel's connection, are not the stream."""
    port = harness.free_port()
    server = part(run, "serve", port)
    one = part(run, "client_that_goes_back", port, 4000)
    for pid, reason, other in ((one.pid, "io_uring", None),
                               (server.pid, "peer_back", "io_uring")):
        s = row(run, pid)
        if s["reason"] == "upgraded" and pid == one.pid:
            print("no io_uring here")
            break
        need(run, "bytes of both ways",
             [s["rx_bytes_inet"] + s["rx_bytes_shm"],
              s["tx_bytes_inet"] + s["tx_bytes_shm"], s["rx_bytes_shm"] > 0],
             [40000, 40000, True])
        need(run, "who took it back",
             (s["proto"], s["reason"], s["peer_reason"]),
             ("kernel", reason, other))
    end(run, one, server)


def test_addresses(run):
    port = harness.free_port()
    server = part(run, "serve", port, "0.0.0.0")
    one = part(run, "client", port, 10)
    need(run, "the address of a listener on 0.0.0.0",
         row(run, server.pid)["local"], "127.0.0.1:%d" % port)
    end(run, one, server)


def test_holders(run):
    port = harness.free_port()
    server = part(run, "serve_by_child", port)
    one = part(run, "client", port, 10)
    child = int(server.stdout.readline().split()[1])
    s = row(run, server.pid)
    need(run, "the row is the child's", (s["pid"], s["pids"]), (child, [child]))
    os.kill(child, 9)
    need(run, "ready", server.stdout.readline(), "ready\n")
    need(run, "no rows of the dead", rows(run, server.pid), [])
    end(run, one, server)


def test_names(run):
    port = harness.free_port()
    server = part(run, "serve", port)
    name = os.path.basename(sys.executable)
    one = part(run, "titled", port, OSF_RULES="application-id titled* *\n"
               "use os tcp_client *:*\napplication-id %s *\n"
               "use os tcp_client 127.0.0.1:*" % name)
    found = [(p["program"], s["reason"]) for p, s in rows(run)
             if s["peer"] == "127.0.0.1:%d" % port]
    need(run, "the name of a worker, and its rule", found, [(name, "rule")])
    end(run, one, server)


def test_pinned_peer(run):
    for env, why in (({"OSF_RULES": "use os tcp_server *:*"}, "rule"),
                     ({"OSF_SHM": "0"}, "disabled")):
        port = harness.free_port()
        server = part(run, "serve", port, **env)
        one = part(run, "client", port, 700)
        s = row(run, one.pid)
        need(run, "a pinned peer", (s["reason"], s["peer_reason"],
             s["peer_pid"]), ("peer_kernel", why, server.pid))
        run.need(s["advice"], "no advice for %s" % s["reason"])
        end(run, one, server)
        # Without osf stat's knowledge of who the peer is:
        stats = run.path("pinned-" + why)
        os.mkdir(stats)
        server = part(run, "serve", port, **env)
        end(run, part(run, "client", port, 700, OSF_STATS_DIR=stats), server)
        t = osf_stat(run, "--dir", stats)["processes"][0]["totals"]
        need(run, "the library's own word", t["reasons_all"],
             {"peer_kernel": 1})


def test_strange_peer(run):
    port = harness.free_port()
    server = part(run, "serve", port, osf=False)
    one = part(run, "client", port, 700)
    s = row(run, one.pid)
    need(run, "a peer without osf", (s["reason"], s["peer_pid"]),
         ("no_peer", server.pid))
    end(run, one, server)


def test_uring(run):
    port = harness.free_port()
    server = part(run, "serve_after_uring", port)
    if not server:
        print("no io_uring here")
        return
    one = part(run, "client", port, 700)
    need(run, "an io_uring", row(run, server.pid)["reason"], "io_uring")
    s = row(run, one.pid)
    need(run, "a peer with one", (s["reason"], s["peer_reason"]),
         ("peer_kernel", "io_uring"))
    end(run, one, server)


RAW = r"""
#include <netinet/in.h>
#include <sys/syscall.h>
#include <unistd.h>
__asm__(".section .note.go.buildid,\"a\",@note\n"
        ".long 4, 4, 4\n.ascii \"Go\\0\\0\"\n.ascii \"abcd\"\n.text\n");
static long raw(long nr, long a, const void *b, long c)
{
	long r;
	register long d __asm__("r10") = 0, e __asm__("r8") = 0;
	__asm__ volatile("syscall" : "=a"(r) : "a"(nr), "D"(a), "S"(b), "d"(c),
			 "r"(d), "r"(e) : "rcx", "r11", "memory");
	return r;
}
int main(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = PORT,
				 .sin_addr.s_addr = 0x0100007f };
	int l = raw(SYS_socket, AF_INET, (void *)SOCK_STREAM, 0);
	char buf[64];
	raw(SYS_bind, l, &a, sizeof(a));
	raw(SYS_listen, l, (void *)5, 0);
	raw(SYS_write, 1, "ready\n", 6);
	int c = raw(SYS_accept, l, 0, 0);
	long n;
	while ((n = raw(SYS_read, c, buf, sizeof(buf))) > 0)
		raw(SYS_write, c, buf, n);
	return 0;
}
"""


def test_raw_calls(run):
    if os.uname().machine != "x86_64" or not harness.find("cc"):
        print("no compiler for programs that make raw calls")
        return
    port = harness.free_port()
    path = run.path("gopher")
    subprocess.run(["cc", "-w", "-DPORT=%d" % socket.htons(port), "-o", path,
                    "-x", "c", "-"], input=RAW, text=True, check=True)
    server = subprocess.Popen([path], stdin=subprocess.PIPE, text=True,
                              stdout=subprocess.PIPE,
                              env={**run.env(), "OSF_STATS_DIR": "",
                                   "LD_PRELOAD": run.lib})
    run.procs.append(harness.Proc(server, os.devnull, "gopher"))
    need(run, "ready", server.stdout.readline(), "ready\n")
    one = part(run, "client", port, 700)
    s = row(run, one.pid)
    need(run, "a peer that makes raw calls", (s["reason"], s["peer_program"]),
         ("raw_calls", "gopher"))
    process = osf_stat(run, str(server.pid))["processes"][0]
    need(run, "and says so itself", process["makes_raw_calls"], True)
    end(run, one, server)


def ip(*args):
    subprocess.run(["ip", *args], check=True, capture_output=True)


def test_other_namespace(run):
    """A veth to another network namespace of this host."""
    if os.geteuid() or not harness.find("ip") or not harness.find("nsenter"):
        print("no right to make network namespaces")
        return
    there = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec cat"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    run.procs.append(harness.Proc(there, os.devnull, "unshare"))
    if not there.stdout.readline():
        print("no network namespaces here")
        return
    run.procs[-1].is_stopped = True
    name = "osf%d" % (os.getpid() % 100000)
    enter = ["nsenter", "-t", str(there.pid), "-n"]
    ip("link", "add", name, "type", "veth", "peer", "name", "osfpeer", "netns",
       str(there.pid))
    ip("addr", "add", "198.18.77.1/30", "dev", name)
    ip("link", "set", name, "up")
    for words in ("addr add 198.18.77.2/30 dev osfpeer", "link set osfpeer up"):
        subprocess.run(enter + ["ip"] + words.split(), check=True)
    server = part(run, "serve", 7399, "198.18.77.2", prefix=enter)
    one = part(run, "client", 7399, 700, "198.18.77.2")
    for pid, peer in ((one.pid, server.pid), (server.pid, one.pid)):
        s = row(run, pid)
        need(run, "bytes over veth", (s["rx_bytes_inet"], s["tx_bytes_inet"]),
             (7000, 7000))
        need(run, "the peer over there", (s["reason"], s["peer_pid"]),
             ("other_netns", peer))
    end(run, one, server)
    there.stdin.close()
    there.wait(10)


def main():
    run = harness.Run(__file__)
    if run.is_kernel:
        harness.skip("the statistics are osf's")
    if os.environ.get("OSF_TEST_VIA") == "osf":
        harness.skip("what starts a program does not matter here")
    if not os.path.exists(os.path.join(run.build, "osf")):
        harness.skip("no osf command")
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test(run)
    run.done()


if len(sys.argv) > 1:
    globals()[sys.argv[1]](*sys.argv[2:])
else:
    main()
