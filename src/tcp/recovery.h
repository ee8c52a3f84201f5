/* SPDX-License-Identifier: MIT */
/*
 * tcp/recovery.h - what ACKs say about loss, and what we do about it
 *
 *     ack.c       one ACK
 *     rack.c      RACK-TLP: what time says about loss
 *     recovery.c  the congestion window during an episode of loss
 *     ecn.c       explicit congestion notification
 *
 * An episode begins when something is lost, or the peer reports congestion, and ends when
 * all that was in flight at that instant was acknowledged.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/seq.h"

struct tcp_conn;
struct tcp_seg;
struct tcp_stack;
struct arrival;
struct range;

enum ca_state {
	CA_OPEN,
	CA_CWR,      /* the peer reported congestion (ECN) */
	CA_RECOVERY, /* something is lost, until snd_una reaches recover */
	CA_LOSS,     /* the same, after a time-out */
};

/* Whether a time-out was right: RFC 5682. */
enum frto {
	FRTO_NONE,
	FRTO_BEGUN, /* we sent the first segment again */
	FRTO_NEW,   /* it arrived; we send new bytes before the lost ones */
};

/* What an episode needs to know. */
struct tcp_recovery {
	/* Every ACK looks at these bytes.  Some have nothing to do with recovery: they
	 * are here because this cache line is loaded anyway. */
	uint8_t frto : 2; /* enum frto */
	bool may_undo : 1, has_retx : 1;
	bool is_tlp_out : 1, is_tlp_retx : 1;
	uint8_t chrono : 2;    /* enum chrono */
	bool is_late : 1;      /* rtx_since_ns is not 0 */
	bool is_cwnd_used : 1; /* see flight_seen() */
	bool has_more : 1;     /* the last bytes came with MSG_MORE */
	bool has_lowat : 1;    /* notsent_lowat is not 0 */
	bool has_eor : 1;      /* unsent bytes may have a RANGE_EOR */
	bool may_fragment : 1; /* routers may fragment: see pmtu.c */
	bool wants_room : 1;   /* the last send found too little room */
	bool has_era : 1;      /* era is not 0 */
	uint8_t n_marked_lost; /* see ecn.c */
	uint8_t rtt_half;      /* see min_rtt_sample() */

	uint8_t reo_steps, reo_persist;
	uint8_t reordering; /* the largest distance seen, in segments */
	uint8_t n_reorders; /* ACKs that showed reordering */
	uint32_t prior_cwnd, prior_ssthresh;
	seq32 undo_from;     /* snd_una when the episode began */
	uint32_t undo_bytes; /* sent again, and no DSACK for them yet */
	seq32 retx_first;    /* the first range that was sent again */
	uint32_t retx_ts;    /* the timestamp that it carried */
	uint32_t flight;     /* RecoverFS */
	uint32_t prr_delivered, prr_out;
	seq32 tlp_end;
	seq32 reo_round; /* no larger reordering window before this ACK */
};
#define TCP_RECOVERY_HOT offsetof(struct tcp_recovery, reo_steps)

/* What one ACK has told so far. */
struct ack_told {
	/* Round trips of the first and the last range that this ACK covers and that was
	 * sent once (Karn); 0: none.  The first one includes the peer's delayed ACK, as
	 * the RTO must. */
	uint64_t rtt_ns, last_rtt_ns;
	uint32_t delivered; /* bytes that were acknowledged or SACKed */
	uint32_t sacked;    /* of these */
	bool is_original;   /* a range sent before the episode, once, arrived */
	bool is_dup;        /* the ACK has no news: no byte, number, window */
	bool is_reordered;  /* a range arrived after one that was sent later */
};

/* --- ack.c --- */

void ack_rx(struct tcp_conn *c, const struct tcp_seg *seg);
uint64_t timestamp_rtt(const struct tcp_conn *c, const struct tcp_seg *seg);
void rtt_sample(struct tcp_conn *c, uint64_t rtt_ns, uint64_t last_ns);

/* --- rack.c --- */

void rack_detect(struct tcp_conn *c, int32_t work_max);
void rack_duplicate(struct tcp_conn *c);
void rack_recovered(struct tcp_conn *c);
bool tlp_may_probe(const struct tcp_conn *c);
uint64_t tlp_timeout_ns(const struct tcp_conn *c);
uint64_t tlp_least_ns(const struct tcp_conn *c);
void tlp_sent(struct tcp_conn *c, bool is_retx);
bool tlp_acked(struct tcp_conn *c, const struct tcp_seg *seg, bool is_dup,
	       bool has_dsack);

/* --- recovery.c --- */

void recovery_rx(struct tcp_conn *c, const struct tcp_seg *seg, uint32_t acked,
		 const struct ack_told *t);
void recovery_update(struct tcp_conn *c, uint32_t flight);
void recovery_timeout(struct tcp_conn *c);
void recovery_retx(struct tcp_conn *c, const struct range *r);

/* --- ecn.c --- */

uint8_t ecn_offer(const struct tcp_stack *s, const struct tcp_seg *seg);
uint8_t ecn_syn_flags(const struct tcp_conn *c);
void ecn_syn_rx(struct tcp_conn *c, const struct tcp_seg *seg);
void ecn_rx(struct tcp_conn *c, const struct arrival *a);
uint8_t ecn_tx(struct tcp_conn *c, const struct range *r, uint32_t bytes,
	       struct tcp_seg *seg);
void ecn_timeout(struct tcp_conn *c);
