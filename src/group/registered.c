/* SPDX-License-Identifier: MIT */
/*
 * group/registered.c - the program's own memory, sent by reference; see
 * memory.h
 *
 * Registrations are type-stable and found by a part of the key.  So a stale
 * key is detected.  A process has keys either of our own, with the place in the lower part,
 * or of libosf-verbs.so's device (api/verbs/sockets_pd.h).
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/fork_lock.h"
#include "base/libc.h"
#include "base/lock.h"
#include "base/vm.h"
#include "group/memory.h"
#include "sock/region.h"

#define REGS_MAX (1u << 20)
#define KEY_INDEX (REGS_MAX - 1)

struct reg {
	uint32_t key; /* the last one, with a new generation each time */
	uint32_t next;
	bool is_free;
	const uint8_t *addr;
	size_t len;
	struct place at; /* of @addr; region NULL: nowhere */
};

static struct reg *regs;
static uint32_t n_regs, free_reg, first_gen;
static uint32_t key_shift; /* of the place in a key */
static struct lock lock;

static void after_fork(void)
{
	lock = (struct lock){ 0 };
	n_regs = free_reg = 0;
	first_gen += 64 * REGS_MAX; /* the parent's keys are none of ours */
	regs = NULL;
}

/* Once a process; in the child it is known already. */
static void mind_forks(void)
{
	static bool knows;

	if (!knows)
		fork_lock_on_child(after_fork);
	knows = true;
}

/* Caller holds the lock. */
static bool regs_map(void)
{
	if (regs)
		return true;
	void *map = map_sparse(REGS_MAX * sizeof(*regs), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (map == MAP_FAILED)
		return false;
	mind_forks();
	store_rel(&regs, map); /* pairs with reg_of() */
	return true;
}

/* Caller holds the lock. */
static struct reg *reg_new(void)
{
	if (!regs_map())
		return NULL;
	if (free_reg) {
		struct reg *r = &regs[free_reg];

		free_reg = r->next;
		r->is_free = false;
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
	if (region_open(fd, &region))
		return;
	if (off + r->len <= region->size)
		r->at = (struct place){ region, off };
	else
		region_close(region);
}

static struct reg reg_found(const void *addr, size_t len)
{
	struct reg found = { .addr = addr, .len = len };

	if (!heap_has(addr, len))
		reg_place(&found);
	return found;
}

/* Caller holds the lock, or nobody has seen @r. */
static void reg_leave(struct reg *r)
{
	struct region *region = (struct region *)r->at.region;

	store_rlx(&r->at.region, NULL);
	if (region)
		region_close(region);
}

/* Who asks for a key that is stale reads this, too.  Caller holds the lock. */
static void reg_fill(struct reg *r, uint32_t key, const struct reg *found)
{
	store_rlx(&r->addr, found->addr);
	store_rlx(&r->len, found->len);
	store_rlx(&r->at.off, found->at.off);
	store_rlx(&r->at.region, found->at.region);
	store_rel(&r->key, key); /* pairs with reg_place_of() */
}

uint32_t memory_register(const void *addr, size_t len)
{
	struct reg found = reg_found(addr, len);
	GUARD(&lock);
	struct reg *r = reg_new();

	if (!r) {
		reg_leave(&found);
		return 0;
	}
	uint32_t i = (uint32_t)(r - regs),
		 gen = ((r->key ? r->key : first_gen) & ~KEY_INDEX) + REGS_MAX;
	reg_fill(r, gen | i, &found);
	return gen | i;
}

void memory_register_as(uint32_t key, const void *addr, size_t len)
{
	struct reg found = reg_found(addr, len);
	GUARD(&lock);

	if (!regs_map() || key >> MEMORY_KEY_BITS >= REGS_MAX) {
		reg_leave(&found);
		return;
	}
	key_shift = MEMORY_KEY_BITS;
	struct reg *r = &regs[key >> MEMORY_KEY_BITS];
	reg_leave(r);
	reg_fill(r, key, &found);
}

void memory_deregister(uint32_t key)
{
	uint32_t i = (key >> key_shift) & KEY_INDEX;
	GUARD(&lock);

	if (!regs || regs[i].key != key || regs[i].is_free)
		return; /* the parent's */
	reg_leave(&regs[i]);
	if (key_shift)
		return;
	regs[i].is_free = true;
	regs[i].next = free_reg;
	free_reg = i;
}

static inline const struct reg *reg_of(uint32_t key)
{
	struct reg *base = load_acq(&regs);
	const struct reg *r =
	    base ? &base[(key >> load_rlx(&key_shift)) & KEY_INDEX] : NULL;

	return r && key && load_acq(&r->key) == key && load_rlx(&r->at.region)
		   ? r
		   : NULL;
}

/* Where @len bytes at @p are, by @key, which others may be giving back meanwhile. */
static bool reg_place_of(uint32_t key, const uint8_t *p, size_t len,
			 struct place *out)
{
	const struct reg *r = reg_of(key);

	if (!r)
		return false;
	const uint8_t *addr = load_rlx(&r->addr);
	size_t has = load_rlx(&r->len);
	*out = (struct place){ load_rlx(&r->at.region),
			       load_rlx(&r->at.off) + (uint64_t)(p - addr) };
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return out->region && load_rlx(&r->key) == key && p >= addr &&
	       len <= has && (size_t)(p - addr) <= has - len;
}

bool memory_may_have(uint32_t key, const uint8_t *p)
{
	return heap_has(p, 1) || reg_of(key);
}

bool memory_place(uint32_t key, const uint8_t *p, size_t len, struct place *out)
{
	if (heap_has(p, len))
		return heap_place(p, len, out);
	return reg_place_of(key, p, len, out);
}
