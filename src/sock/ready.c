/* SPDX-License-Identifier: MIT */
/* sock/ready.c - see sock/ready.h */
#include "base/compiler.h"
#include "sock/ready.h"
#include "sock/sock_ops.h"

void ready_init(struct ready_set *rs, void (*wake)(struct ready_set *rs))
{
	*rs = (struct ready_set){ .wake = wake };
	list_init(&rs->notified);
}

void ready_close(struct ready_set *rs)
{
	if (rs->feed)
		rs->feed->close(rs);
	rs->feed = NULL;
	store_rlx(&rs->n_posted, 0u);
}

void ready_after_fork(struct ready_set *rs)
{
	ready_init(rs, rs->wake);
	rs->by_fd = true;
}

/* Threads that wait look at these without a lock. */
void ready_feed_open(struct ready_set *rs, const struct ready_feed *feed,
		     uint32_t lane)
{
	rs->lane = lane;
	store_rel(&rs->feed, feed); /* pairs with feed_of() */
}

bool ready_feed_more(struct ready_set *rs, const uint64_t *posted)
{
	uint32_t n = rs->n_posted, i = 0;

	while (i < n && rs->posted[i] != posted)
		i++;
	if (i == n && n < READY_PLACES) {
		rs->posted[n] = posted;
		store_rel(&rs->n_posted, n + 1);
	}
	fence_full(); /* Dekker with ready_sleep() */
	return load_rlx(&rs->n_sleepers);
}

static const struct ready_feed *feed_of(const struct ready_set *rs)
{
	return load_acq(&rs->feed);
}

static void watch_init(struct watch *w, struct ready_set *rs)
{
	*w = (struct watch){ .next = w->next,
			     .set = rs,
			     .slot = READY_SLOT_NONE };
	list_init(&w->notified);
}

void watch_after_fork(struct watch *w)
{
	if (w->set)
		watch_init(w, w->set);
}

void watches_after_fork(struct sock *sk)
{
	struct watch **p = &sk->watches.first;

	sk->watches.lock = (struct lock){ 0 };
	while (*p) {
		if ((*p)->set->is_calls)
			*p = (*p)->next;
		else
			p = &(*p)->next;
	}
}

void watch_open(struct sock *sk, struct watch *w, struct ready_set *rs)
{
	struct watch_list *l = &sk->watches;

	watch_init(w, rs);
	GUARD(&l->lock);
	w->next = l->first;
	store_rlx(&l->first, w); /* looked at without the lock */
	sock_ops(sk)->watch(sk, w);
}

void watch_by_fd(struct sock *sk, struct watch *w)
{
	if (w->slot != READY_SLOT_NONE)
		w->set->feed->forget(sk, w);
	w->is_notified = false;
}

void watch_close(struct sock *sk, struct watch *w)
{
	if (!w->set)
		return;
	GUARD(&sk->watches.lock);
	for (struct watch **p = &sk->watches.first; *p; p = &(*p)->next) {
		if (*p == w) {
			store_rlx(p, w->next);
			break;
		}
	}
	watch_by_fd(sk, w);
	GUARD(&w->set->lock);
	list_del(&w->notified);
	w->set = NULL;
}

/* The fence pairs with the lock in watch_open(): the waiter opens its watch and looks,
 * we have stored the news and look for watches. */
void sock_notify(struct sock *sk, unsigned events)
{
	struct watch_list *l = &sk->watches;

	fence_full();
	if (!load_rlx(&l->first))
		return;
	GUARD(&l->lock);
	for (struct watch *w = l->first; w; w = w->next) {
		struct ready_set *rs = w->set;

		lock_get(&rs->lock);
		w->events |= events;
		if (list_is_empty(&w->notified))
			list_add_tail(&rs->notified, &w->notified);
		lock_put(&rs->lock);
		rs->wake(rs);
	}
}

/* Return the watch that was notified first, with all of its events. */
static struct watch *next_notified(struct ready_set *rs, unsigned *events)
{
	GUARD(&rs->lock);
	if (list_is_empty(&rs->notified))
		return NULL;
	struct watch *w =
	    container_of(rs->notified.next, struct watch, notified);

	list_del(&w->notified);
	*events = w->events;
	w->events = 0;
	return w;
}

static COLD void drain_notified(struct ready_set *rs, ready_news *news,
				void *arg)
{
	unsigned events;

	for (struct watch *w; (w = next_notified(rs, &events));)
		news(w, events, false, arg);
}

HOT bool ready_drain(struct ready_set *rs, ready_news *news, void *arg)
{
	bool any = unlikely(load_rlx(&rs->notified.next) != &rs->notified);

	if (any)
		drain_notified(rs, news, arg);
	const struct ready_feed *feed = feed_of(rs);
	return (feed && feed->drain(rs, news, arg)) || any;
}

static bool begin_sleep(struct ready_set *rs, bool naps)
{
	const struct ready_feed *feed = feed_of(rs);
	bool others_sleep = fetch_add(&rs->n_sleepers, 1); /* and a fence */

	if (feed)
		feed->sleep(rs, naps && !others_sleep);
	return !ready_has_come(rs);
}

bool ready_sleep(struct ready_set *rs) { return begin_sleep(rs, false); }
bool ready_nap(struct ready_set *rs) { return begin_sleep(rs, true); }

void ready_awake(struct ready_set *rs)
{
	const struct ready_feed *feed = feed_of(rs);
	bool others_sleep = fetch_sub(&rs->n_sleepers, 1) != 1;

	if (feed)
		feed->awake(rs, others_sleep);
}

void ready_asked(struct ready_set *rs, uint64_t now_ns)
{
	const struct ready_feed *feed = feed_of(rs);

	if (feed)
		feed->asked(rs, now_ns);
}
