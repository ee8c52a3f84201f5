/* SPDX-License-Identifier: MIT */
/*
 * group/end.c - how sockets end
 *
 *     failure  ->  ERROR, completions; the socket waits to be destroyed
 *     destroy  ->  flush -> all out -> all acknowledged -> closed  ->  TERMINATED
 *
 * Destroying only marks, so it may be done in any callback; the steps are taken in
 * turns.  What the application still holds stays where it lies.
 */
#include <errno.h>

#include "base/fds.h"
#include "base/libc.h"
#include "group/gsock.h"
#include "group/handle.h"
#include "ops/ops.h"
#include "sock/arena.h"

/* Programs know of four; the fifth is ours. */
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

/* Nothing is used any more of what was to be sent. */
static void ops_are_over(struct gsock *s)
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

/* SO_LINGER with no time: close() is to reset. */
static bool is_to_reset(const struct gsock *s)
{
	struct linger l = { 0 };
	socklen_t len = sizeof(l);

	libc.getsockopt(s->fd, SOL_SOCKET, SO_LINGER, &l, &len);
	return l.l_onoff && !l.l_linger;
}

static void close_sock(struct gsock *s)
{
	if (s->sk) {
		if (s->state == GSOCK_CONNECTED && !is_to_reset(s))
			gsock_rx_discard(s);
		held_orphan(s);
		refs_free(s);
		ops_close(s->sk, s->fd);
		sock_free(s->sk);
		s->sk = NULL;
		s->memory = NULL;
	}
	if (s->fd >= 0)
		libc.close(s->fd);
	s->fd = -1;
}

void gsock_discard(struct gsock *s)
{
	gsock_unlist(s);
	close_sock(s);
	txq_drop(s);
	handle_free(s->handle);
	store_rlx(&s->handle, HANDLE_NONE);
	gsock_put(s);
}

void gsock_terminate(struct group *g, struct gsock *s)
{
	s->is_closing = 1;
	/* The kernel has copies: closing first would lose what it has not. */
	ops_are_over(s);
	gsock_complete(g, s);
	uintptr_t handle = s->handle;
	const struct group_calls *calls = g ? &g->attr.calls : &s->calls;
	if (g)
		gsock_unlist(s);
	close_sock(s);
	txq_drop(s);
	handle_free(handle);
	store_rlx(&s->handle, HANDLE_NONE);
	if (g)
		g->n_events++;
	calls->event(handle, s->userdata, GROUP_TERMINATED, 0, calls);
	gsock_put(s);
}

bool gsock_close_step(struct group *g, struct gsock *s)
{
	if (s->state == GSOCK_CONNECTED && !is_to_reset(s)) {
		s->limit = s->queued;
		int err = gsock_push(g, s);

		if (err) {
			gsock_fail(g, s, err);
		} else if (s->sent < s->queued) {
			if (s->is_direct)
				work_add(
				    s); /* nobody tells that there is room */
			return false;
		} else if (s->n_comps || refs_are_out(s)) {
			gsock_acks(g, s);
			if (refs_hold_up_end(s)) {
				work_add(s);
				return false;
			}
			if (s->n_comps && !refs_are_out(s))
				return false; /* turn_acks() goes on */
		}
	}
	gsock_terminate(g, s);
	return true;
}

int gsock_destroy(struct gsock *s)
{
	if (s->is_closing)
		return -EINVAL;
	s->is_closing = 1;
	if (s->group)
		work_add(s);
	else
		gsock_terminate(NULL, s);
	return 0;
}
