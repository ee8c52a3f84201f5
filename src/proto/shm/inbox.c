/* SPDX-License-Identifier: MIT */
/* proto/shm/inbox.c - see proto/shm/inbox.h */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/fds.h"
#include "base/libc.h"
#include "base/lock.h"
#include "proto/shm/inbox.h"
#include "proto/shm/segment.h"

#define INBOX_MAGIC 0x786f626e69666f32ull

#define TAKES_MAX 4 /* of a lane that is posted to while it is drained */
#define MARKS_MAX 8 /* of a lane whose mark others move meanwhile */

/* Process memory beside each lane of our own: who owns which slot. */
struct lane_owners {
	bool in_use;
	uint32_t n_used;         /* slots ever used */
	uint32_t n_free;         /* of them, free again: the chain below */
	void *owner[LANE_SLOTS]; /* or the number of the next free slot */
	uint32_t free_stack[LANE_SLOTS];
	uint64_t taken[LANE_WORDS]; /* by a drain; empty in between */
	uint16_t found[LANE_SLOTS]; /* the same, in order in the end */
	uint16_t logged[LANE_LOG];
};

struct peer {
	struct peer_inbox pub;
	struct peer *next;
	dev_t dev;
	ino_t ino;
	uint32_t n_refs;
};

static struct lock lock;
static struct inbox *own;
static int own_fd = -1;
static struct lane_owners *owners[INBOX_LANES];
static struct peer *peers;

/* How often, and when last, this process told peers something by TCP alone. */
static uint32_t n_past;
static uint64_t past_ns;

struct inbox *inbox_own(void)
{
	struct inbox *in = load_acq(&own);

	if (likely(in))
		return in;
	GUARD(&lock);
	if (own)
		return own;
	void *map;
	int fd;
	if (sealed_create("osf-inbox", sizeof(struct inbox), &map, &fd))
		return NULL;
	in = map;
	if (getrandom(in->id, sizeof(in->id), 0) != sizeof(in->id)) {
		sealed_unmap(map, sizeof(struct inbox));
		libc.close(fd);
		return NULL;
	}
	in->magic = INBOX_MAGIC;
	own_fd = fds_hide(fd);
	store_rel(&own, in); /* pairs with the load above */
	return in;
}

uint32_t inbox_own_tag(void)
{
	const struct inbox *in = load_acq(&own);
	uint32_t tag = 0;

	if (in)
		memcpy(&tag, in->id, sizeof(tag));
	return tag | (in != NULL);
}

int inbox_own_fd_get(void)
{
	lock_get(&lock);
	return own_fd < 0 ? -EMFILE : own_fd;
}

void inbox_own_fd_put(void) { lock_put(&lock); }

bool inbox_spare_fd(void)
{
	GUARD(&lock);
	bool any = own_fd >= 0;

	fds_close(own_fd);
	own_fd = -1;
	any |= bells_spare_fds();
	for (struct peer *p = peers; p; p = p->next)
		any |= bells_forget(&p->pub.bells);
	return any;
}

/* The inherited inbox belongs to the parent; the child starts without one. */
void inbox_after_fork(void)
{
	lock = (struct lock){ 0 };
	own = NULL;
	fds_close(own_fd);
	own_fd = -1;
	bells_after_fork();
	for (unsigned i = 0; i < INBOX_LANES; i++)
		if (owners[i])
			owners[i]->in_use = false;
}

