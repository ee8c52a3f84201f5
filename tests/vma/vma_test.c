/* SPDX-License-Identifier: MIT */
/*
 * tests/vma/vma_test.c - runs the tests, each in a process of its own
 *
 *     vma_test            all
 *     vma_test NAME...    those
 *
 * Prints a line for each test, and ends with 1 if one failed.  A test has 150 s: the random
 * calls over a module take up to 45 s where fifty other threads want the two cores.
 */
#include "vma_test.h"

#include <netinet/tcp.h>
#include <sys/wait.h>

#define TEST_S 150u

struct vma_api_t *api;

void expect(bool ok, const char *what, const char *file, int line)
{
	if (ok)
		return;
	fprintf(stderr, "%s:%d: not so: %s; errno %d\n", file, line, what,
		errno);
	fflush(NULL);
	_exit(1);
}

void expect_eq(long long a, long long b, const char *sa, const char *sb,
	       const char *file, int line)
{
	if (a == b)
		return;
	fprintf(stderr, "%s:%d: %s is %lld, %s is %lld; errno %d\n", file, line,
		sa, a, sb, b, errno);
	fflush(NULL);
	_exit(1);
}

bool is_protocol(const char *name)
{
	const char *p = getenv("OSF_VMA_TEST");

	return p && !strcmp(p, name);
}

static struct sockaddr_in local(int fd)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);

	EXPECT_EQ(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	return a;
}

static int bound(int type)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, type, 0);

	EXPECT(fd >= 0);
	EXPECT_EQ(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

static void named(struct ends *e)
{
	e->tx_addr = local(e->tx);
	e->rx_addr = local(e->rx);
}

struct ends tcp_ends(void)
{
	int one = 1, l = bound(SOCK_STREAM);
	struct sockaddr_in a = local(l);
	struct ends e = { .tx = socket(AF_INET, SOCK_STREAM, 0) };
	char c;

	EXPECT_EQ(listen(l, 1), 0);
	EXPECT_EQ(connect(e.tx, (struct sockaddr *)&a, sizeof(a)), 0);
	e.rx = accept(l, NULL, NULL);
	EXPECT(e.rx >= 0);
	close(l);
	setsockopt(e.tx, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	for (int i = 0; i < 40;
	     i++) { /* long enough to move to shared memory */
		EXPECT_EQ(send(e.tx, "x", 1, 0), 1);
		EXPECT_EQ(recv(e.rx, &c, 1, 0), 1);
		EXPECT_EQ(send(e.rx, "y", 1, 0), 1);
		EXPECT_EQ(recv(e.tx, &c, 1, 0), 1);
	}
	named(&e);
	return e;
}

struct ends udp_ends(void)
{
	struct ends e = { .tx = bound(SOCK_DGRAM), .rx = bound(SOCK_DGRAM) };

	named(&e);
	EXPECT_EQ(
	    connect(e.tx, (struct sockaddr *)&e.rx_addr, sizeof(e.rx_addr)), 0);
	return e;
}

void ends_close(struct ends *e)
{
	close(e->tx);
	close(e->rx);
}

void say(const struct ends *e, const void *data, size_t n)
{
	EXPECT_EQ(send(e->tx, data, n, 0), n);
}

void over_both(void (*run)(struct ends *e))
{
	struct ends t = tcp_ends(), u = udp_ends();

	run(&t);
	ends_close(&t);
	run(&u);
	ends_close(&u);
}

static bool is_wanted(const struct test *t, int argc, char **argv)
{
	bool named_one = argc < 2;

	for (int i = 1; i < argc; i++)
		named_one |= !strcmp(argv[i], t->name);
	return named_one && (t->is_bare || !is_protocol("bare"));
}

static int run_one(const struct test *t)
{
	const char *slow = getenv("OSF_VMA_SLOW"); /* by so much */
	int status;
	pid_t pid = fork();

	if (!pid) {
		alarm(TEST_S * (slow ? (unsigned)atoi(slow) : 1));
		api = vma_get_api();
		EXPECT(t->is_bare || api);
		t->run();
		exit(0);
	}
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	printf("%s %s", status ? "FAILED" : "ok", t->name);
	if (status)
		printf(" (status 0x%x)", status);
	printf("\n");
	fflush(stdout);
	return status != 0;
}

int main(int argc, char **argv)
{
	const struct test *all[] = {
		tests_table, tests_control, tests_callback, tests_inside,
		tests_zcopy, tests_sockets, tests_perf,     tests_xtreme,
		tests_rings, tests_members, tests_joined,   tests_lent,
		tests_udp,   tests_fuzz
	};
	int n_failed = 0;

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		for (const struct test *t = all[i]; t->name; t++)
			if (is_wanted(t, argc, argv))
				n_failed += run_one(t);
	return n_failed != 0;
}
