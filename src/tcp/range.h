/* SPDX-License-Identifier: MIT */
/*
 * tcp/range.h - a range of sequence numbers, as queues keep it
 *
 * The engine uses one struct for three kinds of ranges: a piece of the receive queue, a
 * piece of the send queue, and a range that was sent and not acknowledged yet.  Linux
 * uses an sk_buff for the same.  Each one fills a cache line.
 *
 * Owner: the stack's pool.
 */
#pragma once

#include "base/extent.h"
#include "base/seq.h"

struct range {
	alignas(CACHE_LINE) struct range *next;
	union {
		/* A piece of the receive queue or of the send queue. */
		struct {
			struct extent *ext; /* holds the bytes */
			uint32_t off;       /* of the first byte in ext */
			/* On the first piece of a run of bytes out of order: the
			 * last piece of that run. */
			struct range *last;
		};
		/* A range that was sent. */
		struct {
			union {
				/* The list of ranges in flight, or of lost ones. */
				struct list link;
				/* A SACKed range grows by its SACKed neighbours:
				 * where the last of these begins. */
				struct {
					struct range *end_piece;
					seq32 end_seq;
				};
			};
			/* The piece of the send queue in which the range begins.
			 * It dangles once part of the range was acknowledged. */
			struct range *piece;
		};
	};
	uint32_t len; /* in sequence numbers: a FIN that was sent counts */
	seq32 seq;
	uint8_t flags; /* enum range_flags */
	/* Of a piece of the send queue: free bytes that follow it in its extent.  Of a
	 * range that was sent: the payload of each of its segments.  Of a run's first
	 * piece: its priority in the tree of runs (runs.c). */
	uint32_t room;
	union {
		struct {
			uint64_t xmit_ns;
			uint32_t
			    era; /* that RANGE_LOST belongs to: see sent.c */
		};
		/* On the first piece of a run: see runs.c. */
		struct {
			uint32_t left, right, newer, older;
		} run;
	};
};
static_assert(sizeof(struct range) == CACHE_LINE, "a range is one line");

enum range_flags {
	RANGE_FIN = 1, /* a FIN follows the bytes */
	RANGE_SACKED = 2,
	RANGE_LOST = 4,   /* valid in its era only: ask range_is_lost() */
	RANGE_RETX = 8,   /* was sent more than once */
	RANGE_PROBE = 16, /* larger than the path is known to carry */
	RANGE_HINT = 32,  /* sack_hints or lost_at may point to it */
	RANGE_EOR = 64,   /* a segment ends where it ends (MSG_EOR) */
};

struct queue {
	struct range *head, *tail;
};

static inline seq32 range_end(const struct range *r)
{
	return seq_add(r->seq, r->len);
}
