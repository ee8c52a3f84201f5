/* SPDX-License-Identifier: MIT */
/*
 * tcp/bytes.c - the program's bytes, sent and received
 *
 *     tcp_send() -> copied into extents -> the send queue -> tx.c
 *     rcvq.c -> the receive queue -> tcp_peek(), tcp_consume() -> the window: rcvwin.c
 *
 * lend.c sends bytes without a copy.
 *
 * Spec: RFC 9293 section 3.10.2, 3.10.3
 */
#include "tcp/calls.h"
#include "tcp/ctl.h"
#include "tcp/rcv.h"
#include "tcp/snd.h"
#include "tcp/stack.h"

#define REST_WORTH 8 /* the smallest part of an extent to keep */

uint32_t snd_space(const struct tcp_conn *c)
{
	const struct tcp_config *cfg = &c->stack->cfg;
	uint32_t used = seq_len(c->snd_una, c->snd_end);
	bool is_set = c->flags & CONN_SND_BUF_SET;
	uint32_t limit = is_set ? c->snd_buf : cfg->snd_buf;

	/* Room for two windows: one in flight, and one that is ready to follow it. */
	if (!is_set && limit < cfg->snd_buf_max && limit / 2 < c->cwnd)
		limit = MIN(2 * c->cwnd, cfg->snd_buf_max);
	return used < limit ? limit - used : 0;
}

uint32_t tcp_room(const struct tcp_conn *c) { return snd_space(c); }

/* TCP_NOTSENT_LOWAT: how many more bytes may wait, besides those that can leave at
 * once.  Return: @room at most */
uint32_t snd_lowat_space(const struct tcp_conn *c, uint32_t room)
{
	uint64_t most = (uint64_t)conn_sendable(c) + c->notsent_lowat;
	uint32_t unsent = tcp_unsent_bytes(c);

	return unsent < most ? (uint32_t)MIN(most - unsent, (uint64_t)room) : 0;
}

/* The send queue must leave ranges for what is sent, or nothing can be sent. */
bool sndq_has_ranges(const struct tcp_stack *s)
{
	return s->pool_ranges.n_free &&
	       s->pool_ranges.n_free >= s->pool_ranges.n / 4;
}

void sndq_append(struct tcp_conn *c, struct range *r)
{
	if (c->sndq.tail)
		c->sndq.tail->next = r;
	else
		c->sndq.head = r;
	c->sndq.tail = r;
}

/* A small rest of an extent is not worth a range and the cache lines that it costs. */
static bool is_rest_worth(const struct tcp_stack *s, const struct range *r,
			  uint32_t want)
{
	return r->room && (r->room >= want ||
			   r->room >= s->pool_extents.size / REST_WORTH);
}

/* The last piece of the send queue if it has free bytes behind it, else a new one. */
static struct range *sndq_room(struct tcp_conn *c, uint32_t want)
{
	struct tcp_stack *s = c->stack;
	struct range *r = c->sndq.tail;

	if (r && !is_rest_worth(s, r, want))
		r = NULL;
	if (r && !(r->flags & RANGE_EOR))
		return r;
	if (!sndq_has_ranges(s))
		return NULL;
	struct extent *e =
	    r ? extent_get(r->ext) : extent_new(&s->pool_extents);
	if (!e)
		return NULL;
	struct range *next = pool_get(&s->pool_ranges);
	*next = (struct range){ .ext = e,
				.off = r ? r->off + r->len : 0,
				.room = r ? r->room : e->cap,
				.seq = c->snd_end };
	if (r)
		r->room = 0;
	sndq_append(c, next);
	return next;
}

int take_error(struct tcp_conn *c)
{
	int err = c->err;

	c->err = 0;
	return err;
}

/* Return: why the program cannot send, or 0. */
ssize_t send_refusal(struct tcp_conn *c)
{
	if (c->err)
		return take_error(c);
	if (c->state == TCP_SYN_SENT || c->state == TCP_SYN_RCVD)
		return c->flags & CONN_SHUT_WR ? -EPIPE : -EAGAIN;
	return conn_may_send(c) ? 0 : -EPIPE;
}

void tcp_send_soon(struct tcp_stack *s, const struct tcp_conn *c)
{
	const struct tcp_conn **at = &s->soon[s->n_soon++ % SOON];

	conn_fetch(c, CONN_LINES_TX);
	if (*at)
		conn_fetch_tails(*at);
	*at = c;
}

ssize_t tcp_send(struct tcp_conn *c, const void *buf, size_t len,
		 uint64_t now_ns)
{
	return tcp_send_as(c, buf, len, 0, now_ns);
}

