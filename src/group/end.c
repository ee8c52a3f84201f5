/* SPDX-License-Identifier: MIT */
/*
 * group/end.c - how sockets end
 *
 *     failure  ->  ERROR, completions; the socket waits to be destroyed
 *     destroy  ->  flush -> all sent -> all acknowledged -> close -> TERMINATED
 *
 * Destroying only sets a flag, so any callback may do it; turns take the steps.
 * Buffers that the application still holds stay valid.
 */
#include <errno.h>

#include "base/fds.h"
#include "base/libc.h"
#include "base/nocancel.h"
#include "group/ack.h"
#include "group/end.h"
#include "group/fail.h"
#include "group/handle.h"
#include "group/lent.h"
#include "group/push.h"
#include "group/ref.h"
#include "group/rx.h"
#include "group/set.h"
#include "group/txop.h"
#include "ops/ops.h"
#include "sock/arena.h"
#include "sock/linger.h"

static bool is_to_reset(const struct gsock *s) { return !linger_s(s->fd); }

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
		nocancel_close(s->fd);
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
	/* Complete the operations before the close: a close can lose what the kernel has
	 * not sent yet. */
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
				    s); /* no notification of room follows */
			return false;
		} else if (s->n_comps || refs_are_out(s)) {
			gsock_acks(g, s);
			if (refs_delay_end(s)) {
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
