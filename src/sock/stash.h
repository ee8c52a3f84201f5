/* SPDX-License-Identifier: MIT */
/*
 * sock/stash.h - bytes received by a protocol and not yet read
 *
 * fallback_now() of sock/sock_ops.h fills it.  These bytes cannot be put into the kernel's
 * receive queue.  So the caller must deliver them before what follows by TCP.
 *
 * Some of what TCP brings may still be on its way when the stash is filled:
 *
 *     data[0 .. n_first)   what comes first
 *     by TCP               n_gap bytes of the stream
 *     data[n_first .. n)   what follows
 *     by TCP               bytes that are not of the stream, then the rest
 *
 * The bytes that are not of the stream are of two kinds. n_skip says how many were written
 * in place of a part of data[].  The others are doorbells: *rung counts those that the
 * other end has sent, n_drained those that we have discarded, and the difference is still
 * to come.  The other end counts a doorbell before it knows whether the kernel takes it.
 * So read *rung only when bytes have come.  Once a byte of the stream has come, *rung does
 * not change any more.
 *
 * Nobody may send on the connection before its gate is open.
 *
 * A process may still be writing a part of data[] to TCP.  When it has done so, it says on
 * @writer1 how many bytes that was, as an int32_t, and n_skip grows by as many.  Only then
 * the other end is told (@told), and sends by TCP.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/nocancel.h"

struct stash {
	uint8_t *data; /* mapped; NULL: none */
	size_t n, cap;
	size_t n_first;
	uint64_t n_gap;
	uint32_t n_skip;
	uint32_t n_drained;
	const uint32_t *rung; /* shared memory; NULL: no doorbells come */
	bool has_end;         /* and then the stream ends */
	bool is_late;         /* TCP may have what follows already */
	/* Shared memory: closed until the bit is set, or the connection has ended.
	 * NULL: open. */
	const uint32_t *gate;
	uint32_t gate_bit;
	bool is_shut; /* nothing more may be sent anyway */
	int writer1;  /* a descriptor, plus 1; 0: nobody is writing */
	/* Shared memory: the bit by which the other end is told, and one by which it says that
	 * its stream has ended. */
	uint32_t *told;
	const uint32_t *ended;
	uint32_t told_bit, ended_bit;
};

/* Does TCP alone not bring the rest of the stream? */
static inline bool stash_needs_relay(const struct stash *stash)
{
	return stash->n || stash->n_skip || stash->rung || stash->gate;
}

static inline void stash_free(struct stash *stash)
{
	if (stash->data)
		munmap(stash->data, stash->cap);
	if (stash->writer1)
		nocancel_close(stash->writer1 - 1);
	*stash = (struct stash){ 0 };
}
