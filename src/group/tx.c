/* SPDX-License-Identifier: MIT */
/*
 * group/tx.c - operations: gathered and flushed
 *
 *     send -> |first ... out ... last|  --flush-->  the protocol  -->  completion
 *              `- out --'`- to go --'
 *
 * An operation is accepted completely or not at all: we allocate all it may
 * need before we send anything.  If nothing is queued, a flushed operation goes
 * out at once, and only the unsent rest is queued; the protocol copies the
 * bytes once.
 */
#include <errno.h>
#include <string.h>

#include "group/ack.h"
#include "group/memory.h"
#include "group/push.h"
#include "group/ref.h"
#include "group/txop.h"

#define IOV_COUNT_MAX (1u << 20) /* places of one operation */

/* The rest of the vectors, from @done bytes on, as operations. */
struct txops {
	struct txop *first, *last;
};

static void ops_add(struct txops *l, struct txop *op)
{
	if (l->last)
		l->last->next = op;
	else
		l->first = op;
	l->last = op;
}

static void ops_undo(struct group *g, struct txops *l)
{
	while (l->first) {
		struct txop *op = l->first;

		l->first = op->next;
		op_free(g, op);
	}
}

static bool ops_copy(struct group *g, struct txops *l, const uint8_t *data,
		     size_t len)
{
	while (len) {
		uint32_t room, n;
		uint8_t *to = chunk_room(
		    &g->pool, (uint32_t)MIN(len, (size_t)CHUNK_ROOM), &room);

		if (!to || !ops_reserve(g, 2))
			return false;
		n = (uint32_t)MIN(len, (size_t)room);
		memcpy(to, data, n);
		struct txop *op = op_take(g);
		op->data = to;
		op->len = n;
		op->copy = chunk_take(&g->pool, n);
		ops_add(l, op);
		data += n;
		len -= n;
	}
	return true;
}

static bool ops_make(struct group *g, struct txops *l, const struct iovec *iov,
		     size_t n, size_t done, uint32_t key, bool copies)
{
	for (size_t i = 0; i < n; i++) {
		size_t skip = MIN(done, iov[i].iov_len);
		const uint8_t *data = (const uint8_t *)iov[i].iov_base + skip;
		size_t len = iov[i].iov_len - skip;

		done -= skip;
		if (!len)
			continue;
		if (copies) {
			if (!ops_copy(g, l, data, len))
				return false;
			continue;
		}
		struct txop *op = op_take(g);
		op->data = data;
		op->len = len;
		op->key = key;
		op->may_ref = len >= REF_MIN && memory_may_have(key, data);
		ops_add(l, op);
	}
	return true;
}

/* Is any of it to be tried by reference? */
static inline bool may_ref(const struct gsock *s, const struct iovec *iov,
			   size_t n, size_t len, uint32_t key)
{
	if (likely(len < REF_MIN) || !s->is_direct)
		return false;
	for (size_t i = 0; i < n; i++)
		if (iov[i].iov_len >= REF_MIN &&
		    memory_may_have(key, iov[i].iov_base))
			return true;
	return false;
}

/* The last operation gets @userdata, for the completion callback.  If there is
 * none, add one without bytes. */
static inline void ops_complete_by(struct group *g, struct gsock *s,
				   struct txops *l, uintptr_t userdata)
{
	if (!l->last) {
		struct txop *op = op_take(g);

		op->data = NULL;
		op->len = 0;
		ops_add(l, op);
	}
	l->last->userdata = userdata;
	s->n_comps++;
}

/* Queue @l behind what is there; @out: all of it is out already. */
static void ops_queue(struct gsock *s, struct txops *l, bool out)
{
	for (struct txop *op = l->first; op; op = op->next) {
		s->queued += op->len;
		op->end = s->queued;
	}
	if (!l->first)
		return;
	if (s->last)
		s->last->next = l->first;
	else
		s->first = l->first;
	if (!s->out && !out)
		s->out = l->first;
	s->last = l->last;
}

static int may_send(const struct gsock *s)
{
	if (unlikely(s->is_closing))
		return -EPIPE;
	if (unlikely(!s->group))
		return -EINVAL;
	switch (s->state) {
	case GSOCK_CONNECTED:
		return likely(!s->error) ? 0 : -s->error;
	case GSOCK_CONNECTING:
		return -EAGAIN;
	case GSOCK_FAILED:
		return -s->error;
	default:
		return -ENOTCONN;
	}
}

