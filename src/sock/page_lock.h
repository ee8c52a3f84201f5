/* SPDX-License-Identifier: MIT */
/*
 * sock/page_lock.h - a lock in memory that a hostile process may write
 *
 *     page_lock()  ->  PAGE_FREE, PAGE_OF_DEAD: it is ours; PAGE_KEPT, PAGE_NOT
 *
 * The word is as of base/lock.h: the owner's thread id.  But here what it says may
 * be a lie, so nobody waits for ever.  Who is not of our user, or does not even
 * have the page, is waited for PAGE_WAIT_NS (sock/shared.h).  An owner of our user
 * may have lost its core, or be stopped.  A caller that can come again is told so
 * after PAGE_WAIT_NS, others wait for PAGE_PATIENCE_NS.
 *
 * A thread id has no meaning in another PID namespace: it may be nobody's there, and
 * we would take a living owner for dead.  So a child that a fork has put into another
 * PID namespace marks its thread ids.  That child cannot tell who any owner is, and
 * nobody can tell when that child is the owner.
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
/* Who looks at many sockets does not wait for each: this thread has waited for @word in
 * vain; has it just done so, for this word or another? */
void page_lock_gives_up(const uint32_t *word);
bool page_lock_is_vain(const uint32_t *word);
/* What this thread writes into a lock. */
uint32_t page_self(void);
/* Which owner does @seen, a value of @word, name? OWNER_OURS: a process of our
 * user that has the page.  For callers that wait for something else than the
 * lock. */
enum page_owner { OWNER_NONE, OWNER_DEAD, OWNER_OURS, OWNER_STRANGER };
enum page_owner page_owner(const uint32_t *word, uint32_t seen);
/* Has a signal stopped that owner?  Then it does not go on by itself, as one that has
 * only lost its core does. */
bool page_owner_is_stopped(uint32_t seen);
