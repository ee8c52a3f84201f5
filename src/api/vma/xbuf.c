/* SPDX-License-Identifier: MIT */
/* api/vma/xbuf.c - see api/vma/xbuf.h */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "api/vma/xbuf.h"
#include "base/atomic.h"
#include "base/list.h"
#include "base/lock.h"

struct xbuf {
	struct vma_buff_t pub;
	uint32_t n_refs; /* 0: free */
	int32_t fd;
	union {
		struct chunk *chunk; /* NULL: lent */
		struct xbuf *next_free;
	};
	struct below_lent lent; /* by fd */
};
static_assert(sizeof(struct xbuf) <= CACHE_LINE, "one line each");

struct slot {
	alignas(CACHE_LINE) struct xbuf b;
};

static struct lock lock; /* all below; not taken by a thread that is alone */
static struct slot *slots;
static uint32_t n_slots; /* that were ever used */
static struct xbuf *first_free;

static inline void enter(void)
{
	if (is_single_threaded())
		lock_enter();
	else
		lock_get(&lock);
}

static inline void leave(void)
{
	if (load_rlx(&lock.word))
		lock_put(&lock);
	else
		lock_leave();
}

static inline void leave_scope(char *unused) { leave(); }

/* To the end of the block. */
#define ALONE()                                                                \
	char alone __attribute__((cleanup(leave_scope), unused)) = (enter(), 0)

struct vma_buff_t *xbuf_take(void)
{
	ALONE();
	struct xbuf *b = first_free;

	if (b) {
		first_free = b->next_free;
		return &b->pub;
	}
	if (!slots) {
		void *at = mmap(
		    NULL, sizeof(*slots) * XBUF_MAX, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		slots = at == MAP_FAILED ? NULL : at;
	}
	return slots && n_slots < XBUF_MAX ? &slots[n_slots++].b.pub : NULL;
}

void xbuf_cancel(struct vma_buff_t *pub)
{
	struct xbuf *b = container_of(pub, struct xbuf, pub);

	if (!pub)
		return;
	ALONE();
	b->next_free = first_free;
	first_free = b;
}

void xbuf_fill(struct vma_buff_t *pub, struct chunk *c, const void *data,
	       uint16_t n)
{
	struct xbuf *b = container_of(pub, struct xbuf, pub);

	b->pub = (struct vma_buff_t){ NULL, (void *)data, n };
	b->chunk = c;
	store_rel(&b->n_refs, 1u);
}

void xbuf_fill_lent(struct vma_buff_t *pub, int fd, const struct below_lent *l,
		    const void *data, uint16_t n)
{
	struct xbuf *b = container_of(pub, struct xbuf, pub);

	held_lent();
	b->lent = *l;
	b->fd = fd;
	xbuf_fill(pub, NULL, data, n);
}

/* With the lock.  NULL: the program has no such buffer. */
static struct xbuf *find(const struct vma_buff_t *pub)
{
	uintptr_t off = (uintptr_t)pub - (uintptr_t)slots;

	if (!slots || off % sizeof(*slots) || off / sizeof(*slots) >= n_slots)
		return NULL;
	struct xbuf *b = &slots[off / sizeof(*slots)].b;
	return b->n_refs ? b : NULL;
}

int xbuf_ref(struct vma_buff_t *pub)
{
	ALONE();
	struct xbuf *b = find(pub);

	return b && b->n_refs < INT_MAX ? (int)++b->n_refs : -EINVAL;
}

int xbuf_unref(struct vma_buff_t *pub, struct vma_buff_t **next)
{
	struct below_lent lent;
	struct chunk *c;
	int fd = -1;
	{
		ALONE();
		struct xbuf *b = find(pub);

		if (!b)
			return -EINVAL;
		if (next)
			*next = pub->next;
		if (--b->n_refs)
			return (int)b->n_refs;
		c = b->chunk;
		if (unlikely(!c)) {
			fd = b->fd;
			lent = b->lent;
		}
		b->next_free = first_free;
		first_free = b;
	}
	if (likely(c != NULL))
		held_chunk_put(c);
	else
		held_lent_back(fd, &lent);
	return 0;
}
