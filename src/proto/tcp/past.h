/* SPDX-License-Identifier: MIT */
/*
 * proto/tcp/past.h - what earlier processes of this program found out: does our TCP pay?
 *
 *     osfd's page (osfd/past.h) -> past_ask() -> past -> the judge reads it, and writes to it
 *
 * The user's processes with the same command line share the page, so its numbers are input:
 * the judge checks them.  If two processes write at the same time, each number is one of
 * the two, which is good enough.
 *
 * Without an osfd that has such pages, the page is memory of this process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PAST_LAYOUT 1u /* another one has another page */

struct past {
	uint64_t until_ns; /* on now_ns()'s clock: nothing moves before it */
	uint64_t rest_ns; /* how long the rest after the next failed trial is */
	uint32_t n_failed; /* trials in a row */
	uint32_t
	    settles; /* 1: connections that ask before until_ns stay for good */
	uint32_t pays; /* 1: the last trial has saved much */
};

/* Never NULL.  Any thread, at any time. */
struct past *past_page(void);

/* Has osfd been asked, and has it answered with a page? */
bool past_is_shared(void);
/* Asks for the page.  @fd: of osfd_connect(), with no other request under way */
void past_ask(int fd);
/* In the child of a fork: a page that nobody shares is new. */
void past_after_fork(void);
