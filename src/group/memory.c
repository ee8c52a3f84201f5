/* SPDX-License-Identifier: MIT */
/* group/memory.c - see group/memory.h */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/gate.h"
#include "base/libc.h"
#include "base/lock.h"
#include "base/log.h"
#include "group/memory.h"
#include "shm/region.h"
#include "shm/segment.h"

/*
 * The allocator: free runs of pages in lists by their size's magnitude, neighbours
 * joined; slabs of small blocks in lists by their blocks' size.
 */

#define HEAP_MAX (UINT64_C(1) << 36) /* of addresses, if they can be had */
#define HEAP_MIN (UINT64_C(1) << 26)
#define SLAB_PAGES 16u
#define SLAB_BYTES (SLAB_PAGES * MEMORY_PAGE)
#define SMALL_MIN 64u
#define SMALL_CLASSES 6u /* 64 bytes to 2 KB */
#define RUN_CLASSES 32u
#define TRIM_PAGES 1024u /* a free run from here on gives its memory back */
#define NO_PAGE UINT32_MAX

enum page_kind { PAGE_NONE, PAGE_FREE, PAGE_RUN, PAGE_SLAB };

/* Of the first page of a run; a free one's last says @n, too. */
struct page {
	uint8_t kind;
	uint8_t class;       /* of a slab */
	uint8_t is_private;  /* given away: no peer sees it any more */
	uint8_t back;        /* of a slab's page: pages from its first */
	uint32_t n;          /* pages of the run */
	uint32_t prev, next; /* in its list */
	uint32_t n_used;     /* blocks of a slab */
	uint32_t free;       /* its first free block, NO_PAGE */
};

static struct lock lock;
static uint8_t *heap;
static uint64_t heap_bytes;
static struct region *heap_region;
static struct page *pages;
static uint32_t n_pages; /* ever used */
static size_t used;
static uint32_t runs[RUN_CLASSES], slabs[SMALL_CLASSES];

static void after_fork(void);

/* Once a process; in the child it is known already. */
static void mind_forks(void)
{
	static bool knows;

	if (!knows)
		gate_on_child(after_fork);
	knows = true;
}

