/* SPDX-License-Identifier: MIT */
/*
 * sock/page_lock.h - a lock in memory that a hostile process may write
 *
 *     page_lock()  ->  PAGE_FREE, PAGE_OF_DEAD: it is ours; PAGE_KEPT, PAGE_NOT
 *
 * The word is that of base/lock.h: the owner's thread id.  Here the word may lie, so every
 * wait for it has an end.  We wait PAGE_WAIT_NS (sock/shared.h) for an owner that is not of
 * our user, or that does not have the page.  An owner of our user may have lost its core,
 * or may be stopped.  Then a caller that can come again gets PAGE_KEPT after PAGE_WAIT_NS,
 * and any other caller waits for PAGE_PATIENCE_NS.
 *
 * A thread id means nothing in another PID namespace.  No thread there may have it, and
 * then we would take a living owner for dead.  So a child that a fork has put into another
 * PID namespace marks its thread ids.  That child cannot tell who an owner is, and nobody
 * can tell when that child is the owner.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

enum page_got {
	PAGE_FREE,
	PAGE_OF_DEAD, /* taken over from a process that has died */
	PAGE_KEPT,    /* not ours; a process of our user has it */
	PAGE_NOT,
};

/* In a forked child, before it locks a page. */
void page_lock_child(void);
MUST_CHECK enum page_got page_lock(uint32_t *word, bool is_patient);
void page_unlock(uint32_t *word);
/* A thread that looks at many sockets is to wait once, not for each of them.  It notes here
 * that it has waited for @word in vain, and asks: have I just done so, for this word or
 * another? */
void page_lock_gives_up(const uint32_t *word);
bool page_lock_is_vain(const uint32_t *word);
/* What this thread writes into a lock. */
uint32_t page_self(void);
/* Who is the owner that @seen, a value of @word, names?  OWNER_OURS: a process of our user
 * that has the page mapped.  For callers that wait for something else than the lock. */
enum page_owner { OWNER_NONE, OWNER_DEAD, OWNER_OURS, OWNER_STRANGER };
enum page_owner page_owner(const uint32_t *word, uint32_t seen);
/* Has a signal stopped that owner?  Then it does not go on by itself, as one that has
 * only lost its core does. */
bool page_owner_is_stopped(uint32_t seen);
