/* SPDX-License-Identifier: MIT */
/*
 * tcp/urg.c - the urgent pointer: one byte that is read apart, and a mark
 *
 *     a segment with URG -> urg_rx() -> urg_seq, and the byte when it has arrived
 *
 * As in Linux, the pointer names the byte behind the last urgent one, and one byte is out
 * of band: a read stops before it, and the next read goes on behind it.  The byte stays in
 * the receive queue and in the window.  tcp_recv_urgent() returns the byte until a read has
 * gone past it.  A newer pointer replaces an older one.
 *
 * Spec: RFC 9293 section 3.8.5, RFC 6093
 */
#include <errno.h>

#include "tcp/calls.h"
#include "tcp/ctl.h"
#include "tcp/opt.h"
#include "tcp/rcv.h"

/* Forgets a mark that reading has passed. */
void urg_passed(struct tcp_conn *c)
{
	if (seq_lt(c->urg_seq, conn_copied(c))) {
		c->urg_state = URG_NONE;
		c->flags &= ~(uint32_t)CONN_URG_IN;
	}
}

static bool is_at_mark(const struct tcp_conn *c)
{
	return c->urg_state != URG_NONE && seq_eq(c->urg_seq, conn_copied(c));
}

bool urg_hides_next(const struct tcp_conn *c)
{
	return c->rcvq_bytes && is_at_mark(c) && !(c->flags & CONN_OOB_INLINE);
}

/* Whether reads will come to a mark at which they stop. */
bool urg_is_ahead(const struct tcp_conn *c)
{
	return c->flags & CONN_URG_IN && !(c->flags & CONN_OOB_INLINE) &&
	       seq_lt(conn_copied(c), c->urg_seq);
}

/* How many of the first @len bytes one read may return: it does not cross the mark.  If
 * the urgent byte is first, the call skips it. */
uint32_t urg_limit(struct tcp_conn *c, uint32_t len)
{
	seq32 at = conn_copied(c);

	if (seq_lt(at, c->urg_seq))
		return MIN(len, seq_len(at, c->urg_seq));
	if (!urg_hides_next(c))
		return len;
	rcvq_shift(c, 1);
	urg_passed(c);
	return 0;
}

static void pointer_rx(struct tcp_conn *c, const struct tcp_seg *seg)
{
	seq32 at = seq_add(seg->seq, seg->urg ? seg->urg - 1u : 0);

	/* An older pointer, or the same again. */
	if (seq_lt(at, c->rcv_nxt) ||
	    (c->urg_state != URG_NONE && seq_le(at, c->urg_seq)))
		return;
	if (urg_hides_next(c))
		rcvq_shift(c, 1);
	c->urg_seq = at;
	c->urg_state = URG_AHEAD;
	c->flags |= CONN_URG_IN;
	conn_news(c);
}

/* The segment's number is acceptable; it is not trimmed yet. */
void urg_rx(struct tcp_conn *c, const struct arrival *a)
{
	if (c->flags & (CONN_ORPHAN | CONN_FIN_RCVD))
		return;
	if (a->seg.flags & TCP_URG)
		pointer_rx(c, &a->seg);
	if (c->urg_state != URG_AHEAD || seq_lt(c->urg_seq, a->seg.seq))
		return;
	uint32_t off = seq_len(a->seg.seq, c->urg_seq);
	if (off < a->seg.len) {
		c->urg_byte = a->ext->data[a->off + off];
		c->urg_state = URG_HERE;
		conn_news(c);
	}
}

ssize_t tcp_recv_urgent(struct tcp_conn *c, uint8_t *byte, bool is_peek)
{
	if (c->flags & CONN_OOB_INLINE || c->urg_state == URG_NONE ||
	    c->urg_state == URG_READ)
		return -EINVAL;
	if (c->urg_state == URG_AHEAD)
		return c->state == TCP_CLOSED || c->flags & CONN_FIN_RCVD
			   ? 0
			   : -EAGAIN;
	*byte = c->urg_byte;
	if (!is_peek)
		c->urg_state = URG_READ;
	return 1;
}

bool tcp_is_at_mark(const struct tcp_conn *c) { return is_at_mark(c); }

void tcp_set_oob_inline(struct tcp_conn *c, bool is_on)
{
	c->flags &= ~(uint32_t)CONN_OOB_INLINE;
	c->flags |= is_on ? CONN_OOB_INLINE : 0u;
}

/* The urgent pointer of a segment of ours that begins at @seq.  Return: false if it has
 * none */
bool urg_pointer(const struct tcp_conn *c, seq32 seq, uint16_t *out)
{
	uint32_t ahead = seq_len(seq, c->snd_up);

	if (!seq_lt(seq, c->snd_up))
		return false;
	if (ahead > UINT16_MAX && !seq_lt(c->snd_nxt, seq_add(seq, UINT16_MAX)))
		return false;
	*out = (uint16_t)MIN(ahead, (uint32_t)UINT16_MAX);
	return true;
}
