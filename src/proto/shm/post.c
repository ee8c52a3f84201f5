/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/post.c - posting to the inboxes of peers; see proto/shm/inbox.h
 *
 *     tx.c, rx.c -> shm_wake_peer()  ->  inbox_post(), inbox_ring()
 *
 * Holds one mapping for each inbox that a peer process has given us, however many
 * connections we have with it.  The mapping that lost its last connection most recently
 * stays, too.  The memory is the peer's, which may write there what it likes: what we read
 * is checked, and harms at most the order of its news.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/libc.h"
#include "base/lock.h"
#include "proto/shm/inbox.h"
#include "proto/shm/segment.h"

#define NOTES_MAX 8 /* of a lane whose note others change meanwhile */

struct peer {
	struct peer_inbox pub;
	struct peer *next;
	dev_t dev;
	ino_t ino;
	uint32_t n_refs;
	bool is_parents; /* who shares it: left as soon as possible */
};

static struct lock lock;
static struct peer *peers;
/* Of the connection that was the last one of its peer: the next one finds it mapped. */
static struct peer *idle;

/* How often, and when last, this process told peers something by TCP alone. */
static uint32_t n_past;
static uint64_t past_ns;

static void let_go(struct peer *p)
{
	if (!p)
		return;
	sealed_unmap(p->pub.in, sizeof(*p->pub.in));
	free(p);
}

/* The caller holds the lock. */
static void let_idle_go(void)
{
	struct peer *p = idle;

	idle = NULL;
	let_go(p);
}

bool inbox_spare_bells(void)
{
	GUARD(&lock);
	bool any = false;

	for (struct peer *p = peers; p; p = p->next)
		any |= bells_forget(&p->pub.bells);
	return any;
}

void post_after_fork(void)
{
	lock_inherit(&lock);
	let_idle_go();
	for (struct peer *p = peers; p; p = p->next)
		p->is_parents = true;
}

static bool is_of(const struct peer *p, const struct stat *st)
{
	return p && p->dev == st->st_dev && p->ino == st->st_ino;
}

static struct peer_inbox *use(struct peer *p)
{
	if (!p->n_refs++) {
		p->next = peers;
		store_rlx(&peers, p); /* looked at without the lock */
	}
	return &p->pub;
}

int inbox_attach(int fd, struct peer_inbox **to)
{
	GUARD(&lock);
	struct stat st;

	if (libc.fstat(fd, &st) < 0)
		return -errno;
	/* Compare the file itself, because a peer can claim any name. */
	struct peer *p = peers;
	while (p && !is_of(p, &st))
		p = p->next;
	if (!p && is_of(idle, &st)) {
		p = idle;
		idle = NULL;
	}
	if (p) {
		*to = use(p);
		return 0;
	}
	p = calloc(1, sizeof(*p));
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
	*to = use(p);
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
			bells_forget(&p->pub.bells); /* it may have died */
			if (p->is_parents) {
				let_go(p);
				return;
			}
			let_idle_go();
			idle = p;
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

/* Note for the waiter that @ticket, and all tickets after it, come after bytes
 * of TCP, unless the waiter knows that already.  Another thread may have noted
 * a later ticket. */
static void note_behind(const struct peer_inbox *to, struct lane *l,
			uint32_t ticket)
{
	uint64_t asked_ns = load_rlx(&l->asked_ns);

	if (asked_ns > load_rlx(&past_ns) && asked_ns > load_rlx(&to->rang_ns))
		return;
	for (int i = 0; i < NOTES_MAX; i++) {
		uint64_t old = load_rlx(&l->behind);

		if (old && (int32_t)((uint32_t)old - ticket) <= 0)
			return;
		if (cas(&l->behind, old, BEHIND | ticket))
			return;
	}
}

/* Since this process last sent by TCP, as @past counts it: has any thread noted
 * @ticket, or an earlier one? */
static bool is_notified(uint64_t last, uint32_t past, uint32_t ticket)
{
	return last >> 32 == past && (int32_t)(ticket - (uint32_t)last) >= 0;
}

static COLD void notify_behind(struct peer_inbox *to, uint32_t lane,
			       uint32_t past, uint32_t ticket)
{
	note_behind(to, &to->in->lane[lane], ticket);
	/* Pairs with draw_ticket(): who skips its own note finds this one made. */
	store_rel(&to->notified[lane], (uint64_t)past << 32 | ticket);
}

/*
 * Draw a ticket for @bit before the bit is set.  If several threads post the
 * same bit at once, two may draw a ticket, and either ticket will do.  If
 * several threads find that bytes went by TCP, the lowest of their tickets
 * counts, whichever thread is first.
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
	uint32_t how = load_seq(&l->sleeping);
	if (likely(how == LANE_AWAKE))
		return false;
	bell_met_sleeper();
	return how != LANE_NAPS && xchg(&l->sleeping, LANE_AWAKE);
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