static bool heap_open(void)
{
	void *map, *books = MAP_FAILED;
	int fd = -1, err = -1;

	for (uint64_t n = HEAP_MAX; err && n >= HEAP_MIN; n /= 4) {
		err = sealed_create("osf-memory", n, &map, &fd);
		heap_bytes = n;
	}
	if (err)
		return false;
	size_t books_bytes = heap_bytes / MEMORY_PAGE * sizeof(struct page);
	if (!region_open(fd, &heap_region))
		books =
		    mmap(NULL, books_bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	libc.close(fd);
	if (books == MAP_FAILED) {
		munmap(map, heap_bytes);
		return false;
	}
	mind_forks();
	pages = books;
	memset(runs, 0xff, sizeof(runs));
	memset(slabs, 0xff, sizeof(slabs));
	n_pages = 0;
	store_rel(&heap, map); /* pairs with is_in_heap() */
	return true;
}

static bool is_in_heap(const void *p, size_t len)
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

static void run_mark(uint32_t i, uint32_t n, enum page_kind kind)
{
	pages[i].kind = pages[i + n - 1].kind = (uint8_t)kind;
	pages[i].n = pages[i + n - 1].n = n;
}

static void run_add_free(uint32_t i, uint32_t n)
{
	run_mark(i, n, PAGE_FREE);
	list_push(&runs[run_class(n)], i);
}

static void run_drop_free(uint32_t i)
{
	list_pop(&runs[run_class(pages[i].n)], i);
}

/* The first that is large enough, of the smallest magnitude that has one. */
static uint32_t run_find(uint32_t n)
{
	for (uint32_t c = run_class(n); c < RUN_CLASSES; c++)
		for (uint32_t i = runs[c]; i != NO_PAGE; i = pages[i].next)
			if (pages[i].n >= n)
				return i;
	return NO_PAGE;
}

static uint32_t run_alloc(uint32_t n)
{
	uint32_t i = run_find(n);

	if (i != NO_PAGE) {
		uint32_t had = pages[i].n;

		run_drop_free(i);
		if (had > n)
			run_add_free(i + n, had - n);
	} else {
		if (n > heap_bytes / MEMORY_PAGE - n_pages)
			return NO_PAGE;
		i = n_pages;
		n_pages += n;
	}
	run_mark(i, n, PAGE_RUN);
	used += (size_t)n * MEMORY_PAGE;
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

	used -= (size_t)n * MEMORY_PAGE;
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

static uint32_t *block_link(uint32_t slab, uint32_t block)
{
	return (uint32_t *)(void *)(heap + (size_t)slab * MEMORY_PAGE +
				    (size_t)block *
					block_bytes(pages[slab].class));
}

static uint32_t slab_new(uint32_t class)
{
	uint32_t i = run_alloc(SLAB_PAGES);

	if (i == NO_PAGE)
		return i;
	used -= SLAB_BYTES;
	for (uint32_t k = 0; k < SLAB_PAGES; k++) {
		pages[i + k].kind = PAGE_SLAB;
		pages[i + k].back = (uint8_t)k;
	}
	pages[i].n = SLAB_PAGES;
	pages[i].class = (uint8_t) class;
	pages[i].n_used = 0;
	uint32_t n = SLAB_BYTES / block_bytes(class);
	for (uint32_t k = 0; k < n; k++)
		*block_link(i, k) = k + 1 < n ? k + 1 : NO_PAGE;
	pages[i].free = 0;
	list_push(&slabs[class], i);
	return i;
}

static void *small_alloc(size_t n)
{
	uint32_t class =
	    n <= SMALL_MIN
		? 0
		: 32u - (uint32_t)__builtin_clz((uint32_t)(n - 1) / SMALL_MIN);
	uint32_t i = slabs[class];

	if (i == NO_PAGE && (i = slab_new(class)) == NO_PAGE)
		return NULL;
	struct page *p = &pages[i];
	uint32_t *block = block_link(i, p->free);
	p->free = *block;
	p->n_used++;
	used += block_bytes(class);
	if (p->free == NO_PAGE)
		list_pop(&slabs[class], i);
	return block;
}

static void small_free(uint32_t i, const uint8_t *at)
{
	struct page *p = &pages[i];
	uint32_t bytes = block_bytes(p->class);
	uint32_t block =
	    (uint32_t)(at - (heap + (size_t)i * MEMORY_PAGE)) / bytes;

	if (p->free == NO_PAGE)
		list_push(&slabs[p->class], i);
	*block_link(i, block) = p->free;
	p->free = block;
	used -= bytes;
	if (--p->n_used)
		return;
	list_pop(&slabs[p->class], i);
	used += SLAB_BYTES;
	run_mark(i, SLAB_PAGES, PAGE_RUN);
	run_free(i);
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
	if (!is_in_heap(p, 1))
		return; /* the parent's */
	uint32_t i = (uint32_t)((size_t)((uint8_t *)p - heap) / MEMORY_PAGE);
	switch (pages[i].kind) {
	case PAGE_RUN:
		run_free(i);
		break;
	case PAGE_SLAB:
		small_free(i - pages[i].back, p);
		break;
	default:
		log_err("%p was not allocated, or is free already", p);
	}
}

size_t memory_used(void)
{
	GUARD(&lock);
	return used;
}

/*
 * Registrations: type-stable, found by the key's lower part.
 */

#define REGS_MAX (1u << 20)
#define KEY_INDEX (REGS_MAX - 1)

struct reg {
	uint32_t key; /* 0: free */
	uint32_t next;
	const uint8_t *addr;
	size_t len;
	struct place at; /* of @addr; region NULL: nowhere */
};

static struct reg *regs;
static uint32_t n_regs, free_reg;

/* Caller holds the lock. */
static struct reg *reg_new(void)
{
	if (!regs) {
		void *map =
		    mmap(NULL, REGS_MAX * sizeof(*regs), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (map == MAP_FAILED)
			return NULL;
		mind_forks();
		store_rel(&regs, map); /* pairs with reg_of() */
	}
	if (free_reg) {
		struct reg *r = &regs[free_reg];

		free_reg = r->next;
		return r;
	}
	return n_regs + 1 < REGS_MAX ? &regs[++n_regs] : NULL;
}

/* A shared mapping that has all of it: its file, and the offset of @addr. */
static bool find_mapping(const uint8_t *addr, size_t len, struct stat *file,
			 uint64_t *off)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512], perms[8];
	unsigned long from, to, at, ino;
	unsigned major_dev, minor_dev;
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx %7s %lx %x:%x %lu", &from, &to, perms,
			   &at, &major_dev, &minor_dev, &ino) != 7)
			continue;
		found = perms[3] == 's' && (uintptr_t)addr >= from &&
			(uintptr_t)addr + len <= to;
		file->st_dev = makedev(major_dev, minor_dev);
		file->st_ino = ino;
		*off = at + ((uintptr_t)addr - from);
	}
	if (f)
		fclose(f);
	return found;
}