static ssize_t vectors_len(const struct iovec *iov, size_t n)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		if (is_bad_ptr(iov[i].iov_base) && iov[i].iov_len)
			return -EINVAL;
		if (iov[i].iov_len > INT64_MAX - len)
			return -EINVAL;
		len += iov[i].iov_len;
	}
	return (ssize_t)len;
}

/* The connection has failed under a call that may not call back. */
static int fails_later(struct gsock *s, int err)
{
	s->error = err == -EPIPE ? ECONNRESET : -err;
	work_add(s);
	return -s->error;
}

static void flush(struct group *g, struct gsock *s)
{
	s->limit = s->queued;
	list_del(&s->dirty);
	if (s->state != GSOCK_CONNECTED || s->error || s->is_closing)
		return;
	int err = gsock_push(g, s);
	if (err)
		fails_later(s, err);
	else if (s->is_direct && s->sent < s->limit)
		work_add(s);
}

/* After a send that flushes, of which @done bytes went straight out. */
static inline void flush_rest(struct group *g, struct gsock *s, ssize_t done,
			      uintptr_t userdata)
{
	if (likely(s->sent == s->queued)) {
		s->limit = s->queued;
		if (userdata)
			await_acks(g, s);
	} else if (done) { /* the rest waits for room */
		s->limit = s->queued;
		if (s->is_direct)
			work_add(s);
	} else {
		flush(g, s);
	}
}

/* Straight out, before anything is queued: bytes that went, or -errno. */
HOT static ssize_t send_now(struct group *g, struct gsock *s,
			    const struct iovec *iov, size_t n, size_t len,
			    bool copies)
{
	uint32_t room;

	if (copies && !(s->is_direct && s->lend->is_spacious(s->sk)) &&
	    !chunk_room(&g->pool, (uint32_t)len, &room))
		return -ENOMEM;
	ssize_t r = push_now(s, iov, n, len);
	if (unlikely(r < 0))
		return r == -EAGAIN ? 0 : fails_later(s, (int)r);
	s->queued += (uint64_t)r;
	s->limit = s->queued;
	return r;
}

HOT int gsock_send(struct gsock *s, const struct iovec *iov, size_t n,
		   unsigned flags, uint32_t key, uintptr_t op_userdata)
{
	struct group *g = s->group;
	bool flushes = flags & GROUP_SEND_FLUSH;
	bool copies = flags & GROUP_SEND_COPY;
	uintptr_t userdata = copies ? 0 : op_userdata;
	struct txops l = { 0 };
	ssize_t len, done = 0;
	int err = may_send(s);

	if (unlikely(n > IOV_COUNT_MAX))
		return -EINVAL;
	if (unlikely(err))
		return err;
	len = vectors_len(iov, n);
	if (unlikely(len < 0))
		return (int)len;
	if (unlikely(!ops_reserve(g, n + 1)))
		return -ENOMEM;
	if (flushes && !s->out && len && n <= VECTORS_MAX &&
	    (!copies || len <= CHUNK_ROOM) &&
	    !(!copies && may_ref(s, iov, n, (size_t)len, key))) {
		done = send_now(g, s, iov, n, (size_t)len, copies);
		if (unlikely(done < 0))
			return (int)done;
	}
	if (unlikely(done < len) &&
	    !ops_make(g, &l, iov, n, (size_t)done, key, copies)) {
		ops_undo(g, &l);
		return -ENOMEM;
	}
	if (userdata)
		ops_complete_by(g, s, &l, userdata);
	ops_queue(s, &l, done == len && !s->out);
	if (flushes)
		flush_rest(g, s, done, userdata);
	else if (g->attr.keeps_dirty && list_is_empty(&s->dirty))
		list_add_tail(&g->dirty, &s->dirty);
	return 0;
}

void gsock_flush(struct gsock *s)
{
	if (s->group)
		flush(s->group, s);
}

void group_flush(struct group *g)
{
	while (!list_is_empty(&g->dirty))
		flush(g, container_of(g->dirty.next, struct gsock, dirty));
}
