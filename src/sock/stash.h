/* SPDX-License-Identifier: MIT */
/*
 * sock/stash.h - bytes received by a protocol and not yet read
 *
 * fallback_now() of sock/sock_ops.h fills it.  These bytes cannot be put into
 * the kernel's receive queue.  So the caller must deliver them before what
 * follows by TCP.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

struct stash {
	uint8_t *data; /* mapped; NULL: none */
	size_t n, cap;
	bool has_end; /* and then the stream ends */
	bool is_late; /* TCP may have what follows already */
};

static inline void stash_free(struct stash *stash)
{
	if (stash->data)
		munmap(stash->data, stash->cap);
	*stash = (struct stash){ 0 };
}