ssize_t tcp_send_as(struct tcp_conn *c, const void *buf, size_t len,
		    unsigned how, uint64_t now_ns)
{
	uint32_t done = 0;

	conn_fetch(c, CONN_LINES_TX);
	conn_fetch_tails(c);
	ssize_t refusal = send_refusal(c);

	stack_at(c->stack, now_ns);
	if (refusal)
		return refusal;
	uint32_t want = (uint32_t)MIN(len, (size_t)snd_space(c));
	if (c->rec.has_lowat)
		want = snd_lowat_space(c, want);
	if (want < len)
		c->rec.wants_room = true;
	while (done < want) {
		struct range *r = sndq_room(c, want - done);
		if (!r)
			break;
		uint32_t part = MIN(r->room, want - done);

		memcpy(r->ext->data + r->off + r->len,
		       (const uint8_t *)buf + done, part);
		r->len += part;
		r->room -= part;
		c->snd_end = seq_add(c->snd_end, part);
		done += part;
	}
	if (!done)
		return len ? -EAGAIN : 0;
	c->flags &= ~(uint32_t)(CONN_MORE | CONN_PUSH_ALL);
	c->flags |= how & TCP_SEND_MORE ? CONN_MORE : 0u;
	c->rec.has_more = how & TCP_SEND_MORE;
	if (how & TCP_SEND_EOR && done == len) {
		c->sndq.tail->flags |= RANGE_EOR;
		c->rec.has_eor = true;
	}
	if (how & TCP_SEND_URGENT) {
		c->snd_up = c->snd_end;
		c->flags |= CONN_URG_OUT;
	}
	conn_set_pending(c, TX_DATA);
	return done;
}

/* What a read returns when there are no bytes. */
static ssize_t nothing_there(struct tcp_conn *c)
{
	/* The stream ended with a FIN, whatever happened to the connection later. */
	if (c->flags & CONN_FIN_RCVD)
		return 0;
	if (c->err)
		return take_error(c);
	return c->state == TCP_CLOSED ? 0 : -EAGAIN;
}

ssize_t tcp_peek(struct tcp_conn *c, const uint8_t **data)
{
	struct range *r = c->rcvq.head;
	uint32_t len = r ? r->len : 0;

	if (len && c->flags & CONN_URG_IN && !(len = urg_limit(c, len))) {
		r = c->rcvq.head;
		len = r ? r->len : 0;
	}
	/* A FIN that came without new bytes leaves an empty piece. */
	if (len) {
		*data = r->ext->data + r->off;
		return len;
	}
	return nothing_there(c);
}

ssize_t tcp_peek_at(struct tcp_conn *c, uint32_t off, const uint8_t **data)
{
	seq32 at = conn_copied(c), end = seq_add(at, c->rcvq_bytes), from = at;
	const struct range *r = c->rcvq.head;

	/* A read skips the urgent byte when it is next, and stops before it otherwise. */
	if (urg_hides_next(c))
		at = seq_add(at, 1);
	else if (urg_is_ahead(c) && seq_lt(c->urg_seq, end))
		end = c->urg_seq;
	if (off >= seq_len(at, end))
		return off ? 0 : nothing_there(c);
	uint32_t skip = seq_len(from, seq_add(at, off));
	for (; skip >= r->len; r = r->next)
		skip -= r->len;
	*data = r->ext->data + r->off + skip;
	return MIN(r->len - skip, seq_len(seq_add(at, off), end));
}

void rcvq_shift(struct tcp_conn *c, uint32_t n_bytes)
{
	while (n_bytes) {
		struct range *r = c->rcvq.head;
		uint32_t part = MIN(n_bytes, r->len);

		r->off += part;
		r->len -= part;
		c->rcvq_bytes -= part;
		n_bytes -= part;
		if (r->len)
			return;
		c->rcvq.head = r->next;
		if (!r->next)
			c->rcvq.tail = NULL;
		rcv_piece_free(c, r);
	}
}

void tcp_consume(struct tcp_conn *c, uint32_t n, uint64_t now_ns)
{
	stack_at(c->stack, now_ns);
	assert(n <= c->rcvq_bytes);
	rcvq_shift(c, n);
	if (c->flags & CONN_URG_IN)
		urg_passed(c);
	if (c->state < TCP_ESTABLISHED || c->flags & CONN_FIN_RCVD)
		return;
	rcv_tune(c);
	/* Tell the peer when the window has grown by enough to matter.  And when the
	 * program has all of what the peer's program has sent, and is not expected to
	 * answer: the peer may wait for the ACK. */
	if (rcv_window_is_news(c) ||
	    (c->delack_slot && c->was_pushed && !c->rcvq_bytes &&
	     !(c->flags & CONN_PINGPONG)))
		conn_set_pending(c, TX_ACK);
}
