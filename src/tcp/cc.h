/* SPDX-License-Identifier: MIT */
/*
 * tcp/cc.h - congestion control: one table of functions a scheme
 *
 * The scheme says how the window grows, and how far it falls; when it falls, and what
 * is sent under it, is the engine's.
 */
#pragma once

#include <stdint.h>

struct tcp_conn;

/* CUBIC: RFC 9438's names; windows in bytes. */
struct cubic {
	uint64_t epoch_ns; /* when this round of avoidance began; 0: not yet */
	uint64_t w_max;
	uint64_t w_est;  /* what Reno would have */
	uint64_t origin; /* where the curve is flat */
	uint32_t k_ms;   /* from the epoch to there */
	uint32_t acked;  /* bytes that have not moved cwnd yet */
};

union tcp_cc_state {
	uint32_t reno_acked; /* bytes since cwnd last grew */
	struct cubic cubic;
};

struct tcp_cc {
	const char *name;
	void (*init)(struct tcp_conn *c);
	/* @acked bytes were acknowledged, outside of recovery, and cwnd was used. */
	void (*on_ack)(struct tcp_conn *c, uint32_t acked);
	/* A loss: what ssthresh becomes, two segments at least. */
	uint32_t (*ssthresh)(struct tcp_conn *c);
	/* The rest may be NULL. */
	void (*timed_out)(struct tcp_conn *c);         /* after ssthresh() */
	void (*undo)(struct tcp_conn *c);              /* the last ssthresh() */
	void (*idle)(struct tcp_conn *c, uint64_t ns); /* nothing to send */
};

/* Slow start: adds up to @acked, and returns what is left beyond ssthresh. */
uint32_t cc_slow_start(struct tcp_conn *c, uint32_t acked);
