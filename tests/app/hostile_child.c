/* SPDX-License-Identifier: MIT */
/*
 * tests/app/hostile_child.c - a forked child that dropped its privileges scribbles
 * over all memory that it shares with its parent
 *
 *     hostile_child ROUNDS [SEED [MS]]
 *
 *     far     sends back what it gets, and ignores connections that are reset
 *     parent  uses its connections by every kind of call; each has to return
 *     child   after fork(): another user; random words into random places of what
 *             it inherited: the pages of shared sockets, counts, claims, statistics
 *
 * A process that changes its user by setuid() leaves its parent's memory first.  So this
 * child asks the kernel behind osf's back, as one does that an attacker has taken over.
 * MS: how long a round's attack lasts.
 *
 * What the connection of a round answers does not matter: the child held it.  The
 * parent must live, no call on a non-blocking descriptor may take LONGEST_MS (less what
 * the thread has waited for a core, as the kernel counts it), and a connection that it
 * makes after the round must carry the right bytes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/rawcall.h"
#include "lost_core.h"
#include "pattern.h"

#define LONGEST_MS 3000 /* a few, where no other program wants the core */
#define WARM_TURNS 60
#define N_CONNS 3
#define NOBODY 65534
#define RANGES 256

static uint64_t rng_state;
static uint64_t round_ms = 60;

static uint64_t rng(void)
{
	rng_state += 0x9e3779b97f4a7c15ull;
	return pattern_mix(pattern_mix(rng_state));
}

static __attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt,
								...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "hostile_child: FAIL: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	exit(1);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* --- the far end --- */

static void echo(int fd)
{
	char part[4096];
	ssize_t n;

	while ((n = recv(fd, part, sizeof(part), 0)) > 0)
		if (send(fd, part, (size_t)n, MSG_NOSIGNAL) < 0)
			break;
	_exit(0);
}

/* A process for each connection: what one loses does not matter to others. */
static void far_run(int listener)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		int fd = accept(listener, NULL, NULL);

		if (fd >= 0 && !fork()) {
			close(listener);
			echo(fd);
		}
		close(fd);
	}
}

/* --- the child --- */

static struct range {
	uintptr_t from, to;
} ranges[RANGES];
static int n_ranges;

/* The memory that the library shares with forked children.  The peer may write segments of
 * connections, too; tests/app/faults_hostile.c is about those. */
static void find_ranges(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512], how[8];

	n_ranges = 0;
	while (f && fgets(line, sizeof(line), f) && n_ranges < RANGES) {
		struct range *r = &ranges[n_ranges];

		if (sscanf(line, "%lx-%lx %7s", &r->from, &r->to, how) == 3 &&
		    !strcmp(how, "rw-s") &&
		    (strstr(line, "/dev/zero") || strstr(line, "osf-stats")))
			n_ranges++;
	}
	if (f)
		fclose(f);
}

/* Small numbers mean more than others. */
static uint32_t lie(void)
{
	switch (rng() % 5) {
	case 0:
		return (uint32_t)rng();
	case 1:
		return (uint32_t)(rng() % 65536) & ~63u;
	case 2:
		return (uint32_t)getppid();
	case 3:
		return (uint32_t)(rng() % 2 ? 0 : -1);
	default:
		return (uint32_t)(rng() % 8);
	}
}

static bool becomes_nobody(void)
{
	return !rawcall(SYS_setgroups, 0, NULL) &&
	       !rawcall(SYS_setresgid, NOBODY, NOBODY, NOBODY) &&
	       !rawcall(SYS_setresuid, NOBODY, NOBODY, NOBODY) &&
	       geteuid() == NOBODY;
}

static void scribble(int round)
{
	rng_state += (uint64_t)round * 77;
	find_ranges();
	if (!n_ranges || (!geteuid() && !becomes_nobody()))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user clears it */
	for (;;) {
		const struct range *r = &ranges[rng() % (uint64_t)n_ranges];
		/* Mostly near the start of a page, where things are. */
		uintptr_t page =
		    r->from + rng() % ((r->to - r->from) / 4096) * 4096;
		uintptr_t off = rng() % (rng() % 4 ? 1024 : 4096);

		__atomic_store_n((uint32_t *)(page + (off & ~3ul)), lie(),
				 __ATOMIC_RELAXED);
		if (round % 2) /* not too much at once */
			for (uint64_t i = rng() % 20000; i; i--)
				__asm__ volatile("");
	}
}

