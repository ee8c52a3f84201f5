/* SPDX-License-Identifier: MIT */
/*
 * sock/page_lock.h - a lock in memory that a hostile process may write
 *
 *     page_lock()  ->  PAGE_FREE, PAGE_OF_DEAD: it is ours; PAGE_NOT
 *
 * The word is that of base/lock.h: the owner's thread id.  Here the word may be a
 * lie, so nobody waits for ever.  We wait PAGE_WAIT_NS for an owner that is not of
 * our user, or that does not have the page, and PAGE_PATIENCE_NS for any other
 * (sock/shared.h).
 *
 * A thread id has no meaning in another PID namespace: it may be nobody's there, and
 * we would take a living owner for dead.  So a child that a fork has put into another
 * PID namespace marks its thread ids.  That child cannot tell who any owner is, and
 * nobody can tell when that child is the owner.
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"

enum page_got {
	PAGE_FREE,
	PAGE_OF_DEAD, /* taken over from a process that has died */
	PAGE_NOT,
};

/* In a forked child, before it locks a page. */
void page_lock_child(void);
MUST_CHECK enum page_got page_lock(uint32_t *word);
void page_unlock(uint32_t *word);
/* Which owner does @seen, a value of @word, name? OWNER_OURS: a process of our
 * user that has the page.  For callers that wait for something else than the
 * lock. */
enum page_owner { OWNER_NONE, OWNER_DEAD, OWNER_OURS, OWNER_STRANGER };
enum page_owner page_owner(const uint32_t *word, uint32_t seen);
