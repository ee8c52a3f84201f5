/* SPDX-License-Identifier: MIT */
/* shm/inbox.c - see shm/inbox.h */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/atomic.h"
#include "base/fds.h"
#include "base/libc.h"
#include "base/lock.h"
#include "shm/inbox.h"
#include "shm/segment.h"

#define INBOX_MAGIC 0x786f626e69666f31ull

/* Process memory beside each lane of our own: whose slot is whose. */
struct lane_owners {
	bool in_use;
	uint32_t n_used;         /* slots ever used */
	uint32_t n_free;         /* of them, free again: the chain below */
	void *owner[LANE_SLOTS]; /* or the number of the next free slot */
	uint32_t free_stack[LANE_SLOTS];
};

struct peer {
	struct peer *next;
	struct inbox *in;
	dev_t dev;
	ino_t ino;
	uint32_t n_refs;
};

static struct lock lock;
static struct inbox *own;
static int own_fd = -1;
static struct lane_owners *owners[INBOX_LANES];
static struct peer *peers;

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
		munmap(map, sizeof(struct inbox));
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

int inbox_own_fd(void) { return own_fd; }

/* The inherited one is the parent's; we begin without. */
void inbox_after_fork(void)
{
	lock = (struct lock){ 0 };
	own = NULL;
	fds_close(own_fd);
	own_fd = -1;
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

HOT bool inbox_harvest(uint32_t lane, void (*news)(void *owner, void *arg),
		       void *arg)
{
	struct lane *l = &own->lane[lane];
	bool any = false;

	for (unsigned s = 0; s < LANE_WORDS / 64; s++) {
		if (!load_rlx(&l->summary[s]))
			continue;
		uint64_t words = xchg(&l->summary[s], UINT64_C(0)); /* I1 */
		while (words) {
			unsigned w = s * 64 + (unsigned)__builtin_ctzll(words);
			uint64_t bits = xchg(&l->bits[w], UINT64_C(0));

			words &= words - 1;
			while (bits) {
				unsigned b =
				    w * 64 + (unsigned)__builtin_ctzll(bits);
				void *owner = load_acq(&owners[lane]->owner[b]);

				bits &= bits - 1;
				if (owner) {
					news(owner, arg);
					any = true;
				}
			}
		}
	}
	return any;
}

int inbox_attach(int fd, struct inbox **in)
{
	GUARD(&lock);
	struct stat st;

	if (libc.fstat(fd, &st) < 0)
		return -errno;
	/* By what the kernel says it is: a peer can claim any name. */
	for (struct peer *p = peers; p; p = p->next) {
		if (p->dev == st.st_dev && p->ino == st.st_ino) {
			p->n_refs++;
			*in = p->in;
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
	p->in = map;
	p->dev = st.st_dev;
	p->ino = st.st_ino;
	p->n_refs = 1;
	p->next = peers;
	peers = p;
	*in = p->in;
	return 0;
}

void inbox_detach(struct inbox *in)
{
	if (!in)
		return;
	GUARD(&lock);
	for (struct peer **pp = &peers; *pp; pp = &(*pp)->next) {
		struct peer *p = *pp;

		if (p->in != in)
			continue;
		if (!--p->n_refs) {
			*pp = p->next;
			munmap(in, sizeof(*in));
			free(p);
		}
		return;
	}
}

HOT bool inbox_post(struct inbox *in, uint32_t slot)
{
	uint32_t lane = slot >> 16, bit = slot & 0xffff;

	if (unlikely(lane >= INBOX_LANES || bit >= LANE_SLOTS))
		return true; /* nonsense: leave it to the anchor */
	struct lane *l = &in->lane[lane];
	uint64_t mask = UINT64_C(1) << (bit % 64);
	unsigned w = bit / 64;

	/* Unharvested: whoever set it sees to the rest, and the news, stored before
	 * this load (the caller's fence), will be looked at with it. */
	if (load_rlx(&l->bits[w]) & mask)
		return false;
	fetch_or(&l->bits[w], mask);
	if (!(load_seq(&l->summary[w / 64]) & UINT64_C(1) << (w % 64)))
		fetch_or(&l->summary[w / 64], UINT64_C(1) << (w % 64)); /* I1 */
	return load_seq(&l->sleeping) && xchg(&l->sleeping, 0u);
}