/* --- the parent --- */

static struct sockaddr_in far_addr;

static int dial(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (void *)&far_addr, sizeof(far_addr)))
		die("connect: %s", strerror(errno));
	return fd;
}

static void turns(int fd, int n)
{
	char part[64], back[64];

	for (int i = 0; i < n; i++) {
		uint64_t key = pattern_key(1, 1, 0);

		pattern_fill(key, (uint64_t)i, part, sizeof(part));
		if (send(fd, part, sizeof(part), MSG_NOSIGNAL) != sizeof(part))
			die("send: %s", strerror(errno));
		if (recv(fd, back, sizeof(back), MSG_WAITALL) != sizeof(back))
			die("recv: %s", strerror(errno));
		if (memcmp(part, back, sizeof(part)))
			die("wrong bytes on a connection of the parent alone");
	}
}

static void one_call(int fd, unsigned which)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT };
	char part[3000] = { 0 };
	int n = 0, one = (int)(rng() % 2);
	socklen_t len = sizeof(n);
	size_t some = 1 + rng() % sizeof(part);

	switch (which) {
	case 0:
	case 1:
		send(fd, part, some, MSG_NOSIGNAL);
		break;
	case 2:
	case 3:
		recv(fd, part, some, 0);
		break;
	case 4:
		recv(fd, part, some, MSG_PEEK);
		break;
	case 5:
		poll(&p, 1, 0);
		break;
	case 6:
		ioctl(fd, FIONREAD, &n);
		break;
	case 7:
		setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &one,
			   sizeof(one));
		break;
	case 8:
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &n, &len);
		break;
	default:
		fcntl(fd, F_SETFL, O_NONBLOCK);
	}
}

static void timed(int fd, unsigned which, uint64_t *longest)
{
	uint64_t lost = lost_core_us(), start = now_ms();

	one_call(fd, which);
	uint64_t took = now_ms() - start;
	lost = (lost_core_us() - lost) / 1000;
	took = took > lost ? took - lost : 0;
	*longest = took > *longest ? took : *longest;
	if (took > LONGEST_MS)
		die("call %u took %llu ms", which, (unsigned long long)took);
}

static void round_run(int round, uint64_t *longest)
{
	int fds[N_CONNS], status;

	for (int i = 0; i < N_CONNS; i++) {
		fds[i] = dial();
		turns(fds[i], i == 1 ? 0 : WARM_TURNS);
		fcntl(fds[i], F_SETFL, O_NONBLOCK);
	}
	pid_t child = fork();
	if (!child)
		scribble(round);
	uint64_t end = now_ms() + round_ms;
	while (now_ms() < end)
		timed(fds[rng() % N_CONNS], (unsigned)(rng() % 10), longest);
	if (round % 3 == 0) /* once more, while it lives */
		shutdown(fds[0], SHUT_WR);
	if (round % 4 == 0)
		close(fds[0]);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	if (WIFEXITED(status))
		die("the child could not begin");
	for (int i = round % 4 == 0; i < N_CONNS; i++)
		close(fds[i]);
	int fresh = dial();
	turns(fresh, WARM_TURNS);
	close(fresh);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 10;
	uint64_t longest = 0;
	socklen_t len = sizeof(far_addr);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	rng_state = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	round_ms = argc > 3 ? strtoull(argv[3], NULL, 0) : round_ms;
	far_addr =
	    (struct sockaddr_in){ .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (bind(listener, (void *)&far_addr, len) || listen(listener, 100) ||
	    getsockname(listener, (void *)&far_addr, &len))
		die("listener: %s", strerror(errno));
	pid_t far = fork();
	if (!far)
		far_run(listener);
	close(listener);
	for (int i = 0; i < rounds; i++)
		round_run(i, &longest);
	kill(far, SIGKILL);
	printf("hostile_child: ok: %d rounds, the longest call %llu ms\n",
	       rounds, (unsigned long long)longest);
	return 0;
}
