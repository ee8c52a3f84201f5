/* SPDX-License-Identifier: MIT */
/*
 * port/sim/wire.h - one direction of a path, in virtual time
 *
 *     wire_send(): bytes, now -> loss, MTU, queue, rate, middlebox, delay
 *                                -> wire_take(): bytes, now
 *
 * All that happens to a packet is decided when it is sent, by numbers that come from
 * the seed: the same calls give the same bytes at the same instants.  What a router on
 * the way says to the sender (ICMP) is taken from the same wire: packets find their
 * way by their addresses.  A wire knows nothing of stacks; it allocates, because it
 * belongs to tests.
 *
 * Owner: whoever made it; no locks.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "port/sim/middlebox.h"

/* How much later than at best: anything up to jitter_ns; around half of it (normal); or
 * little, and at times very much more (Pareto, of shape 3). */
enum wire_jitter { JITTER_EVEN, JITTER_NORMAL, JITTER_PARETO };

#define JITTER_TAIL 16 /* jitter_ns; Pareto's tail ends there */

/* Chances are in parts of a million; what is 0 does not happen. */
struct wire_model {
	uint64_t rate_bps; /* 0: without end */
	uint64_t delay_ns, jitter_ns;
	enum wire_jitter jitter;
	uint32_t queue_bytes; /* of a wire with a rate; 0: without end */
	/* RED: the more waits on average, the more is dropped, as likely as that where
	 * the queue is three quarters full, beyond which all is; 0: what fits stays. */
	uint32_t red;
	uint32_t loss, duplicate, reorder, corrupt;
	uint32_t loss_acks; /* of segments that carry an ACK and no more */
	/* Gilbert and Elliott: a good and a bad state, and what the bad one loses. */
	uint32_t burst_begins, burst_ends, burst_loss;
	uint32_t drop_nth;   /* each packet whose number it divides */
	uint64_t drop_mask;  /* bit n: drop the packet n, of the first 64 */
	uint64_t reorder_ns; /* how much later a reordered one comes */
	uint32_t gap, gap_packets; /* one waits until so many have passed */
	uint64_t hole_every_ns,
	    hole_ns;       /* nothing passes: how often, how long */
	uint32_t mutate;   /* corrupt the TCP header, and repair the checksum */
	uint32_t truncate; /* the end is missing */

	/* Larger packets do not pass; 0: all do.  From @mtu_from_ns on. */
	uint32_t mtu;
	bool tells_mtu; /* a router says so */
	uint64_t mtu_from_ns;
	uint32_t forge_mtu; /* somebody says so who has not seen a packet */

	/* Other ICMP errors: about what a hole swallows, and about what was never sent. */
	uint32_t tells_lost, forge_error;

	/* RFC 3168: marked at random, or when so much waits in the queue. */
	uint32_t mark, mark_queue_bytes;
	bool bleaches; /* ECN's bits do not arrive */

	/* What boxes on the way do to segments. */
	uint32_t strip;     /* enum middlebox_strip */
	uint16_t clamp_mss; /* 0: not */
	uint32_t split, merge;
	uint32_t merge_bytes; /* the largest packet that merging makes */
	uint32_t forge_rst;   /* with a number that is not the expected one */
	uint32_t kill;        /* a reset that is believed */
	uint32_t zero_window; /* an ACK's window is closed */
	uint32_t replay;      /* one of the last packets, once more */
	uint64_t replay_ns;   /* up to so much later */
};

struct wire_packet {
	uint64_t at_ns, order;
	uint32_t len;
	bool is_sum_good; /* carried as it was given, whatever its checksum */
	bool is_forged;   /* nobody of those who talk has sent it */
	uint8_t data[];
};

#define WIRE_OLD 8

struct wire {
	struct wire_model model;
	uint64_t seed;
	uint64_t busy_until_ns, last_at_ns;
	uint64_t n_sent, n_lost, n_order;
	uint64_t red_avg;          /* bytes that wait on average, in 1/1024 */
	bool is_bad;               /* in a burst of losses */
	struct wire_packet **heap; /* the earliest first */
	uint32_t n, room;
	struct wire_packet *last;          /* that was posted, if under way */
	struct wire_packet *gapped;        /* that waits for others */
	uint32_t gap_left;                 /* so many */
	struct wire_packet *old[WIRE_OLD]; /* copies, to be replayed */
};

/* The longest that jitter can be, ns. */
static inline uint64_t wire_jitter_most(const struct wire_model *m)
{
	return m->jitter_ns * (m->jitter == JITTER_PARETO ? JITTER_TAIL : 1);
}

void wire_init(struct wire *w, const struct wire_model *m, uint64_t seed);
void wire_fini(struct wire *w);

void wire_send(struct wire *w, const uint8_t *data, uint32_t len,
	       bool is_sum_good, uint64_t now_ns);

/* From here on nothing is lost; rate, delay and queue stay, and so do options that are
 * stripped or rewritten, on which connections have agreed. */
void wire_heal(struct wire *w);

/* When the next packet arrives; UINT64_MAX: none is under way. */
uint64_t wire_next_ns(const struct wire *w);

/* The next packet that has arrived by @now_ns, to be freed by the caller; or NULL. */
struct wire_packet *wire_take(struct wire *w, uint64_t now_ns);
