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

/* The piece of the send queue that @seq lies in.  New bytes and old ones are each
 * gathered in their order, so each search goes on where the last one ended. */
static struct node *sndq_find(struct tcp_conn *c, seq32 seq)
{
	struct node **hint = &c->sndq_hints[seq_eq(seq, c->snd_nxt)];
	struct node *n = c->sndq.tail;

	/* Most are new, and of the last call; what is older is in no cache. */
	if (seq_le(n->seq, seq))
		return n;
	n = c->sndq.head;
	if (seq_lt(seq, node_end(n)))
		return n;
	if (*hint && seq_le((*hint)->seq, seq))
		n = *hint;
	while (!seq_lt(seq, node_end(n)))
		n = n->next;
	n->flags |= NODE_HINT;
	*hint = n;
	return n;
}

/* Refers to up to @len bytes of the send queue from @seq on.  Return: how many; fewer
 * when they lie in too many extents. */
uint32_t frame_gather(struct tcp_conn *c, struct tcp_frame *f, seq32 seq,
		      uint32_t len)
{
	const struct node *n = len ? sndq_find(c, seq) : NULL;
	uint32_t done = 0;

	for (; done < len && f->n_pieces < TCP_FRAME_PIECES; n = n->next) {
		uint32_t skip = seq_len(n->seq, seq_add(seq, done));
		uint32_t part = MIN(n->len - skip, len - done);

		f->pieces[f->n_pieces++] =
		    (struct tcp_piece){ extent_get(n->ext),
					n->ext->data + n->off + skip, part };
		done += part;
		if (n->flags & NODE_EOR && skip + part == n->len)
			break;
	}
	f->len = done;
	return done;
}

/* Of the @all bytes that were not sent yet, those that may share a segment. */
uint32_t record_bytes(struct tcp_conn *c, uint32_t all)
{
	const struct node *n = sndq_find(c, c->snd_nxt);

	for (; n; n = n->next)
		if (n->flags & NODE_EOR)
			return seq_len(c->snd_nxt, node_end(n));
	c->rec.has_eor = false;
	return all;
}
