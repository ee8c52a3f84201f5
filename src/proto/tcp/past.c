/* SPDX-License-Identifier: MIT */
/*
 * proto/tcp/past.c - see proto/tcp/past.h
 *
 *   R1 -> A1   which page it is   (the thread that asks osfd, and those that ask the judge)
 */
#include "proto/tcp/past.h"

#include <string.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "base/program.h"
#include "osfd/client.h"
#include "osfd/past.h"

_Static_assert(sizeof(struct past) <= PAST_BYTES, "one page");

static struct past own;
static struct past *page = &own;
static bool is_used; /* own: a fork copies no page that nobody has touched */

struct past *past_page(void)
{
	store_rlx(&is_used, true);
	return load_acq(&page); /* A1 */
}

bool past_is_shared(void) { return load_acq(&page) != &own; }

void past_ask(int fd)
{
	struct request r = { .past = { program_number() ^ PAST_LAYOUT } };
	struct reply reply;
	int got[2];

	if (osfd_call(fd, MSG_PAST, &r, NULL, 0, &reply, got) || got[0] < 0)
		return;
	void *map = mmap(NULL, PAST_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			 got[0], 0);
	nocancel_close(got[0]);
	if (map == MAP_FAILED)
		return;
	store_rel(&page, (struct past *)map); /* R1 */
	log_info("a page for what moving connections gains");
}

void past_after_fork(void)
{
	if (is_used)
		memset(&own, 0, sizeof(own));
}
