/* SPDX-License-Identifier: MIT */
/* group/handle.c - see group/handle.h */
#include <stdlib.h>
#include <sys/mman.h>

#include "base/lock.h"
#include "group/handle.h"

#define NO_SLOT UINT32_MAX

struct handle_slot *handle_chunks[HANDLE_CHUNKS];

static struct lock lock;
static uint32_t n_used;               /* slots ever used */
static uint32_t first_free = NO_SLOT; /* chained through object */

static struct handle_slot *slot_at(uint32_t i)
{
	return &handle_chunks[i / HANDLE_CHUNK][i % HANDLE_CHUNK];
}

static uint32_t slot_take(void)
{
	uint32_t i = first_free;

	if (i != NO_SLOT) {
		first_free = (uint32_t)(uintptr_t)slot_at(i)->object;
		return i;
	}
	i = n_used;
	if (i == HANDLE_CHUNK * HANDLE_CHUNKS)
		return NO_SLOT;
	struct handle_slot **chunk = &handle_chunks[i / HANDLE_CHUNK];
	if (!*chunk) {
		void *map = mmap(NULL, HANDLE_CHUNK * sizeof(**chunk),
				 PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (map == MAP_FAILED)
			return NO_SLOT;
		store_rel(chunk, map); /* pairs with handle_get() */
	}
	n_used++;
	return i;
}

uintptr_t handle_new(void *object, enum handle_kind kind)
{
	GUARD(&lock);
	uint32_t i = slot_take();

	if (i == NO_SLOT)
		return HANDLE_NONE;
	struct handle_slot *slot = slot_at(i);
	uint32_t generation = slot->generation + 1;
	store_rlx(&slot->object, object);
	store_rlx(&slot->kind, (uint32_t)kind);
	store_rel(&slot->generation, generation); /* pairs with handle_get() */
	return (uintptr_t)generation << 32 | (uintptr_t)i << 1 | kind;
}

static void slot_free(uint32_t i)
{
	struct handle_slot *slot = slot_at(i);

	store_rel(&slot->generation, slot->generation + 1);
	store_rlx(&slot->object, (void *)(uintptr_t)first_free);
	first_free = i;
}

void handle_free(uintptr_t handle)
{
	if (handle == HANDLE_NONE)
		return;
	GUARD(&lock);
	slot_free((uint32_t)handle >> 1);
}

void handle_after_fork(void)
{
	lock = (struct lock){ 0 };
	for (uint32_t i = 0; i < n_used; i++)
		if (slot_at(i)->generation & 1)
			slot_free(i);
}
