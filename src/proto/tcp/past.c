/* SPDX-License-Identifier: MIT */
/* proto/tcp/past.c - see proto/tcp/past.h */
#include "proto/tcp/past.h"

#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/nocancel.h"
#include "base/program.h"
#include "osfd/client.h"
#include "osfd/past.h"

_Static_assert(sizeof(struct past) <= PAST_BYTES, "one page");

static struct past own;
struct past *past = &own;

bool past_is_shared(void) { return past != &own; }

void past_ask(int fd)
{
	struct request r = { .past = { program_number() ^ PAST_LAYOUT } };
	struct reply reply;
	int got[2];

	if (osfd_call(fd, MSG_PAST, &r, NULL, 0, &reply, got) || got[0] < 0)
		return;
	void *page = mmap(NULL, PAST_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			  got[0], 0);
	nocancel_close(got[0]);
	if (page == MAP_FAILED)
		return;
	past = page;
	log_info("a page for what moving connections gains");
}

void past_after_fork(void) { memset(&own, 0, sizeof(own)); }
