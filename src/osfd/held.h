/* SPDX-License-Identifier: MIT */
/*
 * osfd/held.h - the connections of a grant that osfd gives back if the program dies
 *
 *     MSG_ESCROW -> held_open() -> a table of slots
 *     a freeze -> held_add(): a copy of the descriptor      a thaw -> held_drop()
 *     the program's end -> held_end(): thaw, or a reset
 *     the program is away -> held_acknowledge(): the ACKs that it has delayed
 *
 * Owner: the only thread of the program's worker, which has a limit of descriptors.
 */
#pragma once

#include "osfd/freeze.h"

struct held {
	bool is_used;
	int fd;
	struct steer_key key;
	struct frozen frozen;
	uint64_t since_ns; /* when frozen.timestamp was right */
};

/* Raises the limit of descriptors, and says how many connections may be held. */
void held_init(void);

/**
 * held_open() - the escrow of a grant
 * @fd: a sealed memfd of ESCROW_BYTES; the caller's
 *
 * Return: 0, or with a reason -EEXIST, -EBADF or -ENOMEM
 */
MUST_CHECK int held_open(struct grant *g, int fd, struct refusal *why);

/**
 * held_add() - hold a connection
 * @slot: from 1 on; 0: it is not to be held
 *
 * Return: 0, or with a reason -EINVAL, -ENOSPC or -EMFILE
 */
MUST_CHECK int held_add(struct grant *g, uint32_t slot, int fd,
			struct refusal *why);
/* The connection's numbers, from freeze() or from the program that adopts it. */
void held_set(struct grant *g, uint32_t slot, int fd, const struct frozen *f);
/* Another grant has adopted it. */
void held_forget(struct grant *g, const struct steer_key *key);
void held_drop(struct grant *g, uint32_t slot);
/* Somebody has ended the connection (`ss -K'), so the socket has none.  This makes it an
 * ordinary socket again, which reports the end to the program. */
void held_ended(struct grant *g, uint32_t slot);

/* The program lives, and has made no turn for a while.  osfd sends the ACKs that the
 * program owes by its escrow.  The program still has the connections, and may write to the
 * escrow at the same time. */
void held_acknowledge(struct grant *g);

/* Ends the table.  @is_dead: nobody else writes to the escrow or sends on the connection
 * any more, so osfd gives the kernel what the escrow says.  Otherwise osfd resets each
 * connection. */
void held_end(struct grant *g, bool is_dead);
