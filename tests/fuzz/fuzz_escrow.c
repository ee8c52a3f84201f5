/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_escrow.c - any bytes as the escrow of a program that has died
 *
 *     a slot's head -> escrow_parse() -> what thaw() gets
 *
 * Besides not crashing, this holds:
 *   I1  what is taken has its bytes in the ring, and windows that the kernel takes
 *   I2  a slot that was never written leaves the connection as it was frozen
 *   I3  a slot that is refused leaves the connection as it was frozen
 *   I4  flags that the freeze has set stay, and only the peer's end is added
 */
#include <assert.h>
#include <string.h>

#include "osfd/escrow.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ENDS (FROZEN_PEER_FIN | FROZEN_PEER_RESET)

static void check(const struct frozen *f, const struct escrow_bytes *b)
{
	assert(b->off < ESCROW_RING);
	assert((uint64_t)b->n_unacked + b->n_unsent <= ESCROW_RING);
	assert(f->snd_wnd <= f->max_window);
	assert(f->rcv_nxt - f->rcv_wup <= f->rcv_wnd);
	assert((f->flags & ~ENDS) == FROZEN_REUSEADDR);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frozen before = { .snd_nxt = 7, .flags = FROZEN_REUSEADDR };
	struct frozen f = before;
	struct escrow_head h = { 0 };
	struct escrow_bytes b;

	memcpy(&h, data, size < sizeof(h) ? size : sizeof(h));
	if (size & 1) /* most inputs reach a state */
		h.which = 1 + (h.which & 1);
	int err = escrow_parse(&h, &f, &b);
	if (err || !h.which)
		assert(!memcmp(&f, &before, sizeof(f)));
	else
		check(&f, &b);
	if (!h.which)
		assert(!err && !b.n_unacked && !b.n_unsent && !b.has_unread);
	return 0;
}
