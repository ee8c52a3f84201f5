/* SPDX-License-Identifier: MIT */
/*
 * tests/app/stress_conn.c - one connection of the stress test
 *
 *     plan_make() -> conn_connect()            client
 *     conn_accepted() -> conn_read_plan()      server
 *            then steps (stress_loop.c) -> conn_finish()
 *
 * The plan of a connection says which end may reset it; a reset by the other end is a
 * failure.  The registry of open connections exists for the watchdog.
 *
 * Runs on the worker that owns the connection.
 */
#include "stress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pattern.h"

#define TURNS_MAX 200
#define TINY_BYTES 8192u /* a connection with tiny buffers moves this much */

static struct conn *registry[CONNS_MAX];
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;

/* --- plans --- */

/* Bytes of message @i; both ends compute it. */
static uint64_t turn_bytes(const struct plan *p, int direction, uint32_t i)
{
	static const size_t tops[] = { 64, 4096, MSG_MAX };
	uint64_t key = pattern_key(~p->seed, p->id, direction);
	struct rng r = { pattern_word(key, i) };
	size_t top = tops[p->id / 4 % 3];

	if (p->flags & PLAN_TINY && top > 256)
		top = 256;
	return rng_size(&r, top);
}

static void plan_turns(struct plan *p, uint64_t budget, uint32_t n)
{
	p->bytes[0] = p->bytes[1] = 0;
	for (p->n_turns = 0; p->n_turns < n; p->n_turns++) {
		if (p->n_turns && p->bytes[0] + p->bytes[1] > budget)
			break;
		p->bytes[0] += turn_bytes(p, 0, p->n_turns);
		p->bytes[1] += turn_bytes(p, 1, p->n_turns);
	}
}

static void plan_make(struct plan *p, uint32_t id)
{
	struct rng r = { pattern_key(opt.seed, id, 0) ^ 0x706c616e };
	uint64_t budget = opt.bytes;

	*p = (struct plan){ .magic = PLAN_MAGIC, .seed = opt.seed, .id = id };
	if (rng_one_in(&r, 32)) {
		p->flags |= PLAN_TINY;
		budget = budget < TINY_BYTES ? budget : TINY_BYTES;
	}
	if (rng_one_in(&r, 4))
		p->flags |= PLAN_CLIENT_WAITS;
	else if (rng_one_in(&r, 4))
		p->flags |= PLAN_SERVER_WAITS;
	for (int d = 0; d < 2; d++)
		p->bytes[d] = rng_one_in(&r, 12) ? 0 : rng_size(&r, budget);
	if (rng_one_in(&r, 2)) {
		p->flags |= PLAN_TURNS;
		plan_turns(p, budget, 1 + (uint32_t)rng_below(&r, TURNS_MAX));
	}
	if (rng_one_in(&r, 8) && !opt.no_aborts) {
		int by = (int)rng_below(&r, 2);

		p->flags |= by ? PLAN_SERVER_ABORTS : PLAN_CLIENT_ABORTS;
		p->abort_at = rng_below(&r, p->bytes[by] + 1);
	}
}

/* Sets up both halves once the plan is known. */
static void plan_begin(struct conn *c)
{
	const struct plan *p = &c->plan;
	int out = c->is_server;

	c->tx.total = p->bytes[out];
	c->rx.total = p->bytes[!out];
	c->tx.key = pattern_key(p->seed, p->id, out);
	c->rx.key = pattern_key(p->seed, p->id, !out);
	store_rlx(&c->tx.limit, c->tx.total);
	store_rlx(&c->rx.limit, c->rx.total);
	if (p->flags & PLAN_TURNS) {
		store_rlx(&c->tx.limit, out ? 0 : turn_bytes(p, 0, 0));
		store_rlx(&c->rx.limit, turn_bytes(p, !out, 0));
	}
}

/* When a message has been answered, the next one may go. */
void conn_turn(struct conn *c)
{
	const struct plan *p = &c->plan;

	if (!(p->flags & PLAN_TURNS) || c->i_turn >= p->n_turns ||
	    load_rlx(&c->rx.off) != load_rlx(&c->rx.limit) ||
	    load_rlx(&c->tx.off) != load_rlx(&c->tx.limit))
		return;

	uint32_t tx_i = c->is_server ? c->i_turn : c->i_turn + 1;
	uint32_t rx_i = c->i_turn + 1;
	c->i_turn++;
	if (tx_i < p->n_turns)
		store_rlx(&c->tx.limit, load_rlx(&c->tx.limit) +
					    turn_bytes(p, c->is_server, tx_i));
	if (rx_i < p->n_turns)
		store_rlx(&c->rx.limit, load_rlx(&c->rx.limit) +
					    turn_bytes(p, !c->is_server, rx_i));
}

