/* SPDX-License-Identifier: MIT */
/* proto/shm/inbox.c - see proto/shm/inbox.h */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "base/atomic.h"
#include "base/fds.h"
#include "base/lock.h"
#include "proto/shm/inbox.h"
#include "proto/shm/segment.h"

#define INBOX_MAGIC 0x786f626e69666f32ull

#define TAKES_MAX 4 /* of a lane that is posted to while it is drained */

/* Process memory beside each lane of an inbox: who owns which slot. */
struct lane_owners {
	uint32_t n_used;         /* slots ever used */
	uint32_t n_free;         /* of them, free again: the chain below */
	void *owner[LANE_SLOTS]; /* or the number of the next free slot */
	uint32_t free_stack[LANE_SLOTS];
	uint64_t taken[LANE_WORDS]; /* by a drain; empty in between */
	uint16_t found[LANE_SLOTS]; /* the same, in order in the end */
	uint16_t logged[LANE_LOG];
};

/* One of our inboxes.  It stays at its address for good, because waiters look at it
 * without a lock; to renew it, other memory is mapped there. */
struct own {
	struct inbox *in; /* NULL: not yet */
	uint32_t tag;     /* of what is mapped there now; 0: nothing */
	int fd;
	uid_t uid; /* whose: */
	pid_t pid; /* 0: of all processes of that user */
	uint32_t n_refs;
	struct lane_owners *owners[INBOX_LANES];
};

/* A ready set's lane, and the inboxes in which it is in use. */
struct lane_use {
	bool in_use;
	uint32_t n;
	uint8_t at[INBOXES];
};

static struct lock lock;
static struct own own[INBOXES];
static uint32_t n_own; /* of them, those that were ever in use */
static bool has_lanes; /* one was in use in this process */
static struct lane_use lanes[INBOX_LANES];
static bool is_spared; /* the program needed the descriptors */

#define TAG_INDEX 31u
static_assert(INBOXES <= TAG_INDEX + 1, "a tag names one of them");

static bool is_free(const struct own *o) { return !o->n_refs; }

/* The one for posts by @pid; or one that is free, for @pid from now on. */
static struct own *find(uid_t uid, pid_t pid)
{
	struct own *fresh = NULL, *idle = NULL;
	uint32_t n_private = 0;

	for (uint32_t i = 0; i < n_own; i++) {
		struct own *o = &own[i];

		if (o->tag && o->uid == uid && o->pid == pid)
			return o;
		n_private += o->n_refs && o->pid;
		if (!o->tag && !fresh)
			fresh = o;
		if (o->tag && is_free(o) && !idle)
			idle = o;
	}
	if (pid && n_private >= INBOXES_PRIVATE)
		return NULL;
	if (!fresh && n_own < INBOXES)
		fresh = &own[n_own];
	return fresh ? fresh : idle;
}

/* Give @o new memory, which nobody else has mapped. */
static int renew(struct own *o, uid_t uid, pid_t pid)
{
	void *map = o->in;
	uint32_t salt[5];
	int fd;

	if (getrandom(salt, sizeof(salt), 0) != sizeof(salt))
		return -ENOMEM;
	int err = sealed_renew("osf-inbox", sizeof(struct inbox), &map, &fd);
	if (err)
		return err;
	if (o->tag)
		fds_close(o->fd);
	o->in = map;
	memcpy(o->in->id, salt, sizeof(o->in->id));
	o->in->magic = INBOX_MAGIC;
	o->fd = fds_hide(fd);
	o->uid = uid;
	o->pid = pid;
	uint32_t at = (uint32_t)(o - own);
	n_own = MAX(n_own, at + 1);
	store_rel(&o->tag, (salt[4] & ~TAG_INDEX) | (TAG_INDEX + 1) | at);
	return 0;
}

uint32_t inbox_get(uid_t uid, pid_t pid)
{
	GUARD(&lock);
	if (is_spared)
		return 0;
	struct own *o = find(uid, pid);
	if (!o) {
		pid = 0;
		o = find(uid, pid);
	}
	bool known = o && o->tag && o->uid == uid && o->pid == pid;
	if (!o || (!known && renew(o, uid, pid)))
		return 0;
	o->n_refs++;
	return o->tag;
}

static struct own *own_of(uint32_t tag)
{
	struct own *o = &own[tag & TAG_INDEX];

	return tag && (tag & TAG_INDEX) < INBOXES && load_acq(&o->tag) == tag
		   ? o
		   : NULL;
}

/* Does a waiter look at @o? */
static bool is_looked_at(const struct own *o)
{
	for (uint32_t l = 0; l < INBOX_LANES; l++)
		for (uint32_t i = 0; lanes[l].in_use && i < lanes[l].n; i++)
			if (lanes[l].at[i] == o - own)
				return true;
	return false;
}

/* Give its address back, unless a waiter looks there. */
static void unmap(struct own *o)
{
	if (o->tag || !o->in || is_looked_at(o))
		return;
	sealed_unmap(o->in, sizeof(struct inbox));
	o->in = NULL;
}

