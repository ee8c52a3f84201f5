/* SPDX-License-Identifier: MIT */
/*
 * tcp/stack.h - struct tcp_stack: all that the engine's connections share
 *
 * Pools, the flow table, lists of connections with something to do, listeners, and the
 * replies that belong to no connection.  It lies at the start of the memory that the
 * caller gave to tcp_stack_init().
 *
 * Owner: one group; the engine has no locks.
 */
#pragma once

#include <errno.h>

#include "tcp/conn.h"
#include "tcp/open.h"
#include "tcp/tcp.h"
#include "tcp/work.h"

struct tcp_listener {
	struct tcp_stack *stack;
	struct list accept; /* oldest first */
	uint32_t n_accept, backlog;
	uint32_t n_reqsks;   /* half-open connections that came by it */
	uint64_t cookie_ns;  /* when the last cookie was given; 0: none */
	int16_t laddr;       /* index, or -1 for all */
	uint16_t port;       /* 0 and no n_reqsks: the entry is free */
	bool is_shared;      /* by tcp_listen_shared() */
	uint16_t maxseg;     /* of its connections */
	uint32_t rcv_buf;    /* the same; 0: the configuration's */
	uint32_t cookie_buf; /* rcv_buf that the cookies in use promised */
	uint8_t n_defer;     /* retries for which an ACK alone does not open */
};

/* A segment that belongs to no whole connection. */
struct tcp_reply {
	struct ip_addr raddr;
	uint8_t laddr;
	struct tcp_seg seg;
};

/* What a path was found to carry, kept for later connections; see pmtu.c. */
struct path_known {
	struct ip_addr raddr;
	uint32_t until_s;
	uint16_t mtu; /* 0: free */
	bool may_fragment;
};

/* A delayed ACK; delack.c. */
struct delack {
	struct tcp_conn *conn; /* NULL: struck out */
	uint64_t at_ns;
};

struct delack_queue {
	struct delack *ring;
	uint32_t n_slots, head, n; /* n counts struck entries, too */
	/* While sweep() makes the ring dense: entries that it has looked at, and how
	 * many of them stay. */
	uint32_t n_seen, n_kept;
	bool is_swept;
};

struct tcp_stack {
	struct tcp_config cfg;
	uint64_t now_ns;
	uint32_t now_ms; /* the same */
	struct work work;
	struct wheel wheel;
	struct delack_queue delacks;
	struct list pending, ready, conns;
	struct list returned; /* lent bytes for tcp_next_returned() */
	uint32_t n_blocks;    /* that the pools have grown by */
	struct pool pool_conns, pool_reqsks, pool_tws, pool_ranges,
	    pool_extents;
	struct expiry_list reqsks[SYNACK_RETRIES + 1], tws;
	struct flow_bucket *buckets;
	uint32_t n_buckets;
	uint32_t reply_head, reply_tail; /* running freely */
	uint32_t port_hint;
	uint32_t port_skips; /* choices that begin with the odd ports */
	uint32_t n_cuttable; /* numbers the packets that routers may cut */
	struct path_known paths[PATHS_KNOWN];
	/* The last arguments of tcp_send_soon(). */
	const struct tcp_conn *soon[SOON];
	uint32_t n_soon;  /* runs freely */
	uint64_t rcv_mem; /* bytes of memory that received pieces use, all */
	struct tcp_orphans orphans;
	uint32_t n_runs; /* runs that ever began: see runs.c */
	struct list ooo; /* connections with bytes out of order */
	struct tcp_reply replies[TX_REPLIES];
	struct tcp_listener listeners[TCP_LISTENERS_MAX];
	uint64_t drops[DROP_REASONS];
	uint32_t transitions[TCP_STATES][TCP_STATES]; /* from, to: how often */
};

static inline void drop(struct tcp_stack *s, enum drop_reason why)
{
	s->drops[why]++;
}

/* Sets the stack's time; every call of the engine begins with it. */
static inline void stack_at(struct tcp_stack *s, uint64_t now_ns)
{
	work_end(&s->work);
	if (now_ns <= s->now_ns)
		return;
	s->now_ns = now_ns;
	s->now_ms = (uint32_t)(now_ns / NS_PER_MS);
}

static inline uint32_t now_ms(const struct tcp_stack *s) { return s->now_ms; }

/* The clock of timestamps, without a connection's offset. */
static inline uint32_t ts_clock(const struct tcp_stack *s, bool is_us)
{
	return is_us ? (uint32_t)(s->now_ns / NS_PER_US) : now_ms(s);
}

static inline uint32_t now_sec(const struct tcp_stack *s)
{
	return (uint32_t)(s->now_ns / NS_PER_S);
}

/* --- stack.c --- */

int stack_addr(const struct tcp_stack *s, const struct ip_addr *a);
uint32_t stack_mtu(const struct tcp_stack *s, const struct ip_addr *raddr);
uint16_t stack_mss(const struct tcp_stack *s, const struct ip_addr *raddr,
		   uint16_t maxseg);

/* --- lend.c --- */

void grow_init(struct tcp_stack *s, struct pool_block **table);

/* --- reply.c --- */

void tx_reply(struct tcp_stack *s, const struct tcp_reply *r);
void tx_reset_for(struct tcp_stack *s, const struct arrival *a);
void tx_reset_conn(struct tcp_conn *c);
bool may_answer(struct tcp_stack *s, const struct tcp_seg *seg,
		uint32_t *last_ms);
void flow_ack_send(struct tcp_stack *s, const struct flow *f, seq32 seq,
		   seq32 ack, uint16_t wnd, uint32_t tsval, uint32_t ts_recent,
		   bool has_ts);