/* May the peer reset it? */
bool conn_may_abort(const struct conn *c)
{
	return c->plan.flags &
	       (c->is_server ? PLAN_CLIENT_ABORTS : PLAN_SERVER_ABORTS);
}

bool conn_aborts_now(const struct conn *c)
{
	int mine = c->is_server ? PLAN_SERVER_ABORTS : PLAN_CLIENT_ABORTS;

	return c->plan.flags & mine && load_rlx(&c->tx.off) >= c->plan.abort_at;
}

/* --- registry and reports --- */

static void conn_register(struct conn *c)
{
	pthread_mutex_lock(&registry_lock);
	c->slot = -1;
	for (int i = 0; i < CONNS_MAX && c->slot < 0; i++)
		if (!registry[i])
			registry[c->slot = i] = c;
	pthread_mutex_unlock(&registry_lock);
	if (c->slot < 0)
		die("more than %d connections", CONNS_MAX);
}

static void half_print(const char *name, const struct half *h)
{
	fprintf(stderr, " %s %llu/%llu/%llu%s%s err %d", name,
		(unsigned long long)load_rlx(&h->off),
		(unsigned long long)load_rlx(&h->limit),
		(unsigned long long)h->total, load_rlx(&h->done) ? " done" : "",
		h->blocked ? " blocked" : "", load_rlx(&h->error));
	fprintf(stderr, " (%s)", h->call ? h->call : "no call yet");
}

static void conn_print(const struct conn *c)
{
	int avail = -1;
	struct pollfd pfd = { .fd = load_rlx(&c->fd),
			      .events = POLLIN | POLLOUT | POLLRDHUP };

	poll(&pfd, 1, 0);
	ioctl(pfd.fd, FIONREAD, &avail);
	fprintf(stderr, "  conn %u %s %s fd %d/%d%s flags 0x%x turn %u/%u",
		c->plan.id, c->is_server ? "server" : "client",
		kind_names[c->kind], pfd.fd, load_rlx(&c->fd_tx),
		c->family == AF_INET ? " v4" : " v6", c->plan.flags, c->i_turn,
		c->plan.n_turns);
	half_print("rx", &c->rx);
	half_print("tx", &c->tx);
	fprintf(stderr, " now: poll 0x%x, unread %d\n", pfd.revents, avail);
}

unsigned conns_open(void)
{
	unsigned n = 0;

	pthread_mutex_lock(&registry_lock);
	for (int i = 0; i < CONNS_MAX; i++)
		n += registry[i] != NULL;
	pthread_mutex_unlock(&registry_lock);
	return n;
}

void conns_dump(void)
{
	if (pthread_mutex_trylock(&registry_lock))
		return;
	for (int i = 0; i < CONNS_MAX; i++)
		if (registry[i])
			conn_print(registry[i]);
	pthread_mutex_unlock(&registry_lock);
}

static void print_repeat(void)
{
	fprintf(stderr,
		"  repeat: stress --seed %llu --bytes %llu --seconds %u "
		"--conns %u --threads %u --rounds %u --mode %s\n",
		(unsigned long long)opt.seed, (unsigned long long)opt.bytes,
		opt.seconds, opt.conns, opt.threads, opt.rounds,
		opt.kind < 0 ? "any" : kind_names[opt.kind]);
}

void conn_fail(const struct conn *c, const char *fmt, ...)
{
	va_list ap;

	flockfile(stderr);
	fprintf(stderr, "stress: FAIL: conn %u: ", c->plan.id);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	conn_print(c);
	print_repeat();
	_exit(1);
}

void die(const char *fmt, ...)
{
	va_list ap;

	flockfile(stderr);
	fprintf(stderr, "stress: FAIL: ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	print_repeat();
	_exit(1);
}

/* --- opening --- */

static struct conn *conn_new(int fd, struct io *io, enum kind kind)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c)
		die("no memory");
	c->fd = c->fd_tx = fd;
	c->kind = kind;
	c->trusts_short = kind == KIND_EDGE && rng_one_in(&io->rng, 2);
	if (rng_one_in(&io->rng, 4))
		c->fd_tx = dup(fd);
	if (c->fd_tx < 0)
		die("dup: %s", strerror(errno));
	return c;
}