/* A descriptor of the program's that names the file; -1. */
static int find_file(const struct stat *file)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	struct stat st;
	int found = -1;

	while (dir && found < 0 && (e = readdir(dir))) {
		int fd = atoi(e->d_name);

		if (!libc.fstat(fd, &st) && st.st_ino == file->st_ino &&
		    st.st_dev == file->st_dev && S_ISREG(st.st_mode) &&
		    libc.fcntl(fd, F_GET_SEALS) >= 0)
			found = fd;
	}
	if (dir)
		closedir(dir);
	return found;
}

static void reg_place(struct reg *r)
{
	struct region *region;
	struct stat file = { 0 };
	uint64_t off = 0;

	if (!find_mapping(r->addr, r->len, &file, &off))
		return;
	int fd = find_file(&file);
	if (fd < 0)
		return;
	if (!(libc.fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK))
		libc.fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
	if (!region_open(fd, &region) && off + r->len <= region->size)
		r->at = (struct place){ region, off };
}

uint32_t memory_register(const void *addr, size_t len)
{
	struct reg found = { .addr = addr, .len = len };

	if (!is_in_heap(addr, len))
		reg_place(&found);
	GUARD(&lock);
	struct reg *r = reg_new();
	if (!r)
		return 0;
	uint32_t i = (uint32_t)(r - regs),
		 gen = (r->key & ~KEY_INDEX) + REGS_MAX;
	found.key = gen | i;
	*r = found;
	return r->key;
}

void memory_deregister(uint32_t key)
{
	uint32_t i = key & KEY_INDEX;
	GUARD(&lock);

	store_rlx(&regs[i].at.region, NULL);
	regs[i].next = free_reg;
	free_reg = i;
}

static inline const struct reg *reg_of(uint32_t key)
{
	struct reg *base = load_acq(&regs);
	const struct reg *r = base ? &base[key & KEY_INDEX] : NULL;

	return r && key && load_rlx(&r->key) == key && load_rlx(&r->at.region)
		   ? r
		   : NULL;
}

/*
 * Where memory is.
 */

bool memory_may_have(uint32_t key, const uint8_t *p)
{
	return is_in_heap(p, 1) || reg_of(key);
}

static inline struct page *page_of(const uint8_t *p)
{
	return &pages[(size_t)(p - heap) / MEMORY_PAGE];
}

static bool is_all_shared(const uint8_t *p, size_t len)
{
	for (const struct page *g = page_of(p); g <= page_of(p + len - 1); g++)
		if (unlikely(load_rlx(&g->is_private)))
			return false;
	return true;
}

bool memory_place(uint32_t key, const uint8_t *p, size_t len, struct place *out)
{
	const struct reg *r;

	if (is_in_heap(p, len)) {
		*out = (struct place){ heap_region, (uint64_t)(p - heap) };
		return is_all_shared(p, len);
	}
	if (!(r = reg_of(key)) || p < r->addr || len > r->len ||
	    (size_t)(p - r->addr) > r->len - len)
		return false;
	*out =
	    (struct place){ r->at.region, r->at.off + (uint64_t)(p - r->addr) };
	return true;
}

static void pages_give_away(uint8_t *at, size_t len)
{
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
	if (!is_in_heap(p, len))
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
	n_regs = free_reg = 0;
	regs = NULL;
	used = 0;
}
