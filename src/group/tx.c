/* SPDX-License-Identifier: MIT */
/*
 * group/tx.c - operations: gathered, flushed, out, acknowledged
 *
 *     send -> |first ... out ... last|  --flush-->  the protocol  -->  completion
 *              `- out --'`- to go --'
 *
 * All of an operation is taken or nothing: what it may need is allocated before
 * anything is sent.  A flushed one that finds nothing waiting goes out at once, and is
 * queued as far as it did not; the protocol copies bytes once.
 *
 * Acknowledged is what the peer's kernel has acknowledged (SIOCOUTQ); of a protocol that
 * puts bytes into the peer's own memory, all that it took; by reference (ref.c): what
 * the peer needs no longer.  Completions are called back in turns only.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/libc.h"
#include "group/gsock.h"
#include "group/memory.h"
#include "ops/ops.h"

#define OPS_A_SLAB 256
#define VECTORS_MAX 64
#define IOV_COUNT_MAX (1u << 20) /* places of one operation */

/* Type-stable: operations move between groups with their sockets. */
static struct lock lock;
static struct txop *free_ops;

static COLD bool ops_refill(struct group *g)
{
	GUARD(&lock);
	if (!free_ops) {
		struct txop *slab = calloc(OPS_A_SLAB, sizeof(*slab));

		for (int i = 0; slab && i < OPS_A_SLAB; i++) {
			slab[i].next = free_ops;
			free_ops = &slab[i];
		}
	}
	for (int i = 0; i < OPS_A_SLAB && free_ops; i++) {
		struct txop *op = free_ops;

		free_ops = op->next;
		op->next = g->free_ops;
		g->free_ops = op;
		g->n_free_ops++;
	}
	return g->free_ops;
}

/* @n operations can be had. */
static inline bool ops_reserve(struct group *g, size_t n)
{
	while (unlikely(g->n_free_ops < n))
		if (!ops_refill(g))
			return false;
	return true;
}

static inline struct txop *op_take(struct group *g)
{
	struct txop *op = g->free_ops;

	dassert(op);
	g->free_ops = op->next;
	g->n_free_ops--;
	op->next = NULL;
	op->copy = NULL;
	op->userdata = 0;
	op->may_ref = op->has_refs = 0;
	return op;
}

static void op_free(struct group *g, struct txop *op)
{
	if (op->copy)
		chunk_put(g ? &g->pool : NULL, op->copy);
	if (g) {
		op->next = g->free_ops;
		g->free_ops = op;
		g->n_free_ops++;
		return;
	}
	GUARD(&lock);
	op->next = free_ops;
	free_ops = op;
}

void txops_fini(struct group *g)
{
	GUARD(&lock);
	while (g->free_ops) {
		struct txop *op = g->free_ops;

		g->free_ops = op->next;
		op->next = free_ops;
		free_ops = op;
	}
	g->n_free_ops = 0;
}

void txops_after_fork(void)
{
	lock = (struct lock){ 0 };
	free_ops = NULL;
}

void txq_drop(struct gsock *s)
{
	while (s->first) {
		struct txop *op = s->first;

		s->first = op->next;
		op_free(NULL, op);
	}
	s->out = s->last = NULL;
	s->n_comps = 0;
}

/*
 * Out.
 */

/* By send() of whatever table the socket has: bytes taken, -EAGAIN, or the connection's
 * error. */
static ssize_t put_by_table(struct gsock *s, const struct iovec *iov, size_t n)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)iov, .msg_iovlen = n };
	int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
	ssize_t r = -ESTALE;

	while (s->sk && r == -ESTALE) {
		r = sock_ops(s->sk)->send(s->sk, s->fd, iov, n, flags);
	}
	if (s->sk)
		return r;
	r = n == 1 ? libc.send(s->fd, iov->iov_base, iov->iov_len, flags)
		   : libc.sendmsg(s->fd, &msg, flags);
	return r < 0 ? -errno : r;
}

/* Not direct, or not yet. */
static ssize_t put_other(struct gsock *s, const struct iovec *iov, size_t n,
			 size_t len)
{
	if (s->sk && sock_ops(s->sk)->is_due(s->sk, DIR_TX)) {
		ops_look(s->sk, s->fd);
		gsock_settle(s);
	}
	if (s->is_direct)
		return s->lend->send(s->sk, s->fd, iov, n, len);
	ssize_t r = put_by_table(s, iov, n);
	gsock_settle(s);
	return r;
}

HOT static ssize_t put(struct gsock *s, const struct iovec *iov, size_t n,
		       size_t len)
{
	ssize_t r = likely(s->is_direct)
			? s->lend->send(s->sk, s->fd, iov, n, len)
			: put_other(s, iov, n, len);

	if (unlikely(r == -ESTALE))
		r = put_by_table(s, iov, n);
	if (likely(r > 0))
		s->sent += (uint64_t)r;
	if (r == -EINTR)
		r = -EAGAIN;
	s->is_blocked = r < (ssize_t)len;
	return r;
}

