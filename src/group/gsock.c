/* SPDX-License-Identifier: MIT */
/* group/gsock.c - the memory of sockets, and calling back; see group/gsock.h */
#include <stdlib.h>

#include "group/gsock.h"

#define SOCKS_A_SLAB 64

static struct lock lock;
static struct gsock *free_socks; /* chained through userdata */

struct gsock *gsock_take(void)
{
	GUARD(&lock);
	if (!free_socks) {
		struct gsock *slab = calloc(SOCKS_A_SLAB, sizeof(*slab));

		for (int i = 0; slab && i < SOCKS_A_SLAB; i++) {
			slab[i].userdata = (uintptr_t)free_socks;
			free_socks = &slab[i];
		}
	}
	struct gsock *s = free_socks;
	if (s)
		free_socks = (struct gsock *)s->userdata;
	return s;
}

void gsock_put(struct gsock *s)
{
	GUARD(&lock);
	s->userdata = (uintptr_t)free_socks;
	free_socks = s;
}

void gsocks_after_fork(void)
{
	lock = (struct lock){ 0 };
	free_socks = NULL;
}

bool call_event(struct group *g, struct gsock *s, enum group_event event,
		int value)
{
	g->current = s;
	g->attr.calls.event(s->handle, s->userdata, event, value,
			    &g->attr.calls);
	return call_end(g, s);
}

bool call_comp(struct group *g, struct gsock *s, uintptr_t userdata)
{
	if (!g->attr.calls.comp)
		return true;
	g->current = s;
	g->attr.calls.comp(s->handle, s->userdata, userdata, &g->attr.calls);
	return call_end(g, s);
}