/* A connection that used @idle has ended.  If it was the last one, keep the inbox for
 * the next connection of that peer, and let go of the one that was kept before. */
static void unref(struct own *idle)
{
	if (!idle->n_refs || --idle->n_refs)
		return;
	for (uint32_t i = 0; i < n_own; i++) {
		struct own *o = &own[i];

		if (o == idle || !o->tag || o->n_refs)
			continue;
		fds_close(o->fd);
		store_rel(&o->tag, 0u);
		sealed_forget(o->in, sizeof(struct inbox));
		unmap(o);
	}
}

void inbox_put(uint32_t tag)
{
	GUARD(&lock);
	struct own *o = own_of(tag);

	if (o)
		unref(o);
}

struct inbox *inbox_of(uint32_t tag)
{
	struct own *o = own_of(tag);

	return o ? o->in : NULL;
}

int inbox_fd_get(uint32_t tag)
{
	lock_get(&lock);
	struct own *o = own_of(tag);
	return !o || o->fd < 0 ? -EMFILE : o->fd;
}

void inbox_fd_put(void) { lock_put(&lock); }

bool inbox_spare_fd(void)
{
	bool any = false;

	lock_get(&lock);
	for (uint32_t i = 0; i < n_own; i++) {
		if (!own[i].tag || own[i].fd < 0)
			continue;
		fds_close(own[i].fd);
		own[i].fd = -1;
		any = true;
	}
	is_spared |= any;
	any |= bells_spare_fds();
	lock_put(&lock);
	return inbox_spare_bells() || any;
}

/* The inherited inboxes belong to the parent.  Nobody in the child writes there:
 * other memory lies where they were. */
void inbox_after_fork(void)
{
	lock_inherit(&lock);
	for (uint32_t i = 0; i < n_own; i++) {
		struct own *o = &own[i];

		if (o->tag)
			fds_close(o->fd);
		if (o->in)
			sealed_forget(o->in, sizeof(struct inbox));
		o->tag = o->n_refs = 0;
	}
	for (uint32_t i = 0; has_lanes && i < INBOX_LANES; i++)
		lanes[i].in_use = false;
	has_lanes = is_spared = false;
	bells_after_fork();
	post_after_fork();
}

uint32_t lane_open(void)
{
	GUARD(&lock);
	for (uint32_t i = 0; i < INBOX_LANES; i++) {
		if (lanes[i].in_use)
			continue;
		has_lanes = lanes[i].in_use = true;
		store_rlx(&lanes[i].n, 0u);
		return i;
	}
	return LANE_NONE;
}

void lane_close(uint32_t lane)
{
	if (lane == LANE_NONE)
		return;
	GUARD(&lock);
	struct lane_use *u = &lanes[lane];
	u->in_use = false;
	for (uint32_t i = 0; i < u->n; i++)
		unmap(&own[u->at[i]]);
}

struct lane *lane_next(uint32_t lane, uint32_t *i)
{
	struct lane_use *u = &lanes[lane];

	return *i < load_acq(&u->n) ? &own[u->at[(*i)++]].in->lane[lane] : NULL;
}

