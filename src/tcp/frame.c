/* SPDX-License-Identifier: MIT */
/*
 * tcp/frame.c - builds a frame: headers, and pieces of the send queue
 *
 *     tx.c: which bytes -> frame_gather() -> pieces -> frame_finish() -> the port
 *                                                          tcp_frame_done() <- the port
 *
 * Each piece holds a reference to its extent until the port is done with the frame.
 */
#include "tcp/snd.h"
#include "tcp/stack.h"

#include "ip/checksum.h"

/* Writes the headers of a frame that has its pieces. */
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

/* The piece of the send queue in which a sent range begins; NULL if the range has no
 * bytes. */
struct range *range_piece(const struct tcp_conn *c, const struct range *r)
{
	return seq_eq(r->seq, c->snd_una) ? c->sndq.head : r->piece;
}

/* Notes that the part of the last sent range from @piece on begins with that piece. */
static COLD void tail_begin_at(struct tcp_conn *c, struct range *piece)
{
	struct range *last = c->sent.tail;

	if (last->flags & RANGE_SACKED) {
		last->end_piece = piece;
		last->end_seq = piece->seq;
	} else if (sent_may_split(c)) {
		sent_split_there(c, last, piece->seq, piece);
	}
}

/* The piece with the next byte to be sent, which must exist.  The last sent range lies
 * in few pieces and knows the first of them, so the search begins there.  Only a range
 * that the peer has reneged on may lie in many: then the search stops, and a later call
 * goes on where it was.  Return: NULL if it stops */
struct range *sndq_next(struct tcp_conn *c)
{
	struct range *r = c->sndq.tail;
	const struct range *last = c->sent.tail;

	/* The next byte usually came with the last tcp_send().  Earlier pieces are in
	 * no cache. */
	if (seq_le(r->seq, c->snd_nxt))
		return r;
	r = c->sndq.head;
	if (seq_lt(c->snd_nxt, range_end(r)))
		return r;
	bool is_sacked = last->flags & RANGE_SACKED;
	if (seq_lt(c->snd_una, is_sacked ? last->end_seq : last->seq))
		r = is_sacked ? last->end_piece : last->piece;
	for (unsigned i = 0; seq_le(range_end(r), c->snd_nxt); i++) {
		if (i > TCP_FRAME_PIECES) {
			tail_begin_at(c, r);
			return NULL;
		}
		r = r->next;
		work_add(&c->stack->work, 1);
	}
	return r;
}

/* Adds up to @len bytes of the send queue from @seq on to the frame.  *@at is the piece
 * that contains @seq; on return it is the piece behind the last byte, or NULL.  Return:
 * how many bytes; fewer when they lie in too many extents. */
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

/* Of the @all unsent bytes, how many may share a frame with the first one, which lies
 * in @r: those up to the next MSG_EOR. */
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
