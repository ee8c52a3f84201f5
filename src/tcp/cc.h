/* SPDX-License-Identifier: MIT */
/*
 * tcp/cc.h - congestion control: one table of functions for each algorithm
 *
 * The algorithm decides how cwnd grows and how far it falls.  The engine decides when
 * it falls, and what is sent.
 */
#pragma once

#include <stdint.h>

#include "base/seq.h"

struct tcp_conn;

#define SSTHRESH_MAX (1u << 30) /* no loss yet */

/* For the first slow start; the names are RFC 9406's. */
struct hystart {
	seq32 round_end;
	uint32_t min_us, last_min_us, css_base_us;
	uint8_t n_samples;
	uint8_t css_rounds; /* 0: not in CSS */
};

/* The names are RFC 9438's; windows are in bytes. */
struct cubic {
	uint64_t epoch_ns;  /* when this round of avoidance began; 0: not yet */
	uint64_t est_acked; /* bytes that have not moved w_est yet */
	uint32_t w_max, cwnd_prior;
	uint32_t undo_w_max, undo_cwnd_prior; /* before the last loss */
	uint32_t w_est;                       /* what Reno would have */
	uint32_t origin;                      /* where the curve is flat */
	uint32_t k_ms;                        /* from the epoch to there */
	uint32_t acked; /* bytes that have not moved cwnd yet */
};

/* All 0 when congestion avoidance begins. */
union tcp_cc_state {
	struct hystart hystart; /* while ssthresh is SSTHRESH_MAX */
	uint32_t reno_acked;    /* bytes since cwnd last grew */
	struct cubic cubic;
};

struct tcp_cc {
	const char *name;
	void (*init)(struct tcp_conn *c);
	/* The peer has acknowledged @acked bytes outside of recovery, and cwnd was in
	 * use.  @rtt_us: the round trip that the ACK has measured, or 0. */
	void (*on_ack)(struct tcp_conn *c, uint32_t acked, uint32_t rtt_us);
	/* After a loss.  Return: the new ssthresh, two segments at least */
	uint32_t (*ssthresh)(struct tcp_conn *c);
	void (*undo)(struct tcp_conn *c); /* the last ssthresh() */
	/* The remaining functions may be NULL. */
	void (*timed_out)(struct tcp_conn *c);         /* after ssthresh() */
	void (*idle)(struct tcp_conn *c, uint64_t ns); /* nothing to send */
};

/* Slow start adds up to @acked bytes to cwnd.  Return: what is left beyond ssthresh */
uint32_t cc_slow_start(struct tcp_conn *c, uint32_t acked, uint32_t rtt_us);

void hystart_init(struct tcp_conn *c);