/* @n bytes from @out on are out. */
static void advance(struct gsock *s, size_t n)
{
	while (s->out && s->out->end <= s->limit) {
		size_t left = s->out->len - s->out_done;

		if (n < left)
			break;
		n -= left;
		s->out_done = 0;
		s->out = s->out->next;
	}
	s->out_done += n;
}

/* What is next to be copied, up to what may go by reference (@refs). */
static size_t gather(const struct gsock *s, bool refs, struct iovec *iov,
		     size_t *len)
{
	size_t n = 0, skip = s->out_done;

	*len = 0;
	for (struct txop *op = s->out;
	     op && op->end <= s->limit && n < VECTORS_MAX; op = op->next) {
		const uint8_t *data = op->data + skip;
		size_t left = op->len - skip;
		size_t lead = refs && op->may_ref ? ref_lead(data, left) : left;

		if (lead) {
			iov[n++] = (struct iovec){ (void *)data, lead };
			*len += lead;
		}
		if (lead < left)
			break;
		skip = 0;
	}
	return n;
}

/* Those at the front that nobody asks for. */
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

static void await_acks(struct group *g, struct gsock *s)
{
	reap(g, s);
	if (!s->n_comps)
		return;
	if (s->is_direct && !s->has_early && !refs_are_out(s))
		work_add(s);
	else if (list_is_empty(&s->acks))
		list_add_tail(&g->acks, &s->acks);
}

/* By reference, as far as that goes: 1 all that may, 0 the rest has to be copied,
 * -ECONNRESET. */
static int push_refs(struct gsock *s)
{
	while (s->out && s->out->end <= s->limit && s->out->may_ref &&
	       s->out_done < s->out->len) {
		struct txop *op = s->out;

		if (ref_lead(op->data + s->out_done, op->len - s->out_done))
			return 1;
		ssize_t r = gsock_put_ref(s, op, s->out_done);
		if (r <= 0)
			return (int)r;
		op->has_refs = 1;
		op->n_refs = refs_sent(s);
		s->sent += (uint64_t)r;
		advance(s, (size_t)r);
	}
	return 1;
}

int gsock_push(struct group *g, struct gsock *s)
{
	struct iovec iov[VECTORS_MAX];
	bool refs = s->is_direct;
	size_t len, n;

	advance(s, 0); /* operations without bytes */
	for (;;) {
		ssize_t r = 0;

		if ((n = gather(s, refs, iov, &len))) {
			r = put(s, iov, n, len);
			if (r < 0 && r != -EAGAIN)
				return (int)r;
			advance(s, r > 0 ? (size_t)r : 0);
			if (r < (ssize_t)len)
				break;
		}
		if (!refs || (r = push_refs(s)) > 0) {
			if (!s->out || s->out->end > s->limit)
				break;
			continue;
		}
		if (r < 0)
			return (int)r;
		refs = false;
	}
	await_acks(g, s);
	return 0;
}

/*
 * In.
 */

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

/* Straight out, before anything is queued: bytes that went, or -errno. */
HOT static ssize_t send_now(struct group *g, struct gsock *s,
			    const struct iovec *iov, size_t n, size_t len,
			    bool copies)
{
	uint32_t room;

	if (copies && !(s->is_direct && s->lend->is_spacious(s->sk)) &&
	    !chunk_room(&g->pool, (uint32_t)len, &room))
		return -ENOMEM;
	ssize_t r = put(s, iov, n, len);
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
	if (userdata) {
		if (!l.last) {
			struct txop *op = op_take(g);

			op->data = NULL;
			op->len = 0;
			ops_add(&l, op);
		}
		l.last->userdata = userdata;
		s->n_comps++;
	}
	ops_queue(s, &l, done == len && !s->out);
	if (flushes && s->sent == s->queued) {
		s->limit = s->queued;
		if (userdata)
			await_acks(g, s);
	} else if (flushes) {
		if (done) { /* the rest waits for room */
			s->limit = s->queued;
			if (s->is_direct)
				work_add(s);
		} else {
			flush(g, s);
		}
	} else if (g->attr.keeps_dirty && list_is_empty(&s->dirty)) {
		list_add_tail(&g->dirty, &s->dirty);
	}
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

/*
 * Acknowledged.
 */

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

/* Has the connection ended in both directions, so that nobody acknowledges? */
static COLD bool is_dead(const struct gsock *s)
{
	struct pollfd p = { .fd = s->fd };

	return libc.poll(&p, 1, 0) > 0 && p.revents & (POLLERR | POLLHUP);
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
		if (libc.ioctl(s->fd, SIOCOUTQ, &n) < 0 || n < 0 ||
		    (n && s->hung_up && is_dead(s)))
			n = 0;
		if (s->is_direct && n &&
		    load_rlx(&s->sk->anchor_end) == ANCHOR_OPEN)
			return; /* a few bytes by TCP come before the others */
		s->has_early = 0;
	}
	s->acked = s->sent - MIN((uint64_t)n, s->sent);
	gsock_complete(g, s);
}
