/* SPDX-License-Identifier: MIT */
/*
 * tcp/rcv.h - the receiving side of a connection
 *
 *     rx.c      what one arriving segment does; syn_sent.c: while we open
 *     reset.c   what a stranger could have sent
 *     rcvq.c    the queues of received bytes, in order and out of order
 *     runs.c    a search tree over the bytes out of order
 *     rcvwin.c  the window that we offer, and the memory behind it
 *     urg.c     the urgent pointer
 */
#pragma once

#include "base/drop.h"
#include "tcp/conn.h"
#include "tcp/export.h"

/* An arriving segment: its parsed header, and where its payload lies. */
struct arrival {
	struct tcp_seg seg;
	struct extent *ext;
	uint32_t off; /* of the payload in ext */
	const struct ip_addr *raddr;
	uint8_t laddr;
	uint8_t ecn;  /* of the IP header */
	bool is_lent; /* TCP_RX_LENT */
};

/* Where the urgent byte at urg_seq is. */
enum urg_state {
	URG_NONE,
	URG_AHEAD, /* has not arrived */
	URG_HERE,
	URG_READ,
};

/* Moves rcv_nxt ahead. */
static inline void conn_rcv_advance(struct tcp_conn *c, uint32_t n)
{
	seq32 to = seq_add(c->rcv_nxt, n);

	if (to.v < c->rcv_nxt.v)
		c->rcv_wraps++;
	c->rcv_nxt = to;
}

/* The number of the next byte that the program reads. */
static inline seq32 conn_copied(const struct tcp_conn *c)
{
	return seq_sub(c->rcv_nxt,
		       c->rcvq_bytes + !!(c->flags & CONN_FIN_RCVD));
}

/* --- rx.c --- */

void conn_rx(struct tcp_conn *c, struct arrival *a);
void conn_peer_shut(struct tcp_conn *c);

/* --- syn_sent.c --- */

void syn_sent_rx(struct tcp_conn *c, struct arrival *a);

/* --- reset.c --- */

void conn_refuse(struct tcp_conn *c, enum drop_reason why);
bool conn_is_end_held(struct tcp_conn *c, enum tcp_end end);
void conn_reset(struct tcp_conn *c);
void rst_rx(struct tcp_conn *c, const struct tcp_seg *seg);

/* --- rcvq.c --- */

bool rcvq_add(struct tcp_conn *c, const struct arrival *a);
COLD uint32_t rcvq_blocks(const struct tcp_conn *c, struct tcp_sack *out);
void rcvq_free(struct tcp_conn *c);
void rcvq_end(struct tcp_conn *c);
COLD void rcvq_resume(struct tcp_conn *c, struct range *r);
void rcv_piece_free(struct tcp_conn *c, struct range *r);

/* Writes the SACK blocks of the next segment.  Return: how many, usually 0. */
static inline uint32_t rcvq_sacks(const struct tcp_conn *c,
				  struct tcp_sack *out)
{
	return c->oooq || c->flags & CONN_DSACK ? rcvq_blocks(c, out) : 0;
}

/* --- runs.c --- */

void run_came(struct tcp_conn *c, struct range *r);
void run_insert(struct tcp_conn *c, struct range *r);
void run_gone(struct tcp_conn *c, struct range *r);
void run_remove(struct tcp_conn *c, struct range *r);
void run_replace(struct tcp_conn *c, struct range *run, struct range *r);
void runs_cut(struct tcp_conn *c, seq32 seq);
void runs_drop(struct tcp_conn *c);
struct range *run_find(const struct tcp_conn *c, seq32 at);
struct range *run_last(const struct tcp_conn *c);
const struct range *run_by_age(const struct tcp_conn *c, const struct range *r);

/* --- rcvwin.c --- */

uint32_t rcv_mem_max(const struct tcp_conn *c);
void rcv_window_update(struct tcp_conn *c);
bool rcv_window_is_news(const struct tcp_conn *c);
bool rcv_window_is_used_up(const struct tcp_conn *c);
uint8_t rcv_scale(const struct tcp_stack *s, uint32_t set);
uint32_t rcv_first(const struct tcp_stack *s, uint32_t set, uint32_t mss);
void rcv_promise(struct tcp_conn *c);
void rcv_tune_init(struct tcp_conn *c);
void rcv_tune(struct tcp_conn *c);
void rcv_rtt_sample(struct tcp_conn *c, const struct tcp_seg *seg);

/* --- urg.c --- */

void urg_rx(struct tcp_conn *c, const struct arrival *a);
void urg_passed(struct tcp_conn *c);
bool urg_hides_next(const struct tcp_conn *c);
bool urg_is_ahead(const struct tcp_conn *c);
uint32_t urg_limit(struct tcp_conn *c, uint32_t len);
bool urg_pointer(const struct tcp_conn *c, seq32 seq, uint16_t *out);

/* --- bytes.c --- */

void rcvq_shift(struct tcp_conn *c, uint32_t n_bytes);
