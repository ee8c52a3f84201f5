/* SPDX-License-Identifier: MIT */
/* group/memory.c - the allocator of memory that may be sent by reference; memory.h */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/fork_lock.h"
#include "base/libc.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "base/sealed.h"
#include "base/vm.h"
#include "group/memory.h"
#include "sock/region.h"

/*
 * The allocator: lists of free page runs by order of magnitude, neighbours
 * merged; lists of slabs of small blocks by block size.
 */

#define HEAP_MAX (UINT64_C(1) << 36) /* of addresses, if they can be had */
#define HEAP_MIN (UINT64_C(1) << 26)
#define SLAB_PAGES 16u
#define SLAB_BYTES (SLAB_PAGES * MEMORY_PAGE)
#define SMALL_MIN 64u
#define SMALL_CLASSES 6u /* 64 bytes to 2 KB */
#define RUN_CLASSES 32u
#define TRIM_PAGES 1024u /* a free run from here on gives its memory back */
#define GROW_PAGES 8192u /* by so many the usable part grows: 32 MB */
#define FIND_MAX 32u     /* runs that may be too short are looked at */
#define NO_PAGE UINT32_MAX

enum page_kind { PAGE_NONE, PAGE_FREE, PAGE_RUN, PAGE_SLAB };

/* Describes a run in its first page; a free run's last page repeats @kind and
 * @n.  Pages inside a run have no kind, so a pointer to one is not taken for a
 * block. */
struct page {
	uint8_t kind;
	uint8_t class;       /* of a slab */
	uint8_t is_private;  /* given away: no peer sees it any more */
	uint8_t back;        /* of a slab's page: pages from its first */
	uint32_t n;          /* pages of the run; blocks of a slab in use */
	uint32_t prev, next; /* in its list */
	uint64_t
	    taken; /* of each page of a slab: a bit for each block in use */
};
static_assert(MEMORY_PAGE / SMALL_MIN <= 64, "a bit for each block");
static_assert(GROW_PAGES * sizeof(struct page) % MEMORY_PAGE == 0,
	      "books grow by whole pages");

static struct lock lock;
static uint8_t *heap;
static uint64_t heap_bytes;
static struct region *heap_region;
static struct page *pages;
static uint32_t n_pages;  /* ever used */
static uint32_t n_usable; /* that may be touched, and their books */
static uint32_t runs[RUN_CLASSES], slabs[SMALL_CLASSES];

static void after_fork(void);

/* Once a process; in the child it is known already. */
static void mind_forks(void)
{
	static bool knows;

	if (!knows)
		fork_lock_on_child(after_fork);
	knows = true;
}

static size_t books_bytes(uint64_t n_bytes)
{
	return n_bytes / MEMORY_PAGE * sizeof(struct page);
}

/* Reserve addresses for @n bytes and for the records of their pages. */
static bool heap_map(uint64_t n, void **map, void **books)
{
	int fd = sealed_file("osf-memory", n);

	if (fd < 0)
		return false;
	*map = map_sparse(n, PROT_NONE, MAP_SHARED, fd);
	*books = map_sparse(books_bytes(n), PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1);
	bool ok = *map != MAP_FAILED && *books != MAP_FAILED &&
		  !region_open(fd, &heap_region);
	nocancel_close(fd);
	if (ok)
		return true;
	if (*books != MAP_FAILED)
		munmap(*books, books_bytes(n));
	if (*map != MAP_FAILED)
		munmap(*map, n);
	return false;
}

static bool heap_open(void)
{
	void *map, *books;
	uint64_t n = HEAP_MAX;

	while (!heap_map(n, &map, &books))
		if ((n /= 4) < HEAP_MIN)
			return false;
	mind_forks();
	heap_bytes = n;
	pages = books;
	memset(runs, 0xff, sizeof(runs));
	memset(slabs, 0xff, sizeof(slabs));
	n_pages = n_usable = 0;
	store_rel(&heap, map); /* pairs with heap_has() */
	return true;
}

bool heap_has(const void *p, size_t len)
{
	const uint8_t *base = load_acq(&heap);
	uint64_t off = (uint64_t)((const uint8_t *)p - base);

	return base && off < heap_bytes && len <= heap_bytes - off;
}

static void list_push(uint32_t *head, uint32_t i)
{
	pages[i].prev = NO_PAGE;
	pages[i].next = *head;
	if (*head != NO_PAGE)
		pages[*head].prev = i;
	*head = i;
}

static void list_pop(uint32_t *head, uint32_t i)
{
	const struct page *p = &pages[i];

	if (p->prev == NO_PAGE)
		*head = p->next;
	else
		pages[p->prev].next = p->next;
	if (p->next != NO_PAGE)
		pages[p->next].prev = p->prev;
}

