/* SPDX-License-Identifier: MIT */
/* group/fail.c - see group/fail.h */
#include <errno.h>

#include "group/fail.h"
#include "group/ref.h"
#include "group/set.h"

/* The error that the callback gets: one of the four that programs know, or ENOBUFS. */
static int error_of(int err, bool connecting)
{
	switch (err) {
	case EPIPE:
	case ECONNRESET:
		return ECONNRESET;
	case ECONNREFUSED:
		return ECONNREFUSED;
	case ETIMEDOUT:
		return ETIMEDOUT;
	case ENOBUFS:
		return ENOBUFS;
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EHOSTDOWN:
	case ENETDOWN:
		return connecting ? ETIMEDOUT : ECONNABORTED;
	default:
		return ECONNABORTED;
	}
}

/* The application may reuse all memory that was queued to be sent. */
void ops_are_over(struct gsock *s)
{
	s->out = NULL;
	s->limit = s->sent = s->acked = s->queued;
	s->has_early = 0;
	refs_end(s);
}

bool gsock_fail(struct group *g, struct gsock *s, int err)
{
	s->error = error_of(err, s->state == GSOCK_CONNECTING);
	s->state = GSOCK_FAILED;
	if (s->deadline_ns)
		g->n_connecting--;
	s->deadline_ns = 0;
	set_drop(s);
	hot_drop(s);
	ops_are_over(s);
	work_add(s);
	if (s->is_closing)
		return true;
	return call_event(g, s, GROUP_ERROR, s->error);
}