void conn_set_nonblock(struct conn *c, bool on)
{
	int value = on;

	if (c->plan.id % 2) {
		if (ioctl(c->fd, FIONBIO, &value))
			conn_fail(c, "FIONBIO: %s", strerror(errno));
	} else {
		int fl = fcntl(c->fd, F_GETFL);

		fl = on ? fl | O_NONBLOCK : fl & ~O_NONBLOCK;
		if (fcntl(c->fd, F_SETFL, fl))
			conn_fail(c, "F_SETFL: %s", strerror(errno));
	}
	c->nonblock = on;
}

static void fd_options(int fd, struct rng *r, const struct plan *p)
{
	int one = 1, tiny = 1;

	/* Many small messages without it wait for delayed acknowledgements. */
	if (!p || p->n_turns > 10 || rng_one_in(r, 2))
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (p && p->flags & PLAN_TINY) {
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &tiny, sizeof(tiny));
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &tiny, sizeof(tiny));
	}
}

/* The address of listener @i as a socket of @family names it. */
static socklen_t address(int i, int family, struct sockaddr_storage *ss)
{
	struct sockaddr_in *v4 = (void *)ss;
	struct sockaddr_in6 *v6 = (void *)ss;

	memset(ss, 0, sizeof(*ss));
	ss->ss_family = (sa_family_t)family;
	if (family == AF_INET) {
		v4->sin_port = htons(opt.port[i]);
		v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		return sizeof(*v4);
	}
	v6->sin6_port = htons(opt.port[i]);
	inet_pton(AF_INET6, i == 1 ? "::1" : "::ffff:127.0.0.1",
		  &v6->sin6_addr);
	return sizeof(*v6);
}

static int connect_wait(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };
	int err = 0;
	socklen_t len = sizeof(err);

	while (poll(&pfd, 1, -1) < 0)
		if (errno != EINTR)
			return -errno;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len))
		return -errno;
	return -err;
}

