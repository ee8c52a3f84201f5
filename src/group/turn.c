/* SPDX-License-Identifier: MIT */
/*
 * group/turn.c - one turn of a group
 *
 *     hot sockets -> notified sockets -> kernel -> deferred work
 *         |            |                   |            |
 *         +------------+------------------ rx.c, tx.c, open.c, end.c: callbacks
 *
 * A turn of an idle group costs a few loads and a look at the clock, however
 * many sockets it has: notifications name the sockets to serve.  A turn polls
 * the kernel each time while the kernel has events, otherwise once in
 * KERNEL_LOOK_NS.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/idle.h"
#include "base/libc.h"
#include "base/nocancel.h"
#include "group/ack.h"
#include "group/end.h"
#include "group/fail.h"
#include "group/handle.h"
#include "group/lent.h"
#include "group/open.h"
#include "group/push.h"
#include "group/rx.h"
#include "group/set.h"
#include "group/sync.h"
#include "ops/ops.h"

#define KERNEL_EVENTS 64
#define KERNEL_EMPTY_LOOKS 8u /* in a row, before it is asked less often */
#define KERNEL_LOOK_NS (2 * NS_PER_US)
#define BUSY_TURNS                                                             \
	1024u          /* since a hot one had news: that is where it happens, */
#define BUSY_CLOCK 64u /* and the clock is looked at every so many turns, */
#define BUSY_LOOK_NS (50 * NS_PER_US) /* and the kernel is asked so often */
#define REST_TURNS 32u
/* One that rests may have bytes that its peer holds back (MSG_MORE). */
#define HELD_TURNS 1024u
#define ACK_LOOK_NS (5 * NS_PER_US)

/* May the peer hold back what it has written?  Nobody tells when it is due. */
static COLD bool may_hold_back(struct gsock *s)
{
	return sock_ops(s->sk)->next_ns(s->sk) != UINT64_MAX;
}

HOT static void turn_hot(struct group *g)
{
	for (uint32_t i = 0; i < g->n_hot; i++) {
		struct gsock *s = g->hot[i].s;

		if (likely(!s->lend->ready(s->sk))) {
			/* The reader's progress is worth a word when it rests. */
			uint32_t n = ++g->hot[i].idle;

			if (n == REST_TURNS)
				gsock_rest(s);
			else if (n % HELD_TURNS == 0 && may_hold_back(s))
				gsock_rx(g, s);
			continue;
		}
		g->hot[i].idle = 0;
		g->hot_turn = g->turn;
		gsock_rx(g, s); /* may change the list: the rest has its turn */
	}
}

/* Notified sockets.  A protocol that copies notifies of what comes, and of a connection that
 * it has given back. */

static bool is_kernels(const struct gsock *s)
{
	return !sock_ops(s->sk)->own_events;
}

/* The anchor's edge may have come while the protocol had the connection. */
static COLD bool anchor_has_ended(const struct gsock *s)
{
	struct pollfd p = { .fd = s->fd, .events = POLLRDHUP };

	return nocancel_poll(&p, 1, 0) > 0;
}

static void on_news(struct watch *w, unsigned events, bool is_behind, void *arg)
{
	struct gsock *s = container_of(w, struct gsock, watch);

	if (load_rlx(&s->group) != arg)
		return;
	if (!s->is_direct) {
		s->is_readable = 1;
		s->hung_up |= is_kernels(s) && anchor_has_ended(s);
	}
	work_add(s);
}

/*
 * The kernel.
 */

static void on_anchor(struct group *g, struct gsock *s, uint32_t events)
{
	if (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP))
		s->hung_up = 1;
	sock_ops(s->sk)->anchor_event(s->sk, s->fd, events, &s->watch);
	if (s->is_closing || gsock_rx(g, s))
		work_add(s); /* and room, perhaps */
}

