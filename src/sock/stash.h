/* SPDX-License-Identifier: MIT */
/*
 * sock/stash.h - bytes that a protocol had, and the program has not read
 *
 * A connection goes back to the kernel at once (fallback_now() of sock/sock_ops.h).  What
 * the peer had sent before cannot be put into the kernel's receive queue, so whoever asked
 * for it has to see that it is read first.
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
