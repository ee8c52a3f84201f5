/* SPDX-License-Identifier: MIT */
/* osfd/use.c - see use.h */
#include "osfd/use.h"

#include "base/atomic.h"

static uint64_t word_of(uint32_t number, uint32_t n)
{
	return (uint64_t)number << 32 | n;
}

void use_begin(struct use *u, uint32_t number, uint32_t port)
{
	u->port = port;
	store_rlx(&u->n_thawed, 0);
	store_rlx(&u->n_reset, 0);
	xchg(&u->word, word_of(number, 0));
}

bool use_is(const struct use *u, uint32_t number)
{
	return load_seq(&u->word) >> 32 == number;
}

uint32_t use_n(const struct use *u) { return (uint32_t)load_seq(&u->word); }

bool use_take(struct use *u, uint32_t number)
{
	uint64_t was = load_seq(&u->word);

	return was >> 32 == number && cas(&u->word, was, was + 1);
}

void use_give(struct use *u, uint32_t number)
{
	uint64_t was = load_seq(&u->word);

	if (was >> 32 == number && (uint32_t)was)
		(void)cas(&u->word, was, was - 1);
}

void use_end(struct use *u) { xchg(&u->word, 0); }

bool use_end_unused(struct use *u, uint32_t number)
{
	return cas(&u->word, word_of(number, 0), 0);
}