static void on_connected(struct group *g, struct gsock *s, uint32_t events)
{
	if (s->watch.set) {
		/* It was away from the kernel.  On the way its anchor was without a
		 * connection for a moment, which looks like an end. */
		if (!is_kernels(s))
			return;
		if (events & EPOLLHUP && !anchor_has_ended(s))
			events = EPOLLIN | EPOLLOUT;
	}
	if (s->is_closing) {
		gsock_rx_discard(s);
		if (events &
		    (EPOLLERR | EPOLLHUP)) /* no more is acknowledged */
			s->state = GSOCK_FAILED;
		work_add(s);
		return;
	}
	if (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP))
		s->hung_up = 1;
	if (events & EPOLLOUT)
		s->is_blocked = 0;
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP)) {
		s->is_readable = 1;
		if (!gsock_rx(g, s))
			return;
	}
	int err = 0;
	socklen_t len = sizeof(err);
	/* After the end of the stream nothing is read that would tell. */
	if (events & EPOLLERR && s->has_eof && s->state == GSOCK_CONNECTED &&
	    !libc.getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &err, &len) && err) {
		gsock_fail(g, s, err);
		return;
	}
	if (s->sent < s->limit || s->is_closing)
		work_add(s);
}

static void on_connecting(struct group *g, struct gsock *s, uint32_t events)
{
	int err = 0;
	socklen_t len = sizeof(err);

	if (!(events & (EPOLLOUT | EPOLLERR | EPOLLHUP)))
		return;
	if (libc.getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
		err = errno;
	if (!err && events & EPOLLHUP)
		err = ECONNABORTED;
	if (err)
		gsock_fail(g, s, err);
	else
		gsock_established(g, s);
}

static void on_kernel(struct group *g, struct gsock *s, uint32_t events)
{
	if (s->is_closing && s->state != GSOCK_CONNECTED)
		return;
	switch (s->state) {
	case GSOCK_LISTENING:
		gsock_accept(g, s);
		break;
	case GSOCK_CONNECTING:
		on_connecting(g, s, events);
		break;
	case GSOCK_CONNECTED:
		if (s->is_direct)
			on_anchor(g, s, events);
		else
			on_connected(g, s, events);
		break;
	default:
		break;
	}
}

/* The next step of an upgrade is possible. */
static void on_upgrade(struct gsock *s)
{
	if (s->sk && s->state == GSOCK_CONNECTED && !sock_ops(s->sk)->is_ours) {
		ops_advance(s->sk, s->fd);
		gsock_sync(s);
	}
}

static void turn_kernel(struct group *g)
{
	struct epoll_event evs[KERNEL_EVENTS];

	if (likely(g->n_empty >= KERNEL_EMPTY_LOOKS)) {
		bool is_busy = g->turn - g->hot_turn < BUSY_TURNS;

		if (is_busy && g->turn % BUSY_CLOCK)
			return;
		uint64_t now = now_ns();
		if (now - g->looked_ns <
		    (is_busy ? BUSY_LOOK_NS : KERNEL_LOOK_NS))
			return;
		g->looked_ns = now;
	}
	int n = nocancel_epoll_wait(g->epfd, evs, KERNEL_EVENTS, 0);
	if (n <= 0) {
		g->n_empty += g->n_empty < KERNEL_EMPTY_LOOKS;
		return;
	}
	g->n_empty = 0;
	for (int i = 0; i < n; i++) {
		uint64_t data = evs[i].data.u64;

		if (data == SET_IDLE) {
			idle_run();
			ready_drain(&g->rs, on_news, g);
			continue;
		}
		struct gsock *s = handle_get(data & ~SET_UPGRADE, HANDLE_SOCK);

		/* A callback may have destroyed it, or taken it away. */
		if (!s || load_rlx(&s->group) != g)
			continue;
		if (data & SET_UPGRADE)
			on_upgrade(s);
		else
			on_kernel(g, s, evs[i].events);
	}
}

/* Deferred work. */

static void work_one(struct group *g, struct gsock *s)
{
	if (s->is_closing) {
		if (s->watch.set && !s->is_direct)
			gsock_rx_discard(s); /* nothing else looks */
		gsock_close_step(g, s);
		return;
	}
	if ((s->state == GSOCK_CONNECTING || s->state == GSOCK_CONNECTED) &&
	    s->error) {
		gsock_fail(g, s, s->error);
		return;
	}
	if (s->state == GSOCK_LISTENING) {
		gsock_accept(g, s);
		return;
	}
	if (s->state == GSOCK_FAILED) {
		gsock_complete(g, s);
		return; /* and waits to be destroyed */
	}
	if (s->state != GSOCK_CONNECTED)
		return;
	if (s->sent < s->limit) {
		int err = gsock_push(g, s);

		if (err) {
			gsock_fail(g, s, err);
			return;
		}
		if (s->is_direct && s->sent < s->limit)
			work_add(s); /* nobody tells that there is room */
	}
	if (s->n_comps && s->is_direct)
		gsock_acks(g, s);
	if (load_rlx(&s->group) != g || !gsock_may_receive(s))
		return;
	if (s->is_direct)
		hot_add(g, s);
	gsock_rx(g, s);
}

static void turn_work(struct group *g)
{
	struct list todo = { &todo, &todo };

	while (!list_is_empty(&g->work)) {
		struct list *l = g->work.next;

		list_del(l);
		list_add_tail(&todo, l);
	}
	while (!list_is_empty(&todo)) {
		struct gsock *s = container_of(todo.next, struct gsock, work);

		list_del(&s->work);
		work_one(g, s);
	}
}

/* Ask the kernel about operations that wait for the peer's acknowledgement: of a few
 * sockets in each turn. */
static void turn_acks(struct group *g)
{
	struct list *l = g->acks.next;
	uint64_t now = now_ns();

	if (now - g->acks_looked_ns < ACK_LOOK_NS)
		return;
	g->acks_looked_ns = now;

	for (int i = 0; i < 16 && l != &g->acks; i++) {
		struct gsock *s = container_of(l, struct gsock, acks);

		list_del(l);
		list_add_tail(&g->acks, l);
		if (s->ack_look == g->turn)
			return; /* once round */
		s->ack_look = g->turn;
		gsock_acks(g, s);
		l = g->acks.next;
	}
}

static void turn_deadlines(struct group *g)
{
	uint64_t now = now_ns();

	for (struct list *l = g->all.next, *next; l != &g->all; l = next) {
		struct gsock *s = container_of(l, struct gsock, all);

		next = l->next;
		if (!s->deadline_ns || now < s->deadline_ns)
			continue;
		s->deadline_ns = 0;
		g->n_connecting--;
		if (s->state == GSOCK_CONNECTING && !s->error) {
			s->error = ETIMEDOUT;
			work_add(s);
		}
	}
}

/* Awake again: nobody need tell of hot ones. */
static COLD void disarm(struct group *g)
{
	store_rlx(&g->is_armed, false);
	g->n_empty = 0;
	for (uint32_t i = 0; i < g->n_hot; i++)
		g->hot[i].s->lend->hot(g->hot[i].s->sk, true);
	if (g->is_asleep)
		ready_awake(&g->rs);
	g->is_asleep = false;
}

HOT int group_turn(struct group *g)
{
	if (unlikely(g->in_turn))
		return -EBUSY;
	g->in_turn = true;
	if (unlikely(g->is_armed))
		disarm(g);
	if (unlikely(load_rlx(&g->has_returns)))
		group_take_returns(g);
	g->n_events = 0;
	g->turn++;
	turn_hot(g);
	idle_spin();
	if (ready_has_come(&g->rs))
		ready_drain(&g->rs, on_news, g);
	turn_kernel(g);
	if (!list_is_empty(&g->work))
		turn_work(g);
	if (!list_is_empty(&g->acks))
		turn_acks(g);
	if (!list_is_empty(&g->lent))
		turn_lent(g);
	if (g->n_connecting)
		turn_deadlines(g);
	g->in_turn = false;
	return (int)g->n_events;
}
