/* SPDX-License-Identifier: MIT */
/* group/sync.c - see group/sync.h */
#include "group/lent.h"
#include "group/set.h"
#include "group/sync.h"

/* What a protocol that lends may ask for when it takes over. */
static void open_lender(struct gsock *s, const struct lend_ops *lend)
{
	s->memory = lend->open(s->sk, !buf_is_external(),
			       buf_is_announced() ? buf_announce : NULL);
	s->lend = lend;
}

/* The connection has moved: we get a notification, or it is among the hot ones. */
static void took_over(struct group *g, struct gsock *s,
		      const struct lend_ops *lend)
{
	if (!s->lend)
		open_lender(s, lend);
	s->is_direct = 1;
	s->is_blocked = 0;
	s->has_early = s->acked < s->sent;
	lend_begin(s);
	watch_open(s->sk, &s->watch, &g->rs);
	hot_add(g, s);
	if (s->hot < 0)
		hot_arm(s);
	work_add(s);
}

/* The connection has moved to a protocol that copies, and notifies us.  It may come back,
 * and move again: the watch stays. */
static void told_by_protocol(struct group *g, struct gsock *s)
{
	watch_open(s->sk, &s->watch, &g->rs);
	s->is_readable = 1; /* something may have come before */
	work_add(s);
}

void gsock_sync(struct gsock *s)
{
	if (!s->sk || !s->group)
		return;
	const struct sock_ops *ops = sock_ops(s->sk);

	if (ops->lend) {
		if (!s->is_direct)
			took_over(s->group, s, ops->lend);
		ops->sync(s->sk, s->fd);
	} else if (ops->own_events) {
		if (!s->watch.set)
			told_by_protocol(s->group, s);
		set_idle(s->group);
	} else if (!ops->is_ours && !s->lend) {
		set_watch(s);
	}
}