static uint32_t run_class(uint32_t n)
{
	return 31u - (uint32_t)__builtin_clz(n);
}

static void run_add_free(uint32_t i, uint32_t n)
{
	pages[i].kind = pages[i + n - 1].kind = PAGE_FREE;
	pages[i].n = pages[i + n - 1].n = n;
	list_push(&runs[run_class(n)], i);
}

static void run_drop_free(uint32_t i)
{
	uint32_t n = pages[i].n;

	list_pop(&runs[run_class(n)], i);
	pages[i].kind = pages[i + n - 1].kind = PAGE_NONE;
}

/* Find a free run of @n pages or more in the smallest class that has one.  Runs
 * in @n's own class may be too short: check at most @max of those. */
static uint32_t run_find(uint32_t n, uint32_t max)
{
	uint32_t c = run_class(n);

	for (uint32_t i = runs[c]; i != NO_PAGE && max--; i = pages[i].next)
		if (pages[i].n >= n)
			return i;
	while (++c < RUN_CLASSES)
		if (runs[c] != NO_PAGE)
			return runs[c];
	return NO_PAGE;
}

/* Back the next pages and their records with memory. */
static bool heap_grow(void)
{
	if (!use_sparse(heap + (size_t)n_usable * MEMORY_PAGE,
			(size_t)GROW_PAGES * MEMORY_PAGE) ||
	    !use_sparse(pages + n_usable, GROW_PAGES * sizeof(struct page)))
		return false;
	n_usable += GROW_PAGES;
	return true;
}

/* Pages that have not been used yet. */
static uint32_t run_new(uint32_t n)
{
	uint32_t i = n_pages;

	if (n > heap_bytes / MEMORY_PAGE - n_pages)
		return NO_PAGE;
	while (n_usable - n_pages < n)
		if (!heap_grow())
			return NO_PAGE;
	store_rel(&n_pages, n_pages + n); /* pairs with is_all_shared() */
	return i;
}

static uint32_t run_alloc(uint32_t n)
{
	uint32_t i = run_find(n, FIND_MAX), had = n;

	if (i == NO_PAGE) {
		i = run_new(n);
		if (i == NO_PAGE && (i = run_find(n, UINT32_MAX)) == NO_PAGE)
			return i;
	}
	if (pages[i].kind == PAGE_FREE) {
		had = pages[i].n;
		run_drop_free(i);
	}
	if (had > n)
		run_add_free(i + n, had - n);
	pages[i].kind = PAGE_RUN;
	pages[i].n = n;
	return i;
}

/* Memory of a long free run goes back to the system. */
static void run_trim(uint32_t i, uint32_t n)
{
	uint8_t *at = heap + (size_t)i * MEMORY_PAGE;
	size_t bytes = (size_t)n * MEMORY_PAGE;

	if (madvise(at, bytes, MADV_REMOVE)) /* some of it is private */
		madvise(at, bytes, MADV_DONTNEED);
}

static void run_free(uint32_t i)
{
	uint32_t n = pages[i].n, freed = n;

	pages[i].kind = PAGE_NONE;
	if (i && pages[i - 1].kind == PAGE_FREE) {
		uint32_t before = pages[i - 1].n;

		run_drop_free(i - before);
		i -= before;
		n += before;
	}
	if (i + n < n_pages && pages[i + n].kind == PAGE_FREE) {
		uint32_t behind = pages[i + n].n;

		run_drop_free(i + n);
		n += behind;
	}
	if (freed >= TRIM_PAGES)
		run_trim(i, n);
	run_add_free(i, n);
}

static inline uint32_t block_bytes(uint32_t class)
{
	return SMALL_MIN << class;
}

/* The bit mask of a page with all blocks in use. */
static inline uint64_t page_full(uint32_t class)
{
	return UINT64_MAX >> (64 - MEMORY_PAGE / block_bytes(class));
}

static inline uint32_t slab_blocks(uint32_t class)
{
	return SLAB_BYTES / block_bytes(class);
}

static uint32_t slab_new(uint32_t class)
{
	uint32_t i = run_alloc(SLAB_PAGES);

	if (i == NO_PAGE)
		return i;
	for (uint32_t k = 0; k < SLAB_PAGES; k++) {
		pages[i + k].kind = PAGE_SLAB;
		pages[i + k].back = (uint8_t)k;
		pages[i + k].taken = 0;
	}
	pages[i].n = 0;
	pages[i].class = (uint8_t) class;
	list_push(&slabs[class], i);
	return i;
}