/* Which socket talks to which listener: v4, v6, mapped to v4, v4 to mapped. */
static int connect_fd(struct io *io, const struct plan *p, int *family)
{
	static const struct {
		int family, listener;
	} pairs[] = {
		{ AF_INET, 0 }, { AF_INET6, 1 }, { AF_INET6, 0 }, { AF_INET, 2 }
	};
	int i = (int)rng_below(&io->rng, 4), flags = 0;
	struct sockaddr_storage ss;

	*family = pairs[i].family;
	socklen_t len = address(pairs[i].listener, *family, &ss);
	if (rng_one_in(&io->rng, 2))
		flags = SOCK_NONBLOCK;
	int fd = socket(*family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	if (fd < 0)
		die("socket: %s", strerror(errno));
	fd_options(fd, &io->rng, p);
	int err = connect(fd, (void *)&ss, len) ? -errno : 0;
	if (err == -EINPROGRESS || err == -EINTR)
		err = connect_wait(fd);
	if (!err)
		return fd;
	close(fd);
	return err;
}

struct conn *conn_connect(struct io *io, uint32_t id, enum kind kind)
{
	struct plan plan;
	int family, fd;

	plan_make(&plan, id);
	if (id == UINT32_MAX)
		plan = (struct plan){ .magic = PLAN_MAGIC,
				      .id = id,
				      .flags = PLAN_STOP };
	/* Ports run out when many connections closed: a minute is the wait. */
	for (int tries = 0;; tries++) {
		fd = connect_fd(io, &plan, &family);
		if (fd != -EADDRNOTAVAIL || tries > 700)
			break;
		atomic_fetch_add(&progress, 1);
		usleep(100000);
	}
	if (fd < 0)
		die("connect: %s", strerror(-fd));

	struct conn *c = conn_new(fd, io, kind);
	c->family = family;
	c->plan = plan;
	c->plan_got = sizeof(plan);
	conn_register(c);
	plan_begin(c);
	if (send(fd, &plan, sizeof(plan), 0) != sizeof(plan))
		conn_fail(c, "send of the plan: %s", strerror(errno));
	conn_set_nonblock(c, kind != KIND_BLOCK);
	return c;
}

struct conn *conn_accepted(int fd, struct io *io, enum kind kind)
{
	struct conn *c = conn_new(fd, io, kind);

	c->is_server = true;
	c->plan.flags = PLAN_CLIENT_ABORTS; /* it may, until we know */
	fd_options(fd, &io->rng, NULL);
	conn_register(c);
	return c;
}

static void stop_asked(struct conn *c)
{
	store_rlx(&stop_fd, dup(c->fd));
	atomic_store(&is_stopping, true);
	store_rlx(&c->rx.done, true);
	workers_wake();
}

/* Return: false on EAGAIN; the plan is complete when plan_got says so. */
bool conn_read_plan(struct io *io, struct conn *c)
{
	size_t want = sizeof(c->plan) - c->plan_got;
	struct plan *p = (void *)io->peeked;
	ssize_t r = recv(c->fd, (char *)p + c->plan_got, want, 0);

	if (r < 0 && (errno == EAGAIN || errno == EINTR))
		return errno == EINTR;
	if (r < 0 && errno == ECONNRESET) {
		store_rlx(&c->rx.error, ECONNRESET);
		store_rlx(&c->rx.done, true);
		return true;
	}
	if (r <= 0)
		conn_fail(c, "receiving the plan: %zd, %s", r, strerror(errno));
	/* Kept in pieces in c->plan's own place once whole. */
	memcpy((char *)&c->plan + c->plan_got, (char *)p + c->plan_got,
	       (size_t)r);
	c->plan_got += (size_t)r;
	if (c->plan_got < sizeof(c->plan))
		return true;
	if (c->plan.magic != PLAN_MAGIC)
		conn_fail(c, "the plan's first bytes are wrong");
	if (c->plan.flags & PLAN_STOP)
		stop_asked(c);
	else
		plan_begin(c);
	return true;
}

/* --- closing --- */

/* All is sent: close our direction now, or with the descriptor. */
void conn_tx_ended(struct io *io, struct conn *c)
{
	int waits = c->is_server ? PLAN_SERVER_WAITS : PLAN_CLIENT_WAITS;

	if (load_rlx(&c->tx.done) || c->plan.flags & (PLAN_STOP | waits))
		return;
	if (load_rlx(&c->rx.done) && rng_one_in(&io->rng, 2))
		return;
	if (shutdown(c->fd_tx, SHUT_WR) &&
	    !(errno == ENOTCONN && conn_may_abort(c)))
		conn_fail(c, "shutdown: %s", strerror(errno));
	store_rlx(&c->tx.done, true);
}

bool conn_is_over(const struct conn *c)
{
	if (load_rlx(&c->aborts) || load_rlx(&c->rx.error))
		return true;
	if (!load_rlx(&c->rx.done))
		return false;
	return load_rlx(&c->rx.off) < c->rx.total || load_rlx(&c->tx.done) ||
	       load_rlx(&c->tx.off) == c->tx.total;
}

static void conn_judge(struct conn *c)
{
	bool clean =
	    !(c->plan.flags & (PLAN_CLIENT_ABORTS | PLAN_SERVER_ABORTS));
	char byte;

	if (clean && (load_rlx(&c->rx.off) != c->rx.total ||
		      load_rlx(&c->tx.off) != c->tx.total))
		conn_fail(c, "over too early");
	if (!clean && !load_rlx(&c->aborts) && !load_rlx(&c->rx.error) &&
	    !load_rlx(&c->tx.error) && load_rlx(&c->rx.off) < c->rx.total)
		conn_fail(c, "early end of stream and no error");
	if (clean && recv(c->fd, &byte, 1, MSG_DONTWAIT) != 0)
		conn_fail(c, "end of stream did not stay: %s", strerror(errno));

	pthread_mutex_lock(&totals_lock);
	totals.conns += clean;
	totals.rx += clean ? c->rx.total : 0;
	totals.tx += clean ? c->tx.total : 0;
	totals.aborted += !clean;
	pthread_mutex_unlock(&totals_lock);
}

void conn_finish(struct conn *c)
{
	struct linger now = { .l_onoff = 1 };

	if (!(c->plan.flags & PLAN_STOP))
		conn_judge(c);
	pthread_mutex_lock(&registry_lock);
	registry[c->slot] = NULL;
	pthread_mutex_unlock(&registry_lock);

	if (load_rlx(&c->aborts))
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	if (c->fd_tx != c->fd)
		close(c->fd_tx);
	close(c->fd);
	free(c);
}
