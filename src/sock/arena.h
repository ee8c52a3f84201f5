/* SPDX-License-Identifier: MIT */
/*
 * sock/arena.h - where sockets live: the process's statistics file
 *
 *     sock_new()  ->  entry of the segment  ->  osf stat reads it
 *
 * Entries are type-stable: a pointer to a freed one still points at a sock.
 * Each process has its own segment.  After a fork the child keeps the parent's
 * mapped, for the sockets that it inherited, and makes new ones in its own, which it opens
 * when it needs it.
 */
#pragma once

#include "sock/sock.h"

MUST_CHECK int arena_open(void); /* idempotent; errors leave osf switched off */
bool arena_is_open(void);
void arena_after_fork(void); /* in the child */
struct osf_stats_totals *arena_totals(void);
/* The file's table of packets, or NULL: there is no room for it. */
struct osf_stats_packets *arena_packets(void);
/* True if the next socket must look for freed entries or get memory. */
bool arena_is_full(void);

/* A zeroed socket in mode YOUNG with one process; NULL: no memory. */
struct sock *sock_new(int fd);
/* The last process lets go: add its counts to the totals and free the entry. */
void sock_free(struct sock *sk);
/* sock_let_go() for who does not hold @sk itself: another thread may be freeing it, and its count
 * with it.  False: it has, too. */
bool arena_let_go(struct sock *sk, int32_t n);
/* @to, a new socket, takes the place of @from: the same options, positions and
 * statistics.  @moves: it takes the mode and the protocol's state, too; else it is the
 * kernel's. */
void sock_copy(struct sock *to, const struct sock *from, bool moves);
/* Another socket goes on with what @sk has counted. */
void sock_forget_counts(struct sock *sk);

/* Does @sk lie in memory that this process has made? */
bool arena_has(const struct sock *sk);
/* Is memory mapped that an ancestor has made?  Unmap it: no socket is there any more. */
bool arena_inherits(void);
void arena_drop_inherited(void);
/* Call @each for every socket that is in use in this process's segment. */
void arena_for_each(void (*each)(const struct sock *sk, void *arg), void *arg);