static void *small_alloc(size_t n)
{
	uint32_t class =
	    n <= SMALL_MIN
		? 0
		: 32u - (uint32_t)__builtin_clz((uint32_t)(n - 1) / SMALL_MIN);
	uint32_t i = slabs[class], k = 0;

	if (i == NO_PAGE && (i = slab_new(class)) == NO_PAGE)
		return NULL;
	while (pages[i + k].taken == page_full(class))
		k++;
	uint32_t block = (uint32_t)__builtin_ctzll(~pages[i + k].taken);
	pages[i + k].taken |= UINT64_C(1) << block;
	if (++pages[i].n == slab_blocks(class))
		list_pop(&slabs[class], i);
	return heap + (size_t)(i + k) * MEMORY_PAGE +
	       block * block_bytes(class);
}

/* False: there is no such block in use. */
static bool small_free(uint32_t page, uint32_t off)
{
	uint32_t i = page - pages[page].back;
	struct page *p = &pages[i];
	uint32_t bytes = block_bytes(p->class);
	uint64_t bit = UINT64_C(1) << off / bytes;

	if (off % bytes || !(pages[page].taken & bit))
		return false;
	if (p->n == slab_blocks(p->class))
		list_push(&slabs[p->class], i);
	pages[page].taken &= ~bit;
	if (--p->n)
		return true;
	list_pop(&slabs[p->class], i);
	for (uint32_t k = 0; k < SLAB_PAGES; k++)
		pages[i + k].kind = PAGE_NONE;
	p->n = SLAB_PAGES;
	run_free(i);
	return true;
}

void *memory_alloc(size_t n)
{
	if (n > HEAP_MAX)
		return NULL;
	GUARD(&lock);
	if (!heap && !heap_open())
		return NULL;
	if (n <= block_bytes(SMALL_CLASSES - 1))
		return small_alloc(n);
	uint32_t i = run_alloc((uint32_t)((n + MEMORY_PAGE - 1) / MEMORY_PAGE));
	return i == NO_PAGE ? NULL : heap + (size_t)i * MEMORY_PAGE;
}

void memory_free(void *p)
{
	GUARD(&lock);
	if (!heap_has(p, 1))
		return; /* the parent's */
	size_t at = (size_t)((uint8_t *)p - heap);
	uint32_t i = (uint32_t)(at / MEMORY_PAGE), off = at % MEMORY_PAGE;
	bool ok = false;

	if (i >= n_pages)
		ok = false;
	else if (pages[i].kind == PAGE_RUN && !off) {
		run_free(i);
		ok = true;
	} else if (pages[i].kind == PAGE_SLAB) {
		ok = small_free(i, off);
	}
	if (!ok)
		log_err("%p was not allocated, or is free already", p);
}

/* Looking up memory and its owner. */

static inline struct page *page_of(const uint8_t *p)
{
	return &pages[(size_t)(p - heap) / MEMORY_PAGE];
}

static bool is_all_shared(const uint8_t *p, size_t len)
{
	const struct page *last = page_of(p + len - 1);

	if (unlikely(last >= pages + load_acq(&n_pages)))
		return false; /* never allocated */
	for (const struct page *g = page_of(p); g <= last; g++)
		if (unlikely(load_rlx(&g->is_private)))
			return false;
	return true;
}

bool heap_place(const uint8_t *p, size_t len, struct place *out)
{
	*out = (struct place){ heap_region, (uint64_t)(p - heap) };
	return is_all_shared(p, len);
}

/* Each may split a mapping in three; a process may have 65,530 mappings. */
#define GIVEN_MAX 8192u

static uint32_t n_given; /* pieces, so far */

bool memory_can_be_given(const uint8_t *p)
{
	return heap_has(p, 1) && load_rlx(&n_given) < GIVEN_MAX;
}

static void pages_give_away(uint8_t *at, size_t len)
{
	if (load_rlx(&n_given) >= GIVEN_MAX)
		return;
	fetch_add(&n_given, 1);
	void *own = mmap(NULL, len, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (own == MAP_FAILED) {
		log_err("no memory for %zu bytes that a peer still reads", len);
		return;
	}
	memcpy(own, at, len);
	for (size_t i = 0; i < len / MEMORY_PAGE; i++)
		store_rlx(&page_of(at)[i].is_private, (uint8_t)1);
	if (mremap(own, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, at) ==
	    MAP_FAILED)
		munmap(own, len);
}

void memory_give_away(const uint8_t *p, size_t len)
{
	if (!heap_has(p, len))
		return;
	for (size_t at = 0, end; at < len; at = end) {
		bool is_private = page_of(p + at)->is_private;

		for (end = at;
		     end < len && page_of(p + end)->is_private == is_private;)
			end += MEMORY_PAGE;
		if (!is_private)
			pages_give_away((uint8_t *)p + at, end - at);
	}
}

static void after_fork(void)
{
	lock = (struct lock){ 0 };
	/* What the child still uses of it stays mapped. */
	heap = NULL;
	heap_region = NULL;
	n_given = 0;
}