/* @lane is in use in inbox @o from now on: forget whom its slots had. */
static bool lane_join(uint32_t lane, struct own *o)
{
	struct lane_use *u = &lanes[lane];
	uint8_t at = (uint8_t)(o - own);

	for (uint32_t i = 0; i < u->n; i++)
		if (u->at[i] == at)
			return true;
	if (!o->owners[lane]) {
		void *map = mmap(NULL, sizeof(struct lane_owners),
				 PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (map == MAP_FAILED)
			return false;
		o->owners[lane] = map;
	}
	struct lane_owners *w = o->owners[lane];
	memset(w->owner, 0, w->n_used * sizeof(*w->owner));
	w->n_used = w->n_free = 0;
	memset(&o->in->lane[lane], 0, sizeof(struct lane));
	u->at[u->n] = at;
	store_rel(&u->n, u->n + 1);
	return true;
}

uint32_t slot_open(uint32_t lane, uint32_t tag, void *owner)
{
	if (lane == LANE_NONE)
		return SLOT_NONE;
	GUARD(&lock);
	struct own *in = own_of(tag);
	if (!in || !lane_join(lane, in))
		return SLOT_NONE;
	struct lane_owners *o = in->owners[lane];
	uint32_t bit;
	if (o->n_free)
		bit = o->free_stack[--o->n_free];
	else if (o->n_used < LANE_SLOTS)
		bit = o->n_used++;
	else
		return SLOT_NONE;
	in->n_refs++;
	store_rel(&o->owner[bit], owner);
	return slot_make(lane, bit) | (tag & TAG_INDEX) << SLOT_LOCAL;
}

void slot_close(uint32_t slot)
{
	if (slot == SLOT_NONE)
		return;
	GUARD(&lock);
	struct own *in = &own[slot >> SLOT_LOCAL];
	struct lane_owners *o = in->owners[slot_lane(slot)];
	uint32_t bit = slot & 0xffff;
	store_rel(&o->owner[bit], NULL);
	o->free_stack[o->n_free++] = bit;
	unref(in);
}

struct lane *slot_in(uint32_t slot)
{
	return &own[slot >> SLOT_LOCAL].in->lane[slot_lane(slot)];
}

/* Append all set bits of the lane to @o, which has @n bits already. */
HOT static uint32_t lane_take(struct lane *l, struct lane_owners *o, uint32_t n)
{
	for (unsigned s = 0; s < LANE_WORDS / 64; s++) {
		if (!load_rlx(&l->summary[s]))
			continue;
		uint64_t words = xchg(&l->summary[s], UINT64_C(0)); /* I1 */
		while (words) {
			unsigned w = s * 64 + (unsigned)__builtin_ctzll(words);
			uint64_t bits = xchg(&l->bits[w], UINT64_C(0));

			words &= words - 1;
			bits &= ~o->taken[w];
			o->taken[w] |= bits;
			for (; bits; bits &= bits - 1)
				o->found[n++] =
				    (uint16_t)(w * 64 +
					       (unsigned)__builtin_ctzll(bits));
		}
	}
	return n;
}

static bool untake(struct lane_owners *o, uint32_t bit)
{
	uint64_t mask = UINT64_C(1) << (bit % 64);
	bool was = o->taken[bit / 64] & mask;

	o->taken[bit / 64] &= ~mask;
	return was;
}

/* Return the bit that drew ticket @t, @ago tickets ago. */
static uint32_t logged_at(const struct lane *l, uint32_t t, uint32_t ago)
{
	const uint16_t *at = ago <= LANE_RECENT ? &l->recent[t % LANE_RECENT]
						: &l->log[t % LANE_LOG];

	return load_rlx(at) % LANE_SLOTS;
}

/*
 * Sort the @n bits that were found in the order of the log.  Start at its end,
 * because only the last ticket of a bit counts.  Return the position of the
 * first bit that is behind TCP, or @n.
 */
static uint32_t lane_order(struct lane *l, struct lane_owners *o, uint32_t n)
{
	uint32_t next = load_rlx(&l->ticket), m = 0, k = 0, n_behind = 0;
	uint64_t behind = load_rlx(&l->behind);
	uint32_t behind_ago = next - (uint32_t)behind;
	uint16_t *end = o->logged + LANE_LOG;

	for (uint32_t ago = 1; m < n && ago <= LANE_LOG; ago++) {
		uint32_t bit = logged_at(l, next - ago, ago);

		if (untake(o, bit))
			end[-(int)++m] = (uint16_t)bit;
		if (ago <= behind_ago)
			n_behind = m;
	}
	uint32_t older = n - m; /* those not in the log */
	for (uint32_t i = 0; older && i < n; i++)
		if (untake(o, o->found[i]))
			o->found[k++] = o->found[i];
	memcpy(o->found + older, end - m, m * sizeof(*end));
	if (!behind || behind_ago > UINT32_MAX / 2 || !n_behind)
		return n; /* or its bit is still to come */
	cas(&l->behind, behind, UINT64_C(0));
	return behind_ago > LANE_LOG ? 0 : n - n_behind;
}

HOT static bool drain(struct lane *l, struct lane_owners *o, ready_news *news,
		      void *arg)
{
	uint32_t n = lane_take(l, o, 0);
	bool any = false;

	if (!n)
		return false;
	/* If two posts came during the pass, it may have found only the
	 * second.  The first is there by now. */
	for (int i = 0; i < TAKES_MAX && lane_has_news(l); i++)
		n = lane_take(l, o, n);
	uint32_t behind = n;
	if (n > 1 || unlikely(load_rlx(&l->behind)))
		behind = lane_order(l, o, n);
	else
		untake(o, o->found[0]);
	for (uint32_t i = 0; i < n; i++) {
		void *owner = load_acq(&o->owner[o->found[i]]);

		if (!owner)
			continue;
		news(owner, READY_ANY, i == behind, arg);
		any = true;
	}
	return any;
}

HOT bool inbox_drain(uint32_t lane, ready_news *news, void *arg)
{
	struct lane_use *u = &lanes[lane];
	bool any = false;

	for (uint32_t i = 0; i < load_acq(&u->n); i++) {
		struct own *o = &own[u->at[i]];

		any |= drain(&o->in->lane[lane], o->owners[lane], news, arg);
	}
	return any;
}

void inbox_tell_self(uint32_t tag, uint32_t slot)
{
	uint32_t lane = slot_lane(slot), bit = slot & 0xffff, w = bit / 64;
	struct inbox *in = inbox_of(tag);

	if (!in || lane >= INBOX_LANES || bit >= LANE_SLOTS)
		return;
	struct lane *l = &in->lane[lane];
	fetch_or(&l->bits[w], UINT64_C(1) << (bit % 64));
	fetch_or(&l->summary[w / 64], UINT64_C(1) << (w % 64)); /* I1 */
}
