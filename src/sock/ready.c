/* SPDX-License-Identifier: MIT */
/* sock/ready.c - see sock/ready.h */
#include "base/compiler.h"
#include "sock/ready.h"
#include "sock/sock_ops.h"

static const uint64_t no_feed[READY_WORDS];

void ready_init(struct ready_set *rs, void (*wake)(struct ready_set *rs))
{
	*rs = (struct ready_set){ .posted = no_feed, .wake = wake };
	list_init(&rs->notified);
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
	list_init(&w->notified);
}

void watch_after_fork(struct watch *w)
{
	if (w->set)
		watch_init(w, w->set);
}

void watch_open(struct watch_list *l, struct sock *sk, struct watch *w,
		struct ready_set *rs)
{
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

void watch_close(struct watch_list *l, struct sock *sk, struct watch *w)
{
	if (!w->set)
		return;
	GUARD(&l->lock);
	for (struct watch **p = &l->first; *p; p = &(*p)->next) {
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

void watches_tell(struct watch_list *l, unsigned events)
{
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
