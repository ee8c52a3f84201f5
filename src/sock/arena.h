/* SPDX-License-Identifier: MIT */
/*
 * sock/arena.h - where sockets live: the process's statistics segment
 *
 *     sock_new()  ->  entry of the segment  ->  osf stat reads it
 *
 * Entries are type-stable: a pointer to a freed one still points at a sock.
 * Every process has its own segment; after fork the child keeps the parent's
 * mapped, for the sockets it inherited, and makes new ones in its own.
 */
#pragma once

#include "sock/sock.h"

MUST_CHECK int arena_open(void); /* idempotent; errors leave osf switched off */
bool arena_is_open(void);
void arena_after_fork(void); /* in the child */
struct osf_stats_totals *arena_totals(void);
/* The next socket looks for entries that others have freed, and may take memory. */
bool arena_is_full(void);

/* A zeroed socket in mode YOUNG with one process, or NULL when memory is out. */
struct sock *sock_new(int fd);
/* The last process lets go: totals are added up, the entry is free. */
void sock_free(struct sock *sk);
/* @each is called with every socket in use of this process's segment. */
void arena_for_each(void (*each)(const struct sock *sk, void *arg), void *arg);
