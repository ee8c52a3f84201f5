/* SPDX-License-Identifier: MIT */
/*
 * ops/history.h - how long the connections of an address last
 *
 *     a connection ends    ->  history_note()   ->  a level for its address
 *     another one begins   ->  history_level()  ->  it moves so much later
 *
 * A move to shared memory costs about as much as ten changes of direction by the kernel.
 * A connection that ends before it has saved that much would have been better left where
 * it was.  Nobody knows when it begins how long it will last, but connections to one
 * server, or to one port of ours, are like each other.  So each address has a level.  With
 * each level a connection has to change direction four times as often, and to carry four
 * times as many bytes, before it moves.  One that moved in vain raises the level by one,
 * but only if the level is still that with which it began: of many that run at once, the
 * first to end says what all of them say.  One that lasted makes the level 0.
 *
 * Connections that have moved and then sleep teach nothing, since they do not end.  So the
 * connecting end also keeps the last HISTORY_MOVES moves to each place: while none of these
 * connections has paid yet, and all are open, another one begins again at the next level.
 *
 *     a connection proposes to move   ->  history_moves()
 *     another one is about to do so   ->  history_is_doubtful()
 *
 * The table is a guess: addresses may share a place, threads may overwrite each other's
 * news, and forked processes share it.  A wrong level costs time and nothing else.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sock/sock.h"

#define HISTORY_LEVELS 3u
#define HISTORY_MOVES 16u

/* How a connection went, as one of its ends has seen it. */
struct history_end {
	unsigned level;     /* with which it began */
	uint32_t pingpongs; /* changes of direction before it moved */
	uint64_t calls;     /* that moved bytes since then */
	uint64_t bytes;     /* in all */
	bool has_moved;
};

/* What @first becomes at @level; saturates. */
static inline uint64_t history_later(uint64_t first, unsigned level)
{
	return first > UINT64_MAX >> 2 * level ? UINT64_MAX
					       : first << 2 * level;
}

/* The level after @level, when a connection has ended as @end says.  At level 0 a
 * connection moves after @first changes of direction, or after @bytes. */
unsigned history_next(unsigned level, uint32_t first, uint64_t bytes,
		      const struct history_end *end);

void history_start(void); /* at program start */
/* For a socket whose addresses are known. */
unsigned history_level(const struct sock *sk);
/* Its last holder closes it; its mode is still what it was. */
void history_note(const struct sock *sk);
/* It proposes to move. */
void history_moves(const struct sock *sk);
/* Have the last HISTORY_MOVES to its address moved without a gain so far? */
bool history_is_doubtful(const struct sock *sk);
/* This process gives up authority: from now on, it has a table of its own. */
void history_alone(void);
