/* SPDX-License-Identifier: MIT */
/* group/ack.c - see group/ack.h */
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>

#include "base/libc.h"
#include "base/nocancel.h"
#include "group/ack.h"
#include "group/ref.h"
#include "group/txop.h"

/* Drop operations at the front that need no completion. */
static void reap(struct group *g, struct gsock *s)
{
	while (s->first && s->first != s->out && !s->first->userdata) {
		struct txop *op = s->first;

		s->first = op->next;
		if (!s->first)
			s->last = NULL;
		op_free(g, op);
	}
}

void await_acks(struct group *g, struct gsock *s)
{
	reap(g, s);
	if (!s->n_comps)
		return;
	if (s->is_direct && !s->has_early && !refs_are_out(s))
		work_add(s);
	else if (list_is_empty(&s->acks))
		list_add_tail(&g->acks, &s->acks);
}

static inline bool is_done(const struct gsock *s, const struct txop *op)
{
	return !op->userdata ||
	       (op->end <= s->acked &&
		(likely(!op->has_refs) || ref_is_done(s, op->n_refs)));
}

bool gsock_complete(struct group *g, struct gsock *s)
{
	while (s->first && s->first != s->out && is_done(s, s->first)) {
		struct txop *op = s->first;
		uintptr_t userdata = op->userdata;

		s->first = op->next;
		if (!s->first)
			s->last = NULL;
		op_free(g, op);
		if (!userdata)
			continue;
		s->n_comps--;
		if (g && !call_comp(g, s, userdata))
			return false;
		if (!g && s->calls.comp)
			s->calls.comp(s->handle, s->userdata, userdata,
				      &s->calls);
	}
	if (s->n_comps)
		return true;
	if (g)
		list_del(&s->acks);
	if (s->is_closing)
		work_add(s);
	return true;
}

/* Bytes that a kernel or our own TCP has not acknowledged; or -errno. */
static int unacked(const struct gsock *s)
{
	int n;

	if (s->sk && !s->is_direct)
		return sock_ops(s->sk)->outq(s->sk, s->fd);
	return libc.ioctl(s->fd, SIOCOUTQ, &n) < 0 ? -errno : n;
}

/* Has the connection ended in both directions, so that no ACK can come? */
static COLD bool is_dead(const struct gsock *s)
{
	struct pollfd p = { .fd = s->fd };

	return nocancel_poll(&p, 1, 0) > 0 && p.revents & (POLLERR | POLLHUP);
}

void gsock_acks(struct group *g, struct gsock *s)
{
	int n = 0;

	if (s->state == GSOCK_FAILED) { /* nobody acknowledges: all is over */
		gsock_complete(g, s);
		return;
	}
	if (refs_are_out(s) && refs_look(s)) {
		s->error = ECONNRESET;
		work_add(s);
		return;
	}
	if (!s->is_direct || s->has_early || !s->lend->acks_at_once(s->sk)) {
		n = unacked(s);
		if (n < 0 || (n && s->hung_up && is_dead(s)))
			n = 0;
		if (s->is_direct && n &&
		    load_rlx(&s->sk->w->anchor_end) == ANCHOR_OPEN)
			return; /* a few bytes by TCP come before the others */
		s->has_early = 0;
	}
	s->acked = s->sent - MIN((uint64_t)n, s->sent);
	gsock_complete(g, s);
}
