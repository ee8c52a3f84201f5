/* SPDX-License-Identifier: MIT */
/*
 * group/handle.h - what applications hold instead of pointers
 *
 *     handle_new(object, kind)  ->  generation << 32 | index << 1 | kind
 *     handle_get(handle, kind)  ->  object, or NULL: stale, or of the other kind
 *
 * A look-up takes no lock: the slot's generation identifies the object, and
 * slots are never unmapped.  Free an object's handle before the object.
 */
#pragma once

#include <stdint.h>
#include "base/atomic.h"
#include "base/compiler.h"

enum handle_kind { HANDLE_GROUP, HANDLE_SOCK };

#define HANDLE_NONE ((uintptr_t)0)
#define HANDLE_CHUNK 4096u /* slots a mapping */
#define HANDLE_CHUNKS 1024u

struct handle_slot {
	uint32_t generation; /* odd while in use */
	uint32_t kind;
	void *object;
};

extern struct handle_slot *handle_chunks[HANDLE_CHUNKS];

/* HANDLE_NONE: out of memory, or of slots. */
uintptr_t handle_new(void *object, enum handle_kind kind);
void handle_free(uintptr_t handle);
void handle_after_fork(void); /* all are stale in the child */

static inline void *handle_get(uintptr_t handle, enum handle_kind kind)
{
	uint32_t i = (uint32_t)handle >> 1;
	struct handle_slot *chunk =
	    likely(i < HANDLE_CHUNK * HANDLE_CHUNKS)
		? load_acq(&handle_chunks[i / HANDLE_CHUNK])
		: NULL;

	if (unlikely(!chunk || (handle & 1) != kind))
		return NULL;
	struct handle_slot *slot = &chunk[i % HANDLE_CHUNK];
	if (unlikely(load_acq(&slot->generation) != handle >> 32 ||
		     load_rlx(&slot->kind) != kind || !(handle >> 32 & 1)))
		return NULL;
	return load_rlx(&slot->object);
}
