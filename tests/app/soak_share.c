/* SPDX-License-Identifier: MIT */
/*
 * tests/app/soak_share.c - processes that use one connection together
 *
 *     share_run()  far: sends back what it gets
 *                  near: this process and USERS forked children, all on the same
 *                        connection; LOOKERS only ask about it
 *
 * A process that sends or receives holds the mutex of that direction.  The mutex also
 * guards the offset, so every byte can be checked, whichever process moved it.  Nothing
 * else is ordered: one process sends while another receives, others peek, poll and ask
 * for counts, and processes start and end.
 */
#include "soak.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define USERS 3
#define LOOKERS 2
#define LOOPBACK 0x7f000001u
#define PART 20000
#define AHEAD (256u * 1024) /* unread bytes that are on their way at most */

struct direction {
	pthread_mutex_t lock;
	_Atomic uint64_t off;
};

static struct together {
	struct direction tx, rx;
	_Atomic bool stops;
	_Atomic int failed;
	_Atomic uint32_t n_users; /* that came and went */
} * all;

static int conn; /* the connection's descriptor */

static void direction_init(struct direction *d)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&d->lock, &attr);
}

static bool is_passing(ssize_t r)
{
	return r < 0 && (errno == EAGAIN || errno == EINTR);
}

/* --- moving bytes --- */

static void send_some(struct rng *r)
{
	char part[PART];
	size_t n = rng_size(r, sizeof(part));
	bool waits = rng_one_in(r, 4);

	pthread_mutex_lock(&all->tx.lock);
	if (all->tx.off - all->rx.off < AHEAD) {
		pattern_fill(pattern_key(seed, 1, 0), all->tx.off, part, n);
		ssize_t sent = send(conn, part, n,
				    MSG_NOSIGNAL | (waits ? 0 : MSG_DONTWAIT) |
					(rng_one_in(r, 16) ? MSG_MORE : 0));
		if (sent < 0 && !is_passing(sent))
			die("sending at %llu: %s",
			    (unsigned long long)all->tx.off, strerror(errno));
		all->tx.off += sent > 0 ? (uint64_t)sent : 0;
	}
	pthread_mutex_unlock(&all->tx.lock);
}

static void check(const char *part, ssize_t got, const char *how)
{
	uint64_t off = all->rx.off;

	if (!got || (got < 0 && !is_passing(got)))
		die("%s at %llu: %s", how, (unsigned long long)off,
		    got ? strerror(errno) : "end of stream");
	if (got > 0 && pattern_check(pattern_key(seed, 1, 0), off, part,
				     (size_t)got) != (size_t)got)
		die("wrong bytes, %s at %llu", how, (unsigned long long)off);
}

static void receive_some(struct rng *r)
{
	char part[PART];
	size_t n = rng_size(r, sizeof(part));

	pthread_mutex_lock(&all->rx.lock);
	if (rng_one_in(r, 8))
		check(part, recv(conn, part, n, MSG_PEEK | MSG_DONTWAIT),
		      "peeking");
	/* There is something to wait for. */
	bool waits = all->tx.off > all->rx.off && rng_one_in(r, 4);
	ssize_t got = recv(conn, part, n, waits ? 0 : MSG_DONTWAIT);
	check(part, got, "receiving");
	all->rx.off += got > 0 ? (uint64_t)got : 0;
	pthread_mutex_unlock(&all->rx.lock);
}

/* In any order with all others. */
static void look(struct rng *r)
{
	struct pollfd p = { .fd = conn, .events = POLLIN | POLLOUT };
	int n = 0;

	if (rng_one_in(r, 2))
		p.events = POLLIN;
	if (poll(&p, 1, (int)rng_below(r, 3)) > 0 &&
	    p.revents & (POLLERR | POLLHUP | POLLRDHUP))
		die("poll says 0x%x", p.revents);
	if (ioctl(conn, FIONREAD, &n) || n < 0)
		die("FIONREAD says %d: %s", n, strerror(errno));
}

static void use(struct rng *r, uint64_t end_us)
{
	while (!all->stops && !all->failed && now_us() < end_us) {
		unsigned what = (unsigned)rng_below(r, 8);

		if (what < 3)
			send_some(r);
		else if (what < 7)
			receive_some(r);
		else
			look(r);
	}
}

/* --- processes --- */

static pid_t user_start(bool is_looker)
{
	static uint64_t salt;
	struct rng r = { seed * 1000 + ++salt };
	pid_t pid = fork();

	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (pid)
		return pid;
	failed = &all->failed;
	uint64_t end = now_us() + 20000 + rng_below(&r, 300000);
	while (is_looker && !all->stops && now_us() < end)
		look(&r);
	if (!is_looker)
		use(&r, end);
	if (rng_one_in(&r, 2))
		close(conn);
	_exit(all->failed != FAILED_NOT);
}

static bool is_running(pid_t pid)
{
	int status;

	if (!pid || waitpid(pid, &status, WNOHANG) != pid)
		return pid;
	if (status)
		die("a child ended with status 0x%x", status);
	all->n_users++;
	return false;
}

/* This process uses the connection too, and forks who does. */
static void near_run(uint64_t end_us)
{
	pid_t pids[USERS + LOOKERS] = { 0 };
	struct rng r = { seed };

	while (now_us() < end_us) {
		for (int i = 0; i < USERS + LOOKERS; i++) {
			if (!is_running(pids[i]))
				pids[i] = user_start(i >= USERS);
		}
		use(&r, now_us() + 1000 + rng_below(&r, 60000));
	}
	all->stops = true;
	for (int i = 0; i < USERS + LOOKERS; i++)
		part_wait(pids[i], "a user", HANG_S);
}

/* Sends back what comes, until the end. */
static int far_run(int listener)
{
	static char part[65536];
	int fd = accept(listener, NULL, NULL);

	for (;;) {
		ssize_t n = recv(fd, part, sizeof(part), 0);

		if (n == 0)
			return 0;
		if (n < 0)
			die("the far end: %s", strerror(errno));
		send_all(fd, part, (size_t)n);
	}
}

static void drain(void)
{
	struct rng r = { 1 };
	uint64_t end = now_us() + HANG_S * 1000000ull;

	while (all->rx.off < all->tx.off) {
		if (now_us() > end)
			die("hang: %llu of %llu bytes came back",
			    (unsigned long long)all->rx.off,
			    (unsigned long long)all->tx.off);
		receive_some(&r);
	}
}

int share_run(unsigned seconds)
{
	uint16_t port = 0;
	int listener = listener_open(LOOPBACK, &port);
	pid_t far = fork();

	if (!far)
		_exit(far_run(listener));
	close(listener);
	all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED)
		die("no memory");
	failed = &all->failed;
	direction_init(&all->tx);
	direction_init(&all->rx);
	conn = connect_to(LOOPBACK, port);
	struct rng r = { seed };
	use(&r, now_us() + 200000); /* it is upgraded by then */
	uint64_t start = now_us();
	near_run(start + seconds * 1000000ull);
	drain();
	close(conn);
	part_wait(far, "the far end", HANG_S);
	if (all->failed)
		return 1;
	printf("soak share: ok: seed %llu, %.1f s, %u processes, %.1f MB, "
	       "0 wrong, 0 hangs\n",
	       (unsigned long long)seed, (double)(now_us() - start) / 1e6,
	       all->n_users, (double)all->rx.off / 1e6);
	return 0;
}
