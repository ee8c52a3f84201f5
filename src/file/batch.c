/* SPDX-License-Identifier: MIT */
/* file/batch.c - see file/batch.h */
#include "base/atomic.h"
#include "base/compiler.h"
#include "file/batch.h"

static bool was_worth_it(const struct batch *b, uint32_t n_met)
{
	return b->n >= BATCH_MIN && !b->has_twice && n_met == b->n_met;
}

static uint16_t next_pause(uint16_t last)
{
	if (!last)
		return BATCH_PAUSE;
	return (uint16_t)MIN(last * 2u, BATCH_PAUSE_MAX);
}

bool batch_naps(struct batch *b, uint32_t n_met)
{
	bool naps = was_worth_it(b, n_met);

	if (b->follows_nap && naps)
		b->pause = 0;
	else if (b->follows_nap)
		b->left = b->pause = next_pause(b->pause);
	if (b->left) {
		b->left--;
		naps = false;
	}
	b->number++;
	b->n = 0;
	b->has_twice = false;
	b->n_met = n_met;
	b->follows_nap = naps;
	return naps;
}

void naps_took(struct naps *p, uint64_t from, uint64_t to)
{
	if (likely(to - from <= NAP_LATE_NS)) {
		if (unlikely(load_rlx(&p->n_late)))
			store_rlx(&p->n_late, 0u);
		return;
	}
	count(&p->n_late, 1);
	if (load_rlx(&p->n_late) < NAPS_LATE_MAX)
		return;
	store_rlx(&p->n_late, 0u);
	store_rlx(&p->off_until, to + NAPS_OFF_NS);
}

bool naps_are_off(struct naps *p, uint64_t now)
{
	if (now < load_rlx(&p->off_until))
		return true;
	store_rlx(&p->off_until, UINT64_C(0));
	return false;
}
