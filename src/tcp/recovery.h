/* SPDX-License-Identifier: MIT */
/*
 * tcp/recovery.h - what a connection knows of what was lost; recovery.c, rack.c
 *
 * Its first bytes are not of recovery alone: each ACK looks at them.
 *
 * Owner: the connection.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/seq.h"

/* Whether a time-out was right: RFC 5682. */
enum frto {
	FRTO_NONE,
	FRTO_BEGUN, /* the first segment was sent again */
	FRTO_NEW, /* it has arrived; what is new is sent before what is lost */
};

/* What an episode of recovery needs; recovery.c, rack.c. */
struct tcp_recovery {
	/* Each ACK looks at these. */
	uint8_t frto : 2; /* enum frto */
	bool may_undo : 1, has_retx : 1;
	bool is_tlp_out : 1, is_tlp_retx : 1;
	uint8_t
	    chrono : 2; /* enum chrono; not of recovery, but looked at with it */
	bool is_late : 1;        /* rtx_since_ns is not 0 */
	bool is_cwnd_used : 1;   /* see flight_seen() */
	bool has_more : 1;       /* the last bytes were given with MSG_MORE */
	bool has_lowat : 1;      /* notsent_lowat is not 0 */
	bool has_eor : 1;        /* bytes not sent yet may have a RANGE_EOR */
	bool is_cut_allowed : 1; /* by routers: see pmtu.c */
	bool
	    wants_room : 1; /* the program has more bytes than there was room for */
	bool has_era : 1;      /* era is not 0 */
	uint8_t n_marked_lost; /* see ecn.c */
	uint8_t rtt_half;      /* see min_rtt_sample() */

	uint8_t reo_steps, reo_persist;
	uint8_t reordering,
	    n_reorders; /* segments, the most; ACKs that told of it */
	uint32_t prior_cwnd, prior_ssthresh;
	seq32 undo_from;     /* snd_una when it began */
	uint32_t undo_bytes; /* sent again, and not known to be duplicates */
	seq32 retx_first;    /* the first range that was sent again ... */
	uint32_t retx_ts;    /* ... and its timestamp */
	uint32_t flight;     /* RecoverFS */
	uint32_t prr_delivered, prr_out;
	seq32 tlp_end;
	seq32 reo_round; /* when the reordering window may grow again */
};
#define TCP_RECOVERY_HOT offsetof(struct tcp_recovery, reo_steps)
