/* SPDX-License-Identifier: MIT */
/*
 * tcp/flow.h - the small things that the engine consists of: nodes, flows, minis
 *
 * Nodes are pieces of queues and ranges that were sent.  A flow is a 4-tuple in the table,
 * and what connections and minis begin with.  Each node, bucket and mini is a cache line.
 *
 * Owner: the stack's pools.
 */
#pragma once

#include "base/wheel.h"
#include "tcp/tcp.h"

/* A piece of a queue: of bytes received or to be sent, or a range that was sent. */
struct range {
	alignas(CACHE_LINE) struct range *next;
	union {
		struct {
			struct extent *ext; /* holds the bytes */
			uint32_t off;       /* of the first, in the extent */
			struct range *
			    last; /* of a run of pieces out of order: on its first */
		};
		struct {
			union {
				struct list
				    link; /* of a range: in flight, or lost */
				/* Of one that was SACKED: the last of the ranges
				 * that it has become one with. */
				struct {
					struct range *end_piece;
					seq32 end_seq;
				};
			};
			/* Of a range: the piece to be sent in which it begins; it
			 * is gone when bytes of the range were acknowledged. */
			struct range *piece;
		};
	};
	uint32_t len; /* a FIN is counted in ranges that were sent */
	seq32 seq;
	uint8_t flags; /* enum range_flags */
	/* To be sent: bytes behind it in the extent that are free; a range: of its
	 * segments, the payload. */
	uint32_t room;
	union {
		struct {
			uint64_t xmit_ns;
			uint32_t era; /* of its RANGE_LOST: see sent.c */
		};
		/* Of a run's first piece, where room is its priority: see runs.c. */
		struct {
			uint32_t left, right, newer, older;
		} run;
	};
};
static_assert(sizeof(struct range) == CACHE_LINE, "a node is one line");

enum range_flags {
	RANGE_FIN = 1, /* a FIN follows the bytes */
	RANGE_SACKED = 2,
	RANGE_LOST =
	    4, /* to be sent again; counts in its era: range_is_lost() */
	RANGE_RETX = 8,   /* was sent more than once */
	RANGE_PROBE = 16, /* larger than the path is known to carry */
	RANGE_HINT = 32,  /* may be one of sack_hints, or lost_at */
	RANGE_EOR = 64,   /* no byte behind it shares a segment with it */
};

struct queue {
	struct range *head, *tail;
};

enum flow_kind {
	FLOW_CONN,
	FLOW_SYN_RCVD,
	FLOW_TIME_WAIT,
};

struct flow {
	uint32_t
	    next; /* in its bucket's chain, if it is in that: a flow id, or 0 */
	struct ip_addr raddr;
	uint16_t lport, rport;
	uint8_t laddr; /* index of the stack's addresses */
	uint8_t kind;
};

#define FLOW_WAYS 7
#define FLOWS_EACH 4 /* at most, in the mean of all buckets */
struct flow_bucket {
	alignas(CACHE_LINE) uint32_t tag[FLOW_WAYS]; /* of the hash */
	uint32_t id[FLOW_WAYS];                      /* flow ids; 0: free */
	uint32_t more; /* a chain of flow ids, if no way is free */
};

/* A passive open that waits for the ACK of its SYN-ACK. */
struct tcp_reqsk {
	struct flow flow;
	seq32 iss, irs;
	uint32_t ts_recent;
	uint32_t expires_ms;
	uint32_t prev, next; /* in the list of its retry: index + 1 */
	uint32_t challenge_ms;
	uint16_t mss;                       /* the peer's */
	uint16_t wnd;                       /* that our SYN has: bytes */
	uint8_t wscale : 4, rcv_wscale : 4; /* the peer's; ours */
	uint8_t offers;   /* enum tcp_offers: what both ends have */
	uint8_t listener; /* index */
	uint8_t n_retries : 4;
	bool is_acked : 1; /* and waits for bytes */
};
static_assert(sizeof(struct tcp_reqsk) <= CACHE_LINE, "a mini is one line");

struct tcp_tw {
	struct flow flow;
	seq32 snd_nxt, rcv_nxt;
	uint32_t ts_recent;
	uint32_t expires_ms;
	uint32_t prev, next;
	uint32_t challenge_ms;
	bool has_ts;
};
static_assert(sizeof(struct tcp_tw) <= CACHE_LINE, "a mini is one line");
