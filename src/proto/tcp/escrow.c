/* SPDX-License-Identifier: MIT */
/* proto/tcp/escrow.c - see proto/tcp/escrow.h */
#include "proto/tcp/escrow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/fds.h"
#include "base/sealed.h"

/* More pages of a ring than this go back to the kernel with the slot. */
#define KEPT_BYTES (16u << 10)

static int file_fd = -1;
static uint8_t **maps; /* of each slot; NULL: not mapped yet */
static uint16_t *free_slots;
static uint32_t n_free, n_begun; /* slots that were ever used */

int escrow_open(void)
{
	if (file_fd >= 0)
		return file_fd;
	maps = calloc(ESCROW_SLOTS, sizeof(*maps));
	free_slots = calloc(ESCROW_SLOTS, sizeof(*free_slots));
	int fd = maps && free_slots ? sealed_file("osf-escrow", ESCROW_BYTES)
				    : -ENOMEM;
	if (fd < 0) {
		escrow_close();
		return fd;
	}
	return file_fd = fds_hide(fd);
}

int escrow_fd(void) { return file_fd; }

void escrow_close(void)
{
	for (uint32_t i = 0; i < n_begun; i++)
		if (maps[i])
			munmap(maps[i], ESCROW_SLOT);
	escrow_after_fork();
}

void escrow_after_fork(void)
{
	free(maps);
	free(free_slots);
	maps = NULL;
	free_slots = NULL;
	n_free = n_begun = 0;
	fds_close(file_fd);
	file_fd = -1;
}

static uint8_t *map_of(uint32_t i)
{
	if (maps[i])
		return maps[i];
	void *p = mmap(NULL, ESCROW_SLOT, PROT_READ | PROT_WRITE, MAP_SHARED,
		       file_fd, (off_t)i * ESCROW_SLOT);
	if (p == MAP_FAILED)
		return NULL;
	madvise(p, ESCROW_SLOT, MADV_DONTFORK);
	return maps[i] = p;
}

void escrow_take(struct escrow *e)
{
	*e = (struct escrow){ 0 };
	if (file_fd < 0 || (!n_free && n_begun == ESCROW_SLOTS))
		return;
	uint32_t i = n_free ? free_slots[--n_free] : n_begun++;
	uint8_t *map = map_of(i);
	if (!map) {
		free_slots[n_free++] = (uint16_t)i;
		return;
	}
	e->head = (struct escrow_head *)map;
	e->slot = i + 1;
	store_rel(&e->head->which, 0u);
}

void escrow_give(struct escrow *e)
{
	if (!e->head)
		return;
	if (e->high > KEPT_BYTES)
		madvise((uint8_t *)e->head + ESCROW_HEAD, ESCROW_RING,
			MADV_REMOVE);
	free_slots[n_free++] = (uint16_t)(e->slot - 1);
	*e = (struct escrow){ 0 };
}

void escrow_begin(struct escrow *e, const struct tcp_numbers *n)
{
	e->una = e->end = e->said = n->snd_end;
	e->off = 0;
}

uint32_t escrow_room(struct escrow *e)
{
	if (!e->head)
		return UINT32_MAX;
	/* A connection that takes turns stays in the first pages. */
	if (seq_eq(e->una, e->end))
		e->off = 0;
	return ESCROW_RING - seq_len(e->una, e->end);
}

void escrow_put(struct escrow *e, const void *data, uint32_t len)
{
	if (!e->head)
		return;
	uint8_t *ring = (uint8_t *)e->head + ESCROW_HEAD;
	uint32_t at = (e->off + seq_len(e->una, e->end)) % ESCROW_RING;
	uint32_t first = MIN(len, ESCROW_RING - at);

	memcpy(ring + at, data, first);
	memcpy(ring, (const uint8_t *)data + first, len - first);
	e->end = seq_add(e->end, len);
	e->high = MAX(e->high, first < len ? ESCROW_RING : at + len);
}

void escrow_say(struct escrow *e, const struct tcp_numbers *n, uint32_t flags)
{
	struct escrow_head *h = e->head;

	if (!h)
		return;
	uint32_t next = h->which == 1 ? 2 : 1;

	e->off = (e->off + seq_len(e->una, n->snd_una)) % ESCROW_RING;
	e->una = n->snd_una;
	e->said = n->snd_end;
	h->state[next - 1] = (struct escrow_state){
		.snd_una = n->snd_una.v,
		.snd_nxt = n->snd_nxt.v,
		.snd_end = n->snd_end.v,
		.off = e->off,
		.n_unread = n->n_unread,
		.rcv_nxt = n->rcv_nxt.v,
		.snd_wl1 = n->snd_wl1.v,
		.snd_wnd = n->snd_wnd,
		.max_window = n->max_wnd,
		.rcv_wnd = n->rcv_wnd,
		.rcv_wup = n->rcv_wup.v,
		.flags = flags,
	};
	store_rlx(&h->tsval, n->tsval);
	store_rel(&h->which, next);
	/* osfd reads this only after our death.  But the store must come before whatever
	 * follows, because from now on we may overwrite the other copy and the acknowledged
	 * bytes. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}
