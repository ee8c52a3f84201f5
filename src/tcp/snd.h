/* SPDX-License-Identifier: MIT */
/*
 * tcp/snd.h - the sending side of a connection
 *
 *     bytes.c  the program's bytes enter the send queue
 *     tx.c     picks what to send next
 *     unsent.c new bytes: how many may be sent now
 *     frame.c  builds the frame
 *     sent.c   the ranges that were sent, and what ACKs say of them
 *     lost.c   which of these ranges are lost
 */
#pragma once

#include "tcp/conn.h"
#include "tcp/tcp.h"

/* What a connection wants to send.  tcp_tx() looks at connections with any of these. */
enum tx_pending {
	TX_ACK = 1,
	TX_DATA = 2, /* bytes or a FIN may be ready: check */
	TX_SYN = 4,
	TX_PROBE = 8,  /* of the peer's window, or keepalive */
	TX_FORCE = 16, /* the next lost range may exceed cwnd */
	TX_PUSH = 32,  /* a small segment may exceed the window's limits */
	TX_TLP = 64,   /* a tail loss probe may exceed cwnd */
};

/* Bytes that are believed to be in flight. */
static inline uint32_t conn_pipe(const struct tcp_conn *c)
{
	uint32_t out =
	    seq_len(c->snd_una, c->snd_nxt) - c->sacked_bytes - c->lost_bytes;

	if (c->flags & CONN_SACK)
		return out;
	uint64_t left = (uint64_t)c->n_reno_sacks * c->mss;
	return left < out ? out - (uint32_t)left : 0;
}

/* Moves snd_una ahead. */
static inline void conn_una_set(struct tcp_conn *c, seq32 to)
{
	if (to.v < c->snd_una.v)
		c->snd_wraps++;
	c->snd_una = to;
}

static inline bool conn_may_send(const struct tcp_conn *c)
{
	return c->state == TCP_ESTABLISHED || c->state == TCP_CLOSE_WAIT;
}

/* Whether bytes, or a FIN, have not been sent yet. */
static inline bool conn_has_unsent(const struct tcp_conn *c)
{
	return seq_lt(c->snd_nxt, c->snd_end) ||
	       (c->flags & (CONN_SHUT_WR | CONN_FIN_SENT)) == CONN_SHUT_WR;
}

/* Fetches the ends of both queues into the cache: the next bytes are linked to them. */
static inline void conn_fetch_tails(const struct tcp_conn *c)
{
	__builtin_prefetch(c->sent.tail, 1);
	__builtin_prefetch(c->sndq.tail, 1);
}

/* Whether a range that was sent is taken for lost; see sent.c. */
static inline bool range_is_lost(const struct tcp_conn *c,
				 const struct range *r)
{
	if (!c->lost_bytes || r->flags & RANGE_SACKED)
		return false;
	return r->era == c->era ? r->flags & RANGE_LOST : c->is_era_lost;
}

/* --- bytes.c --- */

uint32_t snd_space(const struct tcp_conn *c);
uint32_t snd_lowat_space(const struct tcp_conn *c, uint32_t room);
bool sndq_has_ranges(const struct tcp_stack *s);
void sndq_append(struct tcp_conn *c, struct range *r);
ssize_t send_refusal(struct tcp_conn *c);

/* --- tx.c --- */

void conn_set_pending(struct tcp_conn *c, unsigned what);
void conn_set_pending_data(struct tcp_conn *c);
uint32_t conn_tsval(const struct tcp_conn *c);
int64_t conn_ts_age_us(const struct tcp_conn *c, uint32_t ts);
uint32_t conn_seg_room(const struct tcp_conn *c);
uint32_t conn_frame_room(const struct tcp_conn *c, uint32_t room);
void range_send(struct tcp_conn *c, struct tcp_frame *f, const struct range *r,
		uint32_t bytes);
void range_sent(struct tcp_conn *c, struct range *r);

/* --- unsent.c --- */

uint32_t conn_sendable(const struct tcp_conn *c);
bool unsent_send(struct tcp_conn *c, struct tcp_frame *f);

/* --- frame.c --- */

struct range *sndq_next(struct tcp_conn *c);
struct range *range_piece(const struct tcp_conn *c, const struct range *r);
uint32_t frame_gather(struct tcp_frame *f, struct range **at, seq32 seq,
		      uint32_t len);
COLD uint32_t record_bytes(struct tcp_conn *c, const struct range *r,
			   uint32_t all);
void frame_finish(const struct tcp_stack *s, struct tcp_frame *f, uint8_t laddr,
		  const struct ip_addr *raddr, const struct tcp_seg *seg,
		  uint8_t ecn);

/* --- sent.c --- */

void sent_acked(struct tcp_conn *c, seq32 ack, struct ack_told *t);
void sent_sacked(struct tcp_conn *c, const struct tcp_seg *seg,
		 struct ack_told *t);
bool sent_may_split(const struct tcp_conn *c);
bool sent_split(struct tcp_conn *c, struct range *r, seq32 at);
void sent_split_there(struct tcp_conn *c, struct range *r, seq32 at,
		      struct range *piece);
bool range_is_probe(const struct tcp_conn *c, const struct range *r);
void range_again(struct tcp_conn *c, struct range *r);
void sndq_acked(struct tcp_conn *c, seq32 ack);
void sent_free(struct tcp_conn *c);

/* --- lost.c --- */

void range_uncount(struct tcp_conn *c, const struct range *r, uint32_t bytes);
struct range *sent_first_lost(struct tcp_conn *c);
void sent_mark_lost(struct tcp_conn *c, struct range *r);
void sent_mark_all_lost(struct tcp_conn *c);
void sent_unmark_lost(struct tcp_conn *c);