uint32_t lane_open(void)
{
	if (!inbox_own())
		return LANE_NONE;
	GUARD(&lock);
	for (uint32_t i = 0; i < INBOX_LANES; i++) {
		if (owners[i] && owners[i]->in_use)
			continue;
		if (!owners[i]) {
			void *map = mmap(NULL, sizeof(struct lane_owners),
					 PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			if (map == MAP_FAILED)
				return LANE_NONE;
			owners[i] = map;
		}
		owners[i]->in_use = true;
		owners[i]->n_used = owners[i]->n_free = 0;
		memset(&own->lane[i], 0, sizeof(own->lane[i]));
		return i;
	}
	return LANE_NONE;
}

void lane_close(uint32_t lane)
{
	if (lane == LANE_NONE)
		return;
	GUARD(&lock);
	owners[lane]->in_use = false;
}

uint32_t slot_open(uint32_t lane, void *owner)
{
	if (lane == LANE_NONE)
		return SLOT_NONE;
	GUARD(&lock);
	struct lane_owners *o = owners[lane];
	uint32_t bit;
	if (o->n_free)
		bit = o->free_stack[--o->n_free];
	else if (o->n_used < LANE_SLOTS)
		bit = o->n_used++;
	else
		return SLOT_NONE;
	store_rel(&o->owner[bit], owner);
	return slot_make(lane, bit);
}

void slot_close(uint32_t slot)
{
	if (slot == SLOT_NONE)
		return;
	GUARD(&lock);
	struct lane_owners *o = owners[slot >> 16];
	uint32_t bit = slot & 0xffff;
	store_rel(&o->owner[bit], NULL);
	o->free_stack[o->n_free++] = bit;
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

HOT bool inbox_drain(uint32_t lane, ready_news *news, void *arg)
{
	struct lane *l = &own->lane[lane];
	struct lane_owners *o = owners[lane];
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

int inbox_attach(int fd, struct peer_inbox **to)
{
	GUARD(&lock);
	struct stat st;

	if (libc.fstat(fd, &st) < 0)
		return -errno;
	/* Compare the file itself, because a peer can claim any name. */
	for (struct peer *p = peers; p; p = p->next) {
		if (p->dev == st.st_dev && p->ino == st.st_ino) {
			p->n_refs++;
			*to = &p->pub;
			return 0;
		}
	}
	struct peer *p = calloc(1, sizeof(*p));
	void *map;
	if (!p)
		return -ENOMEM;
	int err = sealed_map(fd, sizeof(struct inbox), &map);
	if (err) {
		free(p);
		return err;
	}
	p->pub.in = map;
	p->dev = st.st_dev;
	p->ino = st.st_ino;
	p->n_refs = 1;
	p->next = peers;
	store_rlx(&peers, p); /* looked at without the lock */
	*to = &p->pub;
	return 0;
}

void inbox_detach(struct peer_inbox *to)
{
	if (!to)
		return;
	GUARD(&lock);
	for (struct peer **pp = &peers; *pp; pp = &(*pp)->next) {
		struct peer *p = *pp;

		if (&p->pub != to)
			continue;
		if (!--p->n_refs) {
			store_rlx(pp, p->next);
			sealed_unmap(to->in, sizeof(*to->in));
			bells_forget(&to->bells);
			free(p);
		}
		return;
	}
}

int inbox_keep_bell(struct peer_inbox *of, uint32_t bell, int fd, pid_t pid)
{
	GUARD(&lock);
	return bell_keep(&of->bells, bell, fd, pid);
}

void inbox_went_past(void)
{
	if (!load_rlx(&peers))
		return;
	store_rlx(&past_ns, now_ns());
	count(&n_past, 1);
}

void inbox_rang(struct peer_inbox *to)
{
	if (!to)
		return;
	store_rlx(&to->rang_ns, now_ns());
	count(&to->n_rang, 1);
}

/* Leave word that @ticket, and all after it, stand behind TCP, unless the waiter knows.
 * Another thread may have left word for a later ticket. */
static void mark_behind(const struct peer_inbox *to, struct lane *l,
			uint32_t ticket)
{
	uint64_t asked_ns = load_rlx(&l->asked_ns);

	if (asked_ns > load_rlx(&past_ns) && asked_ns > load_rlx(&to->rang_ns))
		return;
	for (int i = 0; i < MARKS_MAX; i++) {
		uint64_t old = load_rlx(&l->behind);

		if (old && (int32_t)((uint32_t)old - ticket) <= 0)
			return;
		if (cas(&l->behind, old, BEHIND | ticket))
			return;
	}
}

/* Has word been left, since what counts as @past went past, for @ticket or for an earlier
 * one? */
static bool is_notified(uint64_t last, uint32_t past, uint32_t ticket)
{
	return last >> 32 == past && (int32_t)(ticket - (uint32_t)last) >= 0;
}

static COLD void notify_behind(struct peer_inbox *to, uint32_t lane,
			       uint32_t past, uint32_t ticket)
{
	mark_behind(to, &to->in->lane[lane], ticket);
	/* Pairs with draw_ticket(): who skips its own mark finds this one made. */
	store_rel(&to->notified[lane], (uint64_t)past << 32 | ticket);
}

/*
 * A ticket for @bit, before the bit is set.  Threads that post the same bit at once may
 * take two, of which either will do.  Of several that find that something has gone past,
 * the one with the lowest ticket counts, whichever comes first.
 */
static inline void draw_ticket(struct peer_inbox *to, uint32_t lane,
			       uint32_t bit)
{
	struct lane *l = &to->in->lane[lane];
	uint32_t ticket = fetch_add(&l->ticket, 1);
	uint32_t past = load_acq(&n_past) + load_acq(&to->n_rang);

	store_rlx(&l->recent[ticket % LANE_RECENT], (uint16_t)bit); /* I1 */
	store_rlx(&l->log[ticket % LANE_LOG], (uint16_t)bit);
	if (unlikely(!is_notified(load_acq(&to->notified[lane]), past, ticket)))
		notify_behind(to, lane, past, ticket);
}

bool inbox_sleeps(const struct peer_inbox *to, uint32_t slot)
{
	uint32_t lane = slot >> 16;

	return lane >= INBOX_LANES || load_seq(&to->in->lane[lane].sleeping);
}

HOT bool inbox_post(struct peer_inbox *to, uint32_t slot)
{
	uint32_t lane = slot >> 16, bit = slot & 0xffff;

	if (unlikely(lane >= INBOX_LANES || bit >= LANE_SLOTS))
		return true; /* nonsense: leave it to the anchor */
	struct lane *l = &to->in->lane[lane];
	uint64_t mask = UINT64_C(1) << (bit % 64);
	unsigned w = bit / 64;

	/* The bit has not been drained yet, so whoever set it wakes the
	 * waiter.  The drain will find our news too, because the caller has
	 * stored it and fenced. */
	if (load_rlx(&l->bits[w]) & mask)
		return false;
	draw_ticket(to, lane, bit);
	fetch_or(&l->bits[w], mask);
	if (!(load_seq(&l->summary[w / 64]) & UINT64_C(1) << (w % 64)))
		fetch_or(&l->summary[w / 64], UINT64_C(1) << (w % 64)); /* I1 */
	return load_seq(&l->sleeping) && xchg(&l->sleeping, 0u);
}

bool inbox_ring(const struct peer_inbox *to, uint32_t slot)
{
	uint32_t lane = slot >> 16;

	return lane < INBOX_LANES &&
	       bell_ring(&to->bells, load_rlx(&to->in->lane[lane].bell1) - 1);
}

bool inbox_ring_only(const struct peer_inbox *to, uint32_t bell)
{
	uint32_t *sleeping = &to->in->bell[bell % BELLS].sleeping;

	if (!bell_is_kept(&to->bells, bell))
		return false;
	return !load_seq(sleeping) || !xchg(sleeping, 0u) ||
	       bell_ring(&to->bells, bell);
}
