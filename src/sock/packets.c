/* SPDX-License-Identifier: MIT */
/* sock/packets.c - see sock/packets.h */
#include <string.h>

#include "base/atomic.h"
#include "base/lock.h"
#include "sock/arena.h"
#include "sock/packets.h"

static struct lock lock;               /* all below */
static struct osf_stats_packets *rows; /* NULL: not asked for yet, or none */
static bool has_asked;
static struct packets *users[OSF_STATS_PACKETS_MAX];

static struct osf_stats_packets *row_take(struct packets *p)
{
	if (!has_asked)
		rows = arena_packets();
	has_asked = true;
	for (int i = 0; rows && i < OSF_STATS_PACKETS_MAX; i++) {
		if (users[i])
			continue;
		users[i] = p;
		return &rows[i];
	}
	return NULL;
}

/* Counts what @p has counted until now, and goes on there.  A reader sees the row
 * when it is whole. */
static void place(struct packets *p, struct osf_stats_packets *row)
{
	static uint32_t generation;
	uint32_t in_use = ++generation ? generation : ++generation;

	if (row) {
		store_rel(&row->in_use, 0u);
		p->own.in_use = 0;
		*row = p->own;
		store_rel(&row->in_use, in_use);
	}
	store_rel(&p->at, row ? row : &p->own);
}

void packets_open(struct packets *p, int fd, bool is_udp)
{
	p->own = (struct osf_stats_packets){ .fd = fd, .is_udp = is_udp };
	GUARD(&lock);
	place(p, row_take(p));
}

void packets_close(struct packets *p)
{
	GUARD(&lock);
	for (int i = 0; rows && i < OSF_STATS_PACKETS_MAX; i++)
		if (users[i] == p) {
			store_rel(&rows[i].in_use, 0u);
			users[i] = NULL;
		}
}

void packets_after_fork(void)
{
	struct packets *were[OSF_STATS_PACKETS_MAX];

	lock_inherit(&lock);
	if (!has_asked)
		return;
	memcpy(were, users, sizeof(were));
	memset(users, 0, sizeof(users));
	rows = NULL;
	has_asked = false;
	for (int i = 0; i < OSF_STATS_PACKETS_MAX; i++) {
		if (!were[i])
			continue;
		were[i]->own = *were[i]->at;
		place(were[i], row_take(were[i]));
	}
}
