/* SPDX-License-Identifier: MIT */
/*
 * tests/port/lo.c - lo as a port: both ends of a connection at one host
 *
 *     lo OSFD OSF LIBOSF
 *     lo fill             the program that the last test runs under osf
 *
 * One end may be our TCP's while the other is the kernel's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "osfd_run.h"
#include "unit.h"
#include "world.h"

#define TURNS 40
#define PATIENCE_MS 5000

static struct world world;
static const char *osf_path, *self;

static void pair_here(const char *addr, struct pair *p)
{
	bool is_v6 = strchr(addr, ':');
	struct sockaddr_storage at = world_addr(HERE, is_v6, 0);
	socklen_t len = addr_len(&at);
	void *ip = is_v6 ? (void *)&((struct sockaddr_in6 *)&at)->sin6_addr
			 : (void *)&((struct sockaddr_in *)&at)->sin_addr;

	assert_int_equal(inet_pton(at.ss_family, addr, ip), 1);
	int l = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(l, (void *)&at, len), 0);
	assert_int_equal(listen(l, 1), 0);
	assert_int_equal(getsockname(l, (void *)&at, &len), 0);
	p->end[HERE] = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(p->end[HERE], (void *)&at, len), 0);
	p->end[THERE] = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	assert_true(p->end[THERE] >= 0);
	close(l);
}

static void turn(const struct pair *p)
{
	int one = 1;
	char c;

	for (enum place at = HERE; at <= THERE; at++) {
		setsockopt(p->end[at], IPPROTO_TCP, TCP_NODELAY, &one,
			   sizeof(one));
		assert_int_equal(send(p->end[at], "a", 1, 0), 1);
		assert_int_equal(recv(p->end[!at], &c, 1, 0), 1);
	}
}

/* Until the kernel owes no ACK and waits for none. */
static int freeze_soon(struct program *prog, int fd, struct reply *r)
{
	int err = -EAGAIN;

	for (int ms = 0; err == -EAGAIN && ms < PATIENCE_MS; ms++) {
		err = program_freeze(prog, fd, r);
		if (err == -EAGAIN)
			poll(NULL, 0, 1);
	}
	return err;
}

/* The kernel drops frames between two of its own addresses that others send. */
static void ipv4_over_lo_needs_two_sysctls(void **state)
{
	static const struct {
		const char *addr, *set;
		int err;
	} steps[] = {
		{ "127.0.0.1", "accept_local=0", -EADDRNOTAVAIL },
		{ "10.9.0.1", "accept_local=0", -EADDRNOTAVAIL },
		{ "fd09::1", "accept_local=0", 0 },
		{ "127.0.0.1", "accept_local=1", -EADDRNOTAVAIL },
		{ "10.9.0.1", "accept_local=1", 0 },
		{ "127.0.0.1", "route_localnet=1", 0 },
	};
	struct program prog;
	struct reply r;

	program_open_at(&prog, "lo");
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		struct pair p;

		must_run("sysctl -qw net.ipv4.conf.lo.%s", steps[i].set);
		pair_here(steps[i].addr, &p);
		turn(&p);
		assert_int_equal(freeze_soon(&prog, p.end[HERE], &r),
				 steps[i].err);
		if (!steps[i].err)
			assert_int_equal(
			    program_thaw(&prog, p.end[HERE], &r.frozen), 0);
		turn(&p);
		pair_close(&p);
	}
	program_close(&prog);
	must_run("sysctl -qw net.ipv4.conf.lo.accept_local=0 "
		 "net.ipv4.conf.lo.route_localnet=0");
}

/* Fills a connection from its far end, then reads it, all in one thread. */
static size_t fill_and_read(const struct pair *p)
{
	static char buf[65536];
	struct pollfd room = { p->end[THERE], POLLOUT, 0 };
	struct pollfd bytes = { p->end[HERE], POLLIN, 0 };
	size_t sent = 0, left;
	ssize_t n;

	fcntl(p->end[THERE], F_SETFL, O_NONBLOCK);
	do {
		while ((n = send(p->end[THERE], buf, sizeof(buf), 0)) > 0)
			sent += (size_t)n;
	} while (poll(&room, 1, 100) == 1);
	for (left = sent; left; left -= (size_t)n) {
		if (poll(&bytes, 1, PATIENCE_MS) != 1)
			break;
		n = recv(p->end[HERE], buf, sizeof(buf), 0);
		if (n <= 0)
			break;
	}
	if (left)
		printf("%zu of %zu bytes did not come\n", left, sent);
	return left;
}

static int fill(void)
{
	static const char *const addrs[] = { "127.0.0.1", "10.9.0.1",
					     "fd09::1" };
	size_t lost = 0;

	for (size_t i = 0; i < ARRAY_LEN(addrs); i++) {
		struct pair p;

		pair_here(addrs[i], &p);
		for (int n = 0; n < TURNS; n++)
			turn(&p);
		lost += fill_and_read(&p);
		pair_close(&p);
	}
	return lost ? 1 : 0;
}

static void one_thread_fills_a_connection_and_reads_it(void **state)
{
	for (int is_on = 0; is_on < 2; is_on++) {
		must_run("sysctl -qw net.ipv4.conf.lo.accept_local=%d "
			 "net.ipv4.conf.lo.route_localnet=%d",
			 is_on, is_on);
		must_run(
		    "OSF_RULES='use tcp tcp_client *:*; use tcp tcp_server "
		    "*:*' %s run -- %s fill",
		    osf_path, self);
	}
}

static int setup(void **state)
{
	osfd_run(&world);
	must_run("%s port add lo", osf_path);
	return 0;
}

static int teardown(void **state)
{
	osfd_kill(SIGTERM);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ipv4_over_lo_needs_two_sysctls),
		cmocka_unit_test(one_thread_fills_a_connection_and_reads_it),
	};

	if (argc == 2 && strcmp(argv[1], "fill") == 0)
		return fill();
	if (argc != 4)
		return 1;
	self = argv[0];
	osfd_path = argv[1];
	osf_path = argv[2];
	setenv("OSF_LIB", argv[3], 1);
	world_open(&world);
	int failed = cmocka_run_group_tests(tests, setup, teardown);
	osfd_forget(&world);
	return failed;
}
