/* SPDX-License-Identifier: MIT */
/*
 * sock/cursor.h - a place in the application's vectors
 *
 * The caller knows how many bytes the vectors have and never asks for more.
 */
#pragma once

#include <string.h>
#include <sys/uio.h>

#include "base/compiler.h"

struct iov_cursor {
	const struct iovec *iov;
	size_t n;    /* left, the current one included */
	size_t done; /* bytes of the current one */
};

#define CURSOR_REST_MAX 64 /* vectors that cursor_rest() gives */

static inline size_t iov_bytes(const struct iovec *iov, size_t n)
{
	size_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		bytes += iov[i].iov_len;
	return bytes;
}

/* Return the contiguous bytes at the cursor, at most @n, and move past them. */
static inline uint8_t *cursor_step(struct iov_cursor *c, size_t n, size_t *len)
{
	uint8_t *at = (uint8_t *)c->iov->iov_base + c->done;

	*len = MIN(c->iov->iov_len - c->done, n);
	c->done += *len;
	if (c->done == c->iov->iov_len && c->n > 1) {
		c->iov++;
		c->n--;
		c->done = 0;
	}
	return at;
}

/* Scatter @n bytes of @data. */
static inline void cursor_put(struct iov_cursor *c, const uint8_t *data,
			      size_t n)
{
	for (size_t len; n; n -= len, data += len) {
		uint8_t *to = cursor_step(c, n, &len);

		if (likely(len)) /* an empty vector may have no address */
			memcpy(to, data, len);
	}
}

/* Gather @n bytes into @data. */
static inline void cursor_get(struct iov_cursor *c, uint8_t *data, size_t n)
{
	for (size_t len; n; n -= len, data += len) {
		const uint8_t *from = cursor_step(c, n, &len);

		if (likely(len))
			memcpy(data, from, len);
	}
}

static inline void cursor_skip(struct iov_cursor *c, size_t n)
{
	for (size_t len; n; n -= len)
		cursor_step(c, n, &len);
}

/* Fill @out with the next bytes, at most @max; return the number of vectors. */
static inline size_t cursor_rest(const struct iov_cursor *c, struct iovec *out,
				 size_t max)
{
	size_t n = 0, skip = c->done;

	for (size_t i = 0; i < c->n && n < CURSOR_REST_MAX && max; i++) {
		size_t len = MIN(c->iov[i].iov_len - skip, max);

		out[n++] =
		    (struct iovec){ (uint8_t *)c->iov[i].iov_base + skip, len };
		max -= len;
		skip = 0;
	}
	return n;
}

/* Fill @to with the first @max bytes of @n vectors; return how many vectors that takes. */
static inline size_t iov_cut(struct iovec *to, const struct iovec *iov,
			     size_t n, size_t max)
{
	size_t used = 0;

	for (; used < n && max; used++) {
		to[used] = iov[used];
		to[used].iov_len = MIN(to[used].iov_len, max);
		max -= to[used].iov_len;
	}
	return used;
}
