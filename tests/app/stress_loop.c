/* SPDX-License-Identifier: MIT */
/*
 * tests/app/stress_loop.c - workers: who waits how for which connection
 *
 *     worker_main() -> batch_block()    a thread or two per connection: stress_block.c
 *                   -> batch_events()   epoll (three ways), poll or select
 *                          wait -> step() -> io_rx(), io_tx()
 *
 * A worker takes a batch of connections, picks a way of waiting, and stays with
 * it until the batch is over; servers accept while the batch lasts.  Waits have
 * no timeout as a rule, so a wake-up that is lost becomes a hang and the
 * watchdog (stress.c) reports it.
 *
 * A meddler thread disturbs: it changes epoll sets under the waiting worker and
 * sends it signals.
 *
 * Locks: worker->lock guards its list of connections, their epoll registrations
 * and conn.events, conn.wants_rearm; taken by its worker and the meddler.
 */
#include "stress.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "pattern.h"

#define WORKERS_MAX 64
#define BLOCK_MAX 8 /* connections of a batch that has threads for each */
#define EVENTS_MAX 32
#define MEDDLE_NS 2000000

const char *const kind_names[KINDS] = { "block",   "level", "edge",
					"oneshot", "poll",  "select" };

enum epoll_style {
	STYLE_ONE,    /* one set */
	STYLE_TWO,    /* every socket in two sets, waiting on either */
	STYLE_NESTED, /* the set in another set */
	STYLE_POLL,   /* poll() on the set's descriptor */
	STYLE_SELECT,
	STYLES,
};

struct worker {
	pthread_t thread;
	unsigned index;
	struct server *server; /* NULL in clients */
	struct io io;
	enum kind kind;
	enum epoll_style style;
	int ep[2];         /* -1: not used */
	int n_eps;         /* how many of them hold every socket */
	int wake;          /* eventfd */
	unsigned quota;    /* server: connections to accept in this batch */
	bool is_listening; /* listeners are in the sets */
	bool is_draining;
	bool is_over; /* its thread takes no more signals */
	pthread_mutex_t lock;
	struct conn *conn[BATCH_MAX];
	unsigned n;
};

static struct worker workers[WORKERS_MAX];
static unsigned n_workers;
static _Atomic uint32_t next_id;
static _Atomic bool meddler_stops;
static pthread_t meddler;
static pthread_mutex_t meddle_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t meddle_now = PTHREAD_COND_INITIALIZER;
static char tag_wake, tag_listener[N_LISTENERS];

static bool is_epoll(enum kind k)
{
	return k == KIND_LEVEL || k == KIND_EDGE || k == KIND_ONESHOT;
}

/* --- one connection's step --- */

static void step(struct worker *w, struct conn *c)
{
	struct io *io = &w->io;

	c->is_pending = false;
	if (c->is_server && c->plan_got < sizeof(c->plan)) {
		if (!c->rx.blocked && !conn_read_plan(io, c))
			c->rx.blocked = true;
		c->is_pending = !c->rx.blocked;
		if (c->plan_got < sizeof(c->plan) || conn_is_over(c))
			return;
	}
	for (int budget = 1 + (int)rng_below(&io->rng, 8); budget; budget--) {
		bool moved = false;

		if (!c->rx.blocked && !load_rlx(&c->rx.done))
			moved |= io_rx(io, c);
		conn_turn(c);
		if (!c->tx.blocked && !load_rlx(&c->tx.done) &&
		    load_rlx(&c->tx.off) < load_rlx(&c->tx.limit))
			moved |= io_tx(io, c);
		conn_turn(c);
		if (conn_aborts_now(c))
			store_rlx(&c->aborts, true);
		else if (load_rlx(&c->tx.off) == c->tx.total)
			conn_tx_ended(io, c);
		if (conn_is_over(c) || !moved)
			return;
	}
	c->is_pending = true;
}

static uint32_t wants(const struct conn *c)
{
	bool tx = load_rlx(&c->tx.off) < load_rlx(&c->tx.limit) &&
		  !load_rlx(&c->tx.done);

	return (load_rlx(&c->rx.done) ? 0u : EPOLLIN) | (tx ? EPOLLOUT : 0u);
}

