/* SPDX-License-Identifier: MIT */
/* sock/ready.c - see sock/ready.h */
#include "base/compiler.h"
#include "sock/ready.h"
#include "sock/sock_ops.h"

static const uint64_t no_feed[READY_WORDS];

void ready_init(struct ready_set *rs, void (*wake)(struct ready_set *rs))
{
	*rs = (struct ready_set){ .posted = no_feed, .wake = wake };
	list_init(&rs->told);
}

void ready_close(struct ready_set *rs)
{
	if (rs->feed)
		rs->feed->close(rs);
	rs->feed = NULL;
	rs->posted = no_feed;
}

void ready_after_fork(struct ready_set *rs)
{
	ready_init(rs, rs->wake);
	rs->by_fd = true;
}

/* Threads that wait look at these without a lock. */
void ready_feed_open(struct ready_set *rs, const struct ready_feed *feed,
		     uint32_t lane, const uint64_t *posted)
{
	rs->lane = lane;
	store_rel(&rs->posted, posted);
	store_rel(&rs->feed, feed); /* pairs with feed_of() */
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
	list_init(&w->told);
}

void watch_after_fork(struct watch *w)
{
	if (w->set)
		watch_init(w, w->set);
}

void watch_open(struct sock *sk, struct watch *w, struct ready_set *rs)
{
	struct watch_list *l = sk->watches;

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
	w->is_told = false;
}

void watch_close(struct sock *sk, struct watch *w)
{
	if (!w->set)
		return;
	GUARD(&sk->watches->lock);
	for (struct watch **p = &sk->watches->first; *p; p = &(*p)->next) {
		if (*p == w) {
			store_rlx(p, w->next);
			break;
		}
	}
	watch_by_fd(sk, w);
	GUARD(&w->set->lock);
	list_del(&w->told);
	w->set = NULL;
}

/* The fence pairs with the lock in watch_open(): the waiter opens its watch and looks,
 * we have stored the news and look for watches. */
void sock_notify(struct sock *sk, unsigned events)
{
	struct watch_list *l = sk->watches;

	fence_full();
	if (!l || !load_rlx(&l->first))
		return;
	GUARD(&l->lock);
	for (struct watch *w = l->first; w; w = w->next) {
		struct ready_set *rs = w->set;

		lock_get(&rs->lock);
		w->events |= events;
		if (list_is_empty(&w->told))
			list_add_tail(&rs->told, &w->told);
		lock_put(&rs->lock);
		rs->wake(rs);
	}
}

/* Return the watch that was notified first, with all of its events. */
static struct watch *take_told(struct ready_set *rs, unsigned *events)
{
	GUARD(&rs->lock);
	if (list_is_empty(&rs->told))
		return NULL;
	struct watch *w = container_of(rs->told.next, struct watch, told);

	list_del(&w->told);
	*events = w->events;
	w->events = 0;
	return w;
}

static COLD void drain_told(struct ready_set *rs, ready_news *news, void *arg)
{
	unsigned events;

	for (struct watch *w; (w = take_told(rs, &events));)
		news(w, events, false, arg);
}

HOT bool ready_drain(struct ready_set *rs, ready_news *news, void *arg)
{
	bool any = unlikely(load_rlx(&rs->told.next) != &rs->told);

	if (any)
		drain_told(rs, news, arg);
	const struct ready_feed *feed = feed_of(rs);
	return (feed && feed->drain(rs, news, arg)) || any;
}

bool ready_sleep(struct ready_set *rs)
{
	const struct ready_feed *feed = feed_of(rs);

	fetch_add(&rs->n_sleepers, 1); /* and a fence */
	if (feed)
		feed->sleep(rs);
	return !ready_has_come(rs);
}

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
