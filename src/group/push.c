/* SPDX-License-Identifier: MIT */
/* group/push.c - see group/push.h */
#include <errno.h>

#include "base/libc.h"
#include "base/nocancel.h"
#include "group/ack.h"
#include "group/push.h"
#include "group/ref.h"
#include "group/sync.h"
#include "group/txop.h"
#include "ops/ops.h"

/* Send with the socket's own table: bytes sent, -EAGAIN, or the connection's
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
	r = n == 1 ? nocancel_send(s->fd, iov->iov_base, iov->iov_len, flags)
		   : nocancel_sendmsg(s->fd, &msg, flags);
	return r < 0 ? -errno : r;
}

/* The connection is on TCP, or not direct yet. */
static ssize_t put_other(struct gsock *s, const struct iovec *iov, size_t n,
			 size_t len)
{
	if (s->sk && sock_ops(s->sk)->is_due(s->sk, DIR_TX)) {
		ops_advance(s->sk, s->fd);
		gsock_sync(s);
	}
	if (s->is_direct)
		return s->lend->send(s->sk, s->fd, iov, n, len);
	ssize_t r = put_by_table(s, iov, n);
	gsock_sync(s);
	return r;
}

HOT ssize_t push_now(struct gsock *s, const struct iovec *iov, size_t n,
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

/* @n bytes more, from @out on, have been sent. */
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

/* The next bytes to copy, up to those that go by reference (@refs). */
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

/* Send by reference as much as possible.  1: sent all that may go that way; 0:
 * copy the rest; or -ECONNRESET. */
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
			r = push_now(s, iov, n, len);
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
