/* SPDX-License-Identifier: MIT */
/*
 * tcp/frame.c - what a frame is made of: pieces of the send queue, and headers
 *
 *     tx.c: which bytes -> frame_gather() -> pieces -> frame_finish() -> the port
 *                                                          tcp_frame_done() <- the port
 *
 * A piece holds a reference to its extent until the port is done with the frame.
 */
#include "tcp/conn.h"

#include "ip/checksum.h"

/* The headers of a frame whose pieces are in place. */
void frame_finish(const struct tcp_stack *s, struct tcp_frame *f, uint8_t laddr,
		  const struct ip_addr *raddr, const struct tcp_seg *seg,
		  uint8_t ecn)
{
	const struct ip_addr *src = &s->cfg.addrs[laddr];
	uint32_t ip_len = ip_head_len(raddr);
	uint8_t *tcp = f->head + ip_len;
	uint32_t tcp_len = tcp_head_build(tcp, seg);
	struct cksum sum =
	    ip_pseudo_sum(src, raddr, IP_PROTO_TCP, tcp_len + f->len);

	ip_build(f->head, src, raddr, IP_PROTO_TCP, ecn, tcp_len + f->len);
	f->ip_len = (uint16_t)ip_len;
	f->head_len = (uint16_t)(ip_len + tcp_len);
	if (f->gso_size || s->cfg.has_port_sums) {
		store_be16(tcp + 16, (uint16_t)~cksum_end(&sum));
		return;
	}
	cksum_add(&sum, tcp, tcp_len);
	for (uint32_t i = 0; i < f->n_pieces; i++)
		cksum_add(&sum, f->pieces[i].data, f->pieces[i].len);
	store_be16(tcp + 16, cksum_end(&sum));
}

void tcp_frame_done(struct tcp_frame *f)
{
	for (uint32_t i = 0; i < f->n_pieces; i++)
		extent_put(f->pieces[i].ext);
	f->n_pieces = 0;
}

/* The piece of the send queue in which a range begins; NULL if it has no bytes. */
struct range *range_piece(const struct tcp_conn *c, const struct range *r)
{
	return seq_eq(r->seq, c->snd_una) ? c->sndq.head : r->piece;
}

/* The piece that has the next new byte, which is there.  What was sent last is in few
 * pieces, the first of which is known. */
struct range *sndq_next(const struct tcp_conn *c)
{
	struct range *r = c->sndq.tail;
	const struct range *last = c->sent.tail;

	/* Most are new, and of the last call; what is older is in no cache. */
	if (seq_le(r->seq, c->snd_nxt))
		return r;
	r = c->sndq.head;
	if (seq_lt(c->snd_nxt, range_end(r)))
		return r;
	bool is_sacked = last->flags & RANGE_SACKED;
	if (seq_lt(c->snd_una, is_sacked ? last->end_seq : last->seq))
		r = is_sacked ? last->end_piece : last->piece;
	for (; seq_le(range_end(r), c->snd_nxt); r = r->next)
		work_add(&c->stack->work, 1);
	return r;
}

/* Refers to up to @len bytes of the send queue from @seq on, which lies in *@at; on return
 * *@at has the byte behind them, or is NULL.  Return: how many; fewer when they lie in too
 * many extents. */
uint32_t frame_gather(struct tcp_frame *f, struct range **at, seq32 seq,
		      uint32_t len)
{
	const struct range *r = *at;
	uint32_t done = 0;

	while (done < len && f->n_pieces < TCP_FRAME_PIECES) {
		uint32_t skip = seq_len(r->seq, seq_add(seq, done));
		uint32_t part = MIN(r->len - skip, len - done);
		bool is_end = r->flags & RANGE_EOR;

		f->pieces[f->n_pieces++] =
		    (struct tcp_piece){ extent_get(r->ext),
					r->ext->data + r->off + skip, part };
		done += part;
		if (skip + part < r->len)
			break;
		r = *at = r->next;
		if (is_end)
			break;
	}
	f->len = done;
	return done;
}

/* Of the @all bytes that were not sent yet, those that may share a frame with the first,
 * which lies in @n. */
uint32_t record_bytes(struct tcp_conn *c, const struct range *r, uint32_t all)
{
	for (unsigned i = 0; r && i < TCP_FRAME_PIECES; i++, r = r->next) {
		if (r->flags & RANGE_EOR)
			return seq_len(c->snd_nxt, range_end(r));
		work_add(&c->stack->work, 1);
	}
	if (!r)
		c->rec.has_eor = false;
	return all;
}