static void conn_event(struct conn *c, uint32_t ev)
{
	if (ev & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		c->rx.blocked = false;
	if (ev & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		c->tx.blocked = false;
	if (ev & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		c->saw_rdhup = true;
	c->is_pending = true;
}

/* --- epoll sets --- */

static void ep_ctl(struct worker *w, int op, int fd, uint32_t events, void *tag)
{
	struct epoll_event ev = { .events = events, .data.ptr = tag };

	for (int i = 0; i < w->n_eps; i++)
		if (epoll_ctl(w->ep[i], op, fd, &ev))
			die("epoll_ctl %d of fd %d: %s", op, fd,
			    strerror(errno));
}

static uint32_t conn_events(struct worker *w, struct conn *c)
{
	uint32_t ev = wants(c);

	if (w->kind == KIND_EDGE)
		return EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
	if (ev & EPOLLIN && c->plan.id % 3 == 0)
		ev |= EPOLLRDHUP;
	return w->kind == KIND_ONESHOT ? ev | EPOLLONESHOT : ev;
}

static void worker_add(struct worker *w, struct conn *c)
{
	c->rx.blocked = c->tx.blocked = true;
	c->is_pending = true; /* there may be nothing to wait for */
	pthread_mutex_lock(&w->lock);
	w->conn[w->n++] = c;
	if (is_epoll(w->kind)) {
		c->events = conn_events(w, c);
		ep_ctl(w, EPOLL_CTL_ADD, c->fd, c->events, c);
	}
	pthread_mutex_unlock(&w->lock);
}

/* Moves the connection to another descriptor number, in the sets too. */
static void conn_redup_locked(struct worker *w, struct conn *c)
{
	int old = c->fd;
	int new = rng_one_in(&w->io.rng, 2) ? dup(old)
					    : fcntl(old, F_DUPFD_CLOEXEC, 3);

	if (new < 0)
		die("dup: %s", strerror(errno));
	ep_ctl(w, EPOLL_CTL_DEL, old, 0, NULL);
	ep_ctl(w, EPOLL_CTL_ADD, new, c->events, c);
	if (c->fd_tx == old)
		store_rlx(&c->fd_tx, new);
	store_rlx(&c->fd, new);
	close(old);
}

static void conn_rearm(struct worker *w, struct conn *c)
{
	uint32_t ev = conn_events(w, c);

	pthread_mutex_lock(&w->lock);
	if (ev != c->events || w->kind == KIND_ONESHOT) {
		c->events = ev;
		if (w->kind == KIND_ONESHOT && rng_one_in(&w->io.rng, 4)) {
			c->wants_rearm = true;
			pthread_cond_signal(&meddle_now);
		} else {
			c->wants_rearm = false;
			ep_ctl(w, EPOLL_CTL_MOD, c->fd, ev, c);
		}
	}
	if (rng_one_in(&w->io.rng, 200))
		conn_redup_locked(w, c);
	pthread_mutex_unlock(&w->lock);
}

static void conn_remove(struct worker *w, unsigned i)
{
	struct conn *c = w->conn[i];

	pthread_mutex_lock(&w->lock);
	if (is_epoll(w->kind) && (c->fd_tx != c->fd || c->plan.id % 2))
		ep_ctl(w, EPOLL_CTL_DEL, c->fd, 0, NULL);
	w->conn[i] = w->conn[--w->n];
	pthread_mutex_unlock(&w->lock);
	conn_finish(c);
}

/* --- accepting --- */

/* Return: NULL when nobody waits. */
static struct conn *accept_one(struct worker *w, int i)
{
	bool late = rng_one_in(&w->io.rng, 2) || w->kind == KIND_BLOCK;
	int lfd = w->server->listener[i];
	int fd = late ? accept(lfd, NULL, NULL)
		      : accept4(lfd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0) {
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			die("accept: %s", strerror(errno));
		return NULL;
	}
	struct conn *c = conn_accepted(fd, &w->io, w->kind);
	c->family = w->server->family[i];
	c->nonblock = !late;
	if (late && w->kind != KIND_BLOCK)
		conn_set_nonblock(c, true);
	return c;
}

static void accept_ready(struct worker *w, int i)
{
	struct conn *c;

	while (w->quota && (c = accept_one(w, i))) {
		w->quota--;
		worker_add(w, c);
	}
}

/* --- waiting --- */

/* No timeout as a rule; now and then a short one. */
static int timeout_ms(struct worker *w, bool is_pending)
{
	if (is_pending)
		return 0;
	return rng_one_in(&w->io.rng, 10) ? (int)rng_below(&w->io.rng, 20) : -1;
}

static void listener_or_wake(struct worker *w, void *tag)
{
	for (int i = 0; i < N_LISTENERS; i++)
		if (tag == &tag_listener[i])
			accept_ready(w, i);
}

static bool is_tag(void *tag)
{
	return tag == &tag_wake || (tag >= (void *)tag_listener &&
				    tag < (void *)(tag_listener + N_LISTENERS));
}

static void wait_readable(struct worker *w, int fd, int timeout)
{
	struct timespec ts = { 0, timeout * 1000000L };
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	fd_set set;

	if (w->style == STYLE_POLL || fd >= FD_SETSIZE) {
		poll(&pfd, 1, timeout);
		return;
	}
	FD_ZERO(&set);
	FD_SET(fd, &set);
	pselect(fd + 1, &set, NULL, NULL, timeout < 0 ? NULL : &ts, NULL);
}

static int ep_wait(struct worker *w, struct epoll_event *ev, int timeout)
{
	struct epoll_event outer;
	int max = 1 + (int)rng_below(&w->io.rng, EVENTS_MAX), ep = w->ep[0];

	switch (w->style) {
	case STYLE_TWO:
		ep = w->ep[rng_below(&w->io.rng, 2)];
		break;
	case STYLE_NESTED:
		epoll_wait(w->ep[1], &outer, 1, timeout);
		timeout = 0;
		break;
	case STYLE_POLL:
	case STYLE_SELECT:
		wait_readable(w, ep, timeout);
		timeout = 0;
		break;
	default:
		break;
	}
	return epoll_wait(ep, ev, max, timeout);
}

static bool is_mine(struct worker *w, struct conn *c)
{
	for (unsigned i = 0; i < w->n; i++)
		if (w->conn[i] == c)
			return true;
	return false;
}

static void wait_epoll(struct worker *w, bool is_pending)
{
	struct epoll_event ev[EVENTS_MAX];
	int n = ep_wait(w, ev, timeout_ms(w, is_pending));

	if (n < 0 && errno != EINTR)
		die("epoll_wait: %s", strerror(errno));
	for (int i = 0; i < n; i++) {
		struct conn *c = ev[i].data.ptr;

		if (is_tag(c))
			listener_or_wake(w, c);
		else if (!is_mine(w, c))
			die("epoll_wait: event for a closed connection");
		else
			conn_event(c, ev[i].events);
	}
}

static void wait_poll(struct worker *w, bool is_pending)
{
	struct pollfd pfd[BATCH_MAX + N_LISTENERS + 1];
	unsigned n = w->n, total = n;

	for (unsigned i = 0; i < n; i++)
		pfd[i] = (struct pollfd){ .fd = w->conn[i]->fd,
					  .events = (short)wants(w->conn[i]) };
	if (!w->is_draining)
		pfd[total++] =
		    (struct pollfd){ .fd = w->wake, .events = POLLIN };
	unsigned first = total;
	for (int i = 0; w->is_listening && i < N_LISTENERS; i++)
		pfd[total++] = (struct pollfd){ .fd = w->server->listener[i],
						.events = POLLIN };
	int r = poll(pfd, total, timeout_ms(w, is_pending));
	if (r < 0 && errno != EINTR)
		die("poll: %s", strerror(errno));
	for (unsigned i = 0; r > 0 && i < n; i++) {
		if (pfd[i].revents & POLLNVAL)
			conn_fail(w->conn[i], "poll: POLLNVAL");
		if (pfd[i].revents)
			conn_event(w->conn[i], (uint32_t)pfd[i].revents);
	}
	for (unsigned i = first; r > 0 && i < total; i++)
		if (pfd[i].revents)
			accept_ready(w, (int)(i - first));
}

static void set_fd(fd_set *set, int fd, int *top)
{
	if (fd >= FD_SETSIZE)
		die("fd %d is too large for select", fd);
	FD_SET(fd, set);
	*top = fd > *top ? fd : *top;
}

static void wait_select(struct worker *w, bool is_pending)
{
	int timeout = timeout_ms(w, is_pending), top = 0;
	struct timeval tv = { 0, timeout * 1000 };
	unsigned n = w->n;
	fd_set in, out;

	FD_ZERO(&in);
	FD_ZERO(&out);
	for (unsigned i = 0; i < n; i++) {
		if (wants(w->conn[i]) & EPOLLIN)
			set_fd(&in, w->conn[i]->fd, &top);
		if (wants(w->conn[i]) & EPOLLOUT)
			set_fd(&out, w->conn[i]->fd, &top);
	}
	if (!w->is_draining)
		set_fd(&in, w->wake, &top);
	for (int i = 0; w->is_listening && i < N_LISTENERS; i++)
		set_fd(&in, w->server->listener[i], &top);

	int r = select(top + 1, &in, &out, NULL, timeout < 0 ? NULL : &tv);
	if (r < 0 && errno != EINTR)
		die("select: %s", strerror(errno));
	if (r <= 0)
		return;
	for (unsigned i = 0; i < n; i++) {
		int fd = w->conn[i]->fd;

		if (FD_ISSET(fd, &in))
			conn_event(w->conn[i], EPOLLIN);
		if (FD_ISSET(fd, &out))
			conn_event(w->conn[i], EPOLLOUT);
	}
	for (int i = 0; w->is_listening && i < N_LISTENERS; i++)
		if (FD_ISSET(w->server->listener[i], &in))
			accept_ready(w, i);
}

/* --- a batch driven by events --- */

static void eps_open(struct worker *w)
{
	struct epoll_event ev = { .events = EPOLLIN };

	pthread_mutex_lock(&w->lock);
	w->style = (enum epoll_style)rng_below(&w->io.rng, STYLES);
	w->ep[0] = epoll_create1(EPOLL_CLOEXEC);
	w->ep[1] = -1;
	w->n_eps = 1;
	if (w->style == STYLE_TWO || w->style == STYLE_NESTED)
		w->ep[1] = epoll_create1(EPOLL_CLOEXEC);
	if (w->style == STYLE_TWO)
		w->n_eps = 2;
	if (w->style == STYLE_NESTED &&
	    epoll_ctl(w->ep[1], EPOLL_CTL_ADD, w->ep[0], &ev))
		die("epoll_ctl of a set: %s", strerror(errno));
	ep_ctl(w, EPOLL_CTL_ADD, w->wake, EPOLLIN, &tag_wake);
	pthread_mutex_unlock(&w->lock);
}

static void eps_close(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	close(w->ep[0]);
	if (w->ep[1] >= 0)
		close(w->ep[1]);
	w->ep[0] = w->ep[1] = -1;
	w->n_eps = 0;
	pthread_mutex_unlock(&w->lock);
}

static void listen_set(struct worker *w, bool on)
{
	if (w->is_listening == on)
		return;
	w->is_listening = on;
	for (int i = 0; is_epoll(w->kind) && i < N_LISTENERS; i++)
		ep_ctl(w, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL,
		       w->server->listener[i],
		       w->index % 2 ? EPOLLIN : EPOLLIN | EPOLLEXCLUSIVE,
		       &tag_listener[i]);
}

/* The server has been asked to stop: nothing new, but what is open goes on. */
static void drain_if_stopping(struct worker *w)
{
	if (!w->server || !atomic_load(&is_stopping))
		return;
	w->quota = 0;
	if (w->is_draining)
		return;
	w->is_draining = true;
	if (is_epoll(w->kind))
		ep_ctl(w, EPOLL_CTL_DEL, w->wake, 0, NULL);
}

/* Return: does some connection have more to do before the next wait? */
static bool steps(struct worker *w)
{
	bool is_pending = false;

	for (unsigned i = 0; i < w->n;) {
		struct conn *c = w->conn[i];

		if (c->is_pending) {
			step(w, c);
			if (conn_is_over(c)) {
				conn_remove(w, i);
				continue;
			}
			/* Only edges are kept in mind; others come again. */
			if (w->kind != KIND_EDGE) {
				c->rx.blocked = c->tx.blocked = true;
				c->is_pending = false;
			}
			if (is_epoll(w->kind))
				conn_rearm(w, c);
		}
		is_pending |= c->is_pending;
		i++;
	}
	return is_pending;
}

static void batch_events(struct worker *w)
{
	bool is_pending = false;

	w->is_draining = false;
	if (is_epoll(w->kind))
		eps_open(w);
	for (unsigned k = w->server ? 0 : w->quota; k; k--)
		worker_add(w,
			   conn_connect(&w->io, atomic_fetch_add(&next_id, 1),
					w->kind));
	is_pending = w->n > 0;
	for (;;) {
		drain_if_stopping(w);
		if (w->server)
			listen_set(w, w->quota > 0);
		if (!w->n && (!w->server || !w->quota))
			break;
		if (is_epoll(w->kind))
			wait_epoll(w, is_pending);
		else if (w->kind == KIND_POLL)
			wait_poll(w, is_pending);
		else
			wait_select(w, is_pending);
		is_pending = steps(w);
	}
	if (is_epoll(w->kind))
		eps_close(w);
}

/* --- a batch with threads --- */

/* Return: connections accepted, after a wait for the first. */
static unsigned block_accept(struct worker *w, struct conn **list, unsigned max)
{
	struct pollfd pfd[N_LISTENERS + 1] = { { .fd = w->wake,
						 .events = POLLIN } };
	unsigned n = 0;

	for (int i = 0; i < N_LISTENERS; i++)
		pfd[i + 1] = (struct pollfd){ .fd = w->server->listener[i],
					      .events = POLLIN };
	if (poll(pfd, N_LISTENERS + 1, -1) <= 0)
		return 0;
	for (int i = 0; i < N_LISTENERS; i++)
		while (n < max && pfd[i + 1].revents &&
		       (list[n] = accept_one(w, i)))
			n++;
	return n;
}

static void batch_block(struct worker *w)
{
	struct conn *list[BLOCK_MAX];
	struct block_arg arg[BLOCK_MAX];
	pthread_t thread[BLOCK_MAX];
	unsigned n = 0, max = w->quota < BLOCK_MAX ? w->quota : BLOCK_MAX;

	if (w->server)
		n = block_accept(w, list, max);
	else
		for (; n < max; n++)
			list[n] = conn_connect(
			    &w->io, atomic_fetch_add(&next_id, 1), KIND_BLOCK);
	for (unsigned i = 0; i < n; i++) {
		arg[i] = (struct block_arg){ list[i], rng_next(&w->io.rng) };
		if (i && pthread_create(&thread[i], NULL, block_main, &arg[i]))
			die("no more threads");
	}
	if (n)
		block_main(&arg[0]); /* here, where the meddler's signals go */
	for (unsigned i = 1; i < n; i++)
		pthread_join(thread[i], NULL);
}

/* --- workers --- */

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static void *worker_main(void *p)
{
	struct worker *w = p;
	unsigned share = (opt.conns + opt.threads - 1) / opt.threads;
	uint64_t end = now_ns() + opt.seconds * 1000000000ull;

	if (share > BATCH_MAX)
		share = BATCH_MAX;
	for (unsigned round = 0;; round++) {
		if (w->server && atomic_load(&is_stopping))
			break;
		if (!w->server &&
		    (opt.rounds ? round >= opt.rounds : now_ns() >= end))
			break;
		pthread_mutex_lock(&w->lock);
		w->kind = opt.kind >= 0
			      ? (enum kind)opt.kind
			      : (enum kind)rng_below(&w->io.rng, KINDS);
		pthread_mutex_unlock(&w->lock);
		w->quota = w->server
			       ? 1 + (unsigned)rng_below(&w->io.rng, 2 * share)
			       : share;
		if (w->quota > BATCH_MAX)
			w->quota = BATCH_MAX;
		if (w->kind == KIND_BLOCK)
			batch_block(w);
		else
			batch_events(w);
	}
	pthread_mutex_lock(&w->lock);
	w->is_over = true;
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* --- the meddler --- */

static void rearm_wanted(struct worker *w)
{
	for (unsigned i = 0; i < w->n; i++) {
		struct conn *c = w->conn[i];

		if (!c->wants_rearm)
			continue;
		c->wants_rearm = false;
		ep_ctl(w, EPOLL_CTL_MOD, c->fd, c->events, c);
	}
}

static void disturb(struct worker *w, struct rng *r)
{
	struct conn *c = w->n ? w->conn[rng_below(r, w->n)] : NULL;

	if (!c || c->wants_rearm)
		return;
	if (rng_one_in(r, 2)) {
		ep_ctl(w, EPOLL_CTL_MOD, c->fd, c->events, c);
	} else {
		ep_ctl(w, EPOLL_CTL_DEL, c->fd, 0, NULL);
		ep_ctl(w, EPOLL_CTL_ADD, c->fd, c->events, c);
	}
}

static void meddle(struct rng *r)
{
	unsigned victim = (unsigned)rng_below(r, n_workers);

	for (unsigned i = 0; i < n_workers; i++) {
		struct worker *w = &workers[i];

		pthread_mutex_lock(&w->lock);
		if (is_epoll(w->kind) && w->n_eps) {
			rearm_wanted(w);
			if (i == victim)
				disturb(w, r);
		}
		if (i == victim && !w->is_over && rng_one_in(r, 4))
			pthread_kill(w->thread, SIGUSR1);
		pthread_mutex_unlock(&w->lock);
	}
}

static void *meddler_main(void *p)
{
	struct rng r = { opt.seed ^ 0x6d6564 };
	struct timespec until;

	while (!atomic_load(&meddler_stops)) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += MEDDLE_NS;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_mutex_lock(&meddle_lock);
		pthread_cond_timedwait(&meddle_now, &meddle_lock, &until);
		pthread_mutex_unlock(&meddle_lock);
		meddle(&r);
	}
	return NULL;
}

static void on_signal(int sig) {}

static void worker_start(struct server *s, unsigned index)
{
	struct worker *w = &workers[n_workers++];

	w->index = index;
	w->server = s;
	w->ep[0] = w->ep[1] = -1;
	w->kind = KIND_BLOCK;
	pthread_mutex_init(&w->lock, NULL);
	io_open(&w->io, pattern_key(opt.seed, index, s != NULL));
	w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->wake < 0)
		die("eventfd: %s", strerror(errno));
}

void workers_start(struct server *s)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sigaction(SIGUSR1, &sa, NULL);
	if (n_workers + opt.threads > WORKERS_MAX)
		die("more than %d threads", WORKERS_MAX);
	for (unsigned i = 0; i < opt.threads; i++)
		worker_start(s, i);
	for (unsigned i = n_workers - opt.threads; i < n_workers; i++)
		if (pthread_create(&workers[i].thread, NULL, worker_main,
				   &workers[i]))
			die("no more threads");
}

void meddler_start(void)
{
	if (pthread_create(&meddler, NULL, meddler_main, NULL))
		die("no more threads");
}

void meddler_stop(void)
{
	atomic_store(&meddler_stops, true);
	pthread_join(meddler, NULL);
}

void workers_wake(void)
{
	uint64_t one = 1;

	for (unsigned i = 0; i < n_workers; i++)
		if (workers[i].server &&
		    write(workers[i].wake, &one, sizeof(one)) < 0)
			die("eventfd: %s", strerror(errno));
}

void workers_join(bool servers)
{
	for (unsigned i = 0; i < n_workers; i++)
		if (servers == (workers[i].server != NULL))
			pthread_join(workers[i].thread, NULL);
	for (unsigned i = 0; i < n_workers; i++)
		if (servers == (workers[i].server != NULL))
			io_close(&workers[i].io);
}
