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
struct node *range_piece(const struct tcp_conn *c, const struct node *n)
{
	return seq_eq(n->seq, c->snd_una) ? c->sndq.head : n->piece;
}

/* The piece that has the next new byte, which is there.  What was sent last is in few
 * pieces, the first of which is known. */
struct node *sndq_next(const struct tcp_conn *c)
{
	struct node *n = c->sndq.tail;
	const struct node *last = c->sent.tail;

	/* Most are new, and of the last call; what is older is in no cache. */
	if (seq_le(n->seq, c->snd_nxt))
		return n;
	n = c->sndq.head;
	if (seq_lt(c->snd_nxt, node_end(n)))
		return n;
	bool is_sacked = last->flags & NODE_SACKED;
	if (seq_lt(c->snd_una, is_sacked ? last->end_seq : last->seq))
		n = is_sacked ? last->end_piece : last->piece;
	for (; seq_le(node_end(n), c->snd_nxt); n = n->next)
		work_add(&c->stack->work, 1);
	return n;
}

/* Refers to up to @len bytes of the send queue from @seq on, which lies in *@at; on return
 * *@at has the byte behind them, or is NULL.  Return: how many; fewer when they lie in too
 * many extents. */
uint32_t frame_gather(struct tcp_frame *f, struct node **at, seq32 seq,
		      uint32_t len)
{
	const struct node *n = *at;
	uint32_t done = 0;

	while (done < len && f->n_pieces < TCP_FRAME_PIECES) {
		uint32_t skip = seq_len(n->seq, seq_add(seq, done));
		uint32_t part = MIN(n->len - skip, len - done);
		bool is_end = n->flags & NODE_EOR;

		f->pieces[f->n_pieces++] =
		    (struct tcp_piece){ extent_get(n->ext),
					n->ext->data + n->off + skip, part };
		done += part;
		if (skip + part < n->len)
			break;
		n = *at = n->next;
		if (is_end)
			break;
	}
	f->len = done;
	return done;
}

/* Of the @all bytes that were not sent yet, those that may share a frame with the first,
 * which lies in @n. */
uint32_t record_bytes(struct tcp_conn *c, const struct node *n, uint32_t all)
{
	for (unsigned i = 0; n && i < TCP_FRAME_PIECES; i++, n = n->next) {
		if (n->flags & NODE_EOR)
			return seq_len(c->snd_nxt, node_end(n));
		work_add(&c->stack->work, 1);
	}
	if (!n)
		c->rec.has_eor = false;
	return all;
}
