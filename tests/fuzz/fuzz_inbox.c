/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_inbox.c - an inbox into which its peer writes anything, both sides of it
 *
 *     bytes -> a script: our drains and posts, and the peer's stores between them
 *
 * One inbox of ours is mapped twice: as ours, which is drained, and as a peer's, to which
 * is posted.  Besides never leaving it, this holds:
 *   I1  a drain names only watches that have a slot, each at most once
 *   I2  at most one of them is said to be behind
 *   I3  a drain of news that were posted in due form, and not touched, finds them
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/libc.h"
#include "proto/shm/inbox.h"
#include "proto/shm/segment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SLOTS 200u

static uint32_t lane, tag, slots[SLOTS];
static struct peer_inbox *peer;
static struct inbox *in;
static uint8_t n_named[SLOTS + 1];
static unsigned n_behind;

static void news(struct watch *owner, unsigned events, bool is_behind,
		 void *arg)
{
	uintptr_t i = (uintptr_t)owner;

	assert(i > 0 && i <= SLOTS && events == READY_ANY);
	assert(slots[i - 1] != SLOT_NONE);
	assert(!n_named[i]++);
	n_behind += is_behind;
}

static void drain(void)
{
	memset(n_named, 0, sizeof(n_named));
	n_behind = 0;
	inbox_drain(lane, news, NULL);
	assert(n_behind <= 1);
}

static void begin(void)
{
	libc_resolve();
	lane = lane_open();
	tag = inbox_get(geteuid(), getpid());
	assert(lane != LANE_NONE && tag);
	int err = inbox_attach(inbox_fd_get(tag), &peer);
	inbox_fd_put();
	assert(!err);
	for (uintptr_t i = 0; i < SLOTS; i++)
		slots[i] = slot_open(lane, tag, (void *)(i + 1));
	in = inbox_of(tag);
}

struct script {
	const uint8_t *at, *end;
};

static uint32_t next_byte(struct script *s)
{
	return s->at < s->end ? *s->at++ : 0;
}

static uint32_t next_u32(struct script *s)
{
	uint32_t v = next_byte(s);

	v |= next_byte(s) << 8;
	return v & 0x80 ? v : v | next_byte(s) << 16 | next_byte(s) << 24;
}

static void store(struct script *s)
{
	struct lane *l = &in->lane[next_byte(s) & 7 ? lane : next_byte(s) % 8];
	uint32_t at = next_u32(s), v = next_u32(s);
	uint64_t wide = (uint64_t)v << 32 | next_u32(s);

	switch (next_byte(s) % 8) {
	case 0:
		l->summary[at % 4] = wide;
		break;
	case 1:
		l->bits[at % LANE_WORDS] = wide;
		l->summary[at % LANE_WORDS / 64] |= 1ull << at % 64;
		break;
	case 2:
		l->ticket = v;
		break;
	case 3:
		l->log[at % LANE_LOG] = (uint16_t)v;
		break;
	case 4:
		l->recent[at % LANE_RECENT] = (uint16_t)v;
		break;
	case 5:
		l->behind = wide;
		break;
	case 6:
		l->sleeping = v;
		l->bell1 = v;
		l->asked_ns = wide;
		break;
	default:
		((uint32_t *)l)[at % (sizeof(*l) / 4)] = v;
	}
}

/* What is posted to an empty lane is found. */
static void honest(struct script *s)
{
	uint32_t i = next_byte(s) % SLOTS;

	if (slots[i] == SLOT_NONE)
		return;
	drain();
	memset(&in->lane[lane], 0, sizeof(struct lane));
	inbox_post(peer, slot_public(slots[i]));
	drain();
	assert(n_named[i + 1] == 1);
}

static void reopen(struct script *s)
{
	uintptr_t i = next_byte(s) % SLOTS;

	if (slots[i] == SLOT_NONE) {
		slots[i] = slot_open(lane, tag, (void *)(i + 1));
	} else {
		slot_close(slots[i]);
		slots[i] = SLOT_NONE;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct script s = { data, data + n };

	if (!in)
		begin();
	while (s.at < s.end)
		switch (next_byte(&s) % 8) {
		case 0:
			drain();
			break;
		case 1:
			inbox_post(peer, next_u32(&s));
			break;
		case 2:
			honest(&s);
			break;
		case 3:
			reopen(&s);
			break;
		case 4:
			inbox_ring(peer, next_u32(&s));
			inbox_ring_only(peer, next_u32(&s));
			inbox_sleeps(peer, next_u32(&s));
			break;
		case 5:
			inbox_rang(peer);
			inbox_tell_self(tag, next_u32(&s));
			break;
		default:
			store(&s);
		}
	drain();
	return 0;
}
