/* SPDX-License-Identifier: MIT */
/*
 * port/sim/wire.h - one direction of a path, in virtual time
 *
 *     wire_send(): bytes, now -> queue, rate, faults, delay -> wire_take(): bytes, now
 *
 * All that happens to a packet is decided when it is sent, by numbers that come from
 * the seed: the same calls give the same bytes at the same instants.  A wire knows
 * nothing of stacks; it allocates, because it belongs to tests.
 *
 * Owner: whoever made it; no locks.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Chances are in parts of a million. */
struct wire_model {
	uint64_t rate_bps; /* 0: without end */
	uint64_t delay_ns, jitter_ns;
	uint32_t queue_bytes; /* of a wire with a rate; 0: without end */
	uint32_t loss, duplicate, reorder, corrupt;
	uint32_t mutate; /* corrupt the TCP header, and repair the checksum */
	uint64_t drop_mask;  /* bit n: drop the packet n, of the first 64 */
	uint64_t reorder_ns; /* how much later a reordered one comes */
};

struct wire_packet {
	uint64_t at_ns, order;
	uint32_t len;
	bool is_sum_good; /* carried as it was given, whatever its checksum */
	uint8_t data[];
};

struct wire {
	struct wire_model model;
	uint64_t seed;
	uint64_t busy_until_ns, last_at_ns;
	uint64_t n_sent, n_lost, n_order;
	struct wire_packet **heap; /* the earliest first */
	uint32_t n, room;
};

void wire_init(struct wire *w, const struct wire_model *m, uint64_t seed);
void wire_fini(struct wire *w);

void wire_send(struct wire *w, const uint8_t *data, uint32_t len,
	       bool is_sum_good, uint64_t now_ns);

/* When the next packet arrives; UINT64_MAX: none is under way. */
uint64_t wire_next_ns(const struct wire *w);

/* The next packet that has arrived by @now_ns, to be freed by the caller; or NULL. */
struct wire_packet *wire_take(struct wire *w, uint64_t now_ns);
