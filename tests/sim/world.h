/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/world.h - two stacks, two wires, programs, and a clock that is a variable
 *
 * Nothing here sleeps or asks for the time: an hour of back-off takes a millisecond.
 * Everything follows from the configuration and the seed in it.  After each step the
 * invariants of world.c are checked; what is wrong aborts, after the seed was printed.
 */
#pragma once

#include "port/sim/wire.h"
#include "tcp/conn.h"

#define WORLD_PAIRS 8

enum side { CLIENT, SERVER };

/* What one end of a connection does: sends its bytes, says so, and reads to the end. */
struct end_plan {
	uint32_t n_bytes;
	uint32_t write_max; /* bytes of a call; 0: all at once */
	uint32_t read_max;
	uint64_t read_every_ns; /* 0: as soon as something is there */
	uint64_t read_from_ns;  /* reads nothing before */
	uint64_t abort_at_ns;   /* 0: never */
	bool has_nodelay;
	bool closes_early; /* close() after the last byte, without reading on */
};

struct world_config {
	uint64_t seed;
	struct tcp_config stack[2];
	struct wire_model wire[2]; /* from CLIENT, from SERVER */
	uint64_t heals_at_ns;      /* from then on the wires lose nothing */
	uint64_t stall_ns;         /* polls come up to so much late */
	uint32_t n_pairs;
	struct end_plan plan[2][WORLD_PAIRS];
	uint32_t rx_extents;
	bool carries_gso;     /* large frames arrive as they were sent */
	bool is_simultaneous; /* both ends connect */
	bool is_mutated;      /* bytes may differ: only survival is asked for */
};

struct end {
	struct tcp_conn *conn; /* NULL: not there, or given back */
	enum side side;
	uint32_t pair;
	uint32_t n_sent, n_got;
	uint64_t read_at_ns;
	int err; /* that ended it */
	bool was_open, is_done, got_eof, is_shut;
	seq32 una_seen, rcv_seen, adv_seen; /* to see that none goes back */
	bool is_seen;
};

struct world {
	struct world_config cfg;
	uint64_t now_ns, seed;
	struct tcp_stack *stack[2];
	void *stack_mem[2];
	struct pool rx_pool[2];
	void *rx_mem[2];
	struct wire wire[2];
	struct tcp_listener *listener;
	struct end ends[2][WORLD_PAIRS];
	uint64_t n_frames, n_steps;
	uint64_t trace; /* a hash of all that was sent, and when */
	/* Called before each packet is put on a wire; NULL: not. */
	void (*before_send)(struct world *w, uint32_t mask);
	uint32_t mask;
	bool is_loud; /* SIM_TRACE is set */
};

/* A stack with room for a few connections; IPv4 or IPv6. */
struct tcp_config world_stack(enum side side, bool is_v6);

void world_init(struct world *w, const struct world_config *cfg);
void world_fini(struct world *w);

/* One step; false when nothing is left that could happen. */
bool world_step(struct world *w);

/* Steps until all is over, or the instant.  Return: whether all ends are done. */
bool world_run(struct world *w, uint64_t until_ns);
