/* SPDX-License-Identifier: MIT */
/*
 * port/sim/wire.h - a wire: one direction of a path, in virtual time
 *
 *     wire_send(): bytes, now -> loss, MTU, queue, rate, middlebox, delay
 *                                -> wire_take(): bytes, now
 *
 * wire_send() decides everything that happens to a packet, with random numbers of a
 * seed.  So the same calls give the same bytes at the same times.  wire_take() also
 * returns the ICMP errors that routers send back to the sender; the caller forwards
 * packets by their addresses.  A wire knows no stacks.  It allocates memory, because
 * only tests use it.
 *
 * Owner: its maker; there are no locks.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "port/sim/middlebox.h"

/* How much a delay exceeds the smallest one: evenly distributed up to jitter_ns; normally
 * distributed around half of it; or usually little and sometimes very much (Pareto, of
 * shape 3). */
enum wire_jitter { JITTER_EVEN, JITTER_NORMAL, JITTER_PARETO };

#define JITTER_TAIL 16 /* jitter_ns; Pareto's tail ends there */

/* Probabilities are in parts per million; 0: never. */
struct wire_model {
	uint64_t rate_bps; /* 0: without end */
	uint64_t delay_ns, jitter_ns;
	enum wire_jitter jitter;
	uint32_t queue_bytes; /* of a wire with a rate; 0: without end */
	/* RED: the probability of a drop at an average of three quarters of the queue.
	 * It grows with the average, and beyond that everything is dropped.  0: only a
	 * full queue drops */
	uint32_t red;
	uint32_t loss, duplicate, reorder, corrupt;
	uint32_t loss_acks; /* of segments that carry an ACK and no more */
	/* Gilbert and Elliott: a good and a bad state, and the loss in the bad one. */
	uint32_t burst_begins, burst_ends, burst_loss;
	uint32_t drop_nth;   /* each packet whose number it divides */
	uint64_t drop_mask;  /* bit n: drop the packet n, of the first 64 */
	uint64_t reorder_ns; /* how much later a reordered one comes */
	uint32_t gap, gap_packets; /* one waits until so many have passed */
	uint64_t hole_every_ns,
	    hole_ns;       /* nothing passes: how often, how long */
	uint32_t mutate;   /* corrupt the TCP header, and repair the checksum */
	uint32_t truncate; /* the end is missing */

	/* Larger packets are dropped from mtu_from_ns on; 0: none. */
	uint32_t mtu;
	bool tells_mtu; /* a router says so */
	uint64_t mtu_from_ns;
	uint32_t forge_mtu; /* somebody says so who has not seen a packet */

	/* tells_lost: ICMP errors for packets that a hole drops.  forge_error: forged ICMP
	 * errors that quote what was never sent. */
	uint32_t tells_lost, forge_error;

	/* RFC 3168: marks at random, or when so many bytes are queued. */
	uint32_t mark, mark_queue_bytes;
	bool bleaches; /* ECN's bits do not arrive */

	/* What middleboxes do to segments. */
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
	struct wire_packet *next; /* free for whoever has taken it */
	uint64_t at_ns, order;
	uint32_t len;
	bool is_sum_good; /* carried as it was given, whatever its checksum */
	bool is_forged;   /* nobody of those who talk has sent it */
	bool may_hit;     /* free for whoever has taken it */
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

/* The longest jitter, ns. */
static inline uint64_t wire_jitter_most(const struct wire_model *m)
{
	return m->jitter_ns * (m->jitter == JITTER_PARETO ? JITTER_TAIL : 1);
}

void wire_init(struct wire *w, const struct wire_model *m, uint64_t seed);
void wire_fini(struct wire *w);

void wire_send(struct wire *w, const uint8_t *data, uint32_t len,
	       bool is_sum_good, uint64_t now_ns);

/* Ends all losses.  Rate, delay and queue stay.  So does the rewriting of options,
 * because connections have agreed on the result. */
void wire_heal(struct wire *w);

/* When the next packet arrives; UINT64_MAX: none is on its way. */
uint64_t wire_next_ns(const struct wire *w);

/* Return: the next packet that has arrived by @now_ns, or NULL.  The caller frees it. */
struct wire_packet *wire_take(struct wire *w, uint64_t now_ns);
