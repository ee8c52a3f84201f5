/* SPDX-License-Identifier: MIT */
/* sock/region.c - see sock/region.h */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/fork_lock.h"
#include "base/libc.h"
#include "base/lock.h"
#include "sock/region.h"

#define REGIONS 1024u /* of this process, at once */

static struct lock lock;
static struct region regions[REGIONS];
static uint32_t n_regions;
static uint32_t last_reused;

static uint64_t born_ns(int fd)
{
	struct statx sx = { 0 };

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &sx) ||
	    !(sx.stx_mask & STATX_BTIME))
		return 0;
	return (uint64_t)sx.stx_btime.tv_sec * NS_PER_S + sx.stx_btime.tv_nsec;
}

/* An inode number may be reused after the file is closed; the birth time
 * tells. */
static bool is_file_of(const struct region *r, const struct region *file)
{
	return r->dev == file->dev && r->ino == file->ino &&
	       r->size == file->size &&
	       (r->n_users || (r->born_ns && r->born_ns == file->born_ns));
}

/* Only the parent announces the parent's files. */
static void after_fork(void)
{
	lock_inherit(&lock);
	for (uint32_t i = 0; i < n_regions; i++) {
		fds_close(regions[i].fd);
		regions[i] = (struct region){ .fd = -1 };
	}
	n_regions = 0;
}

/* Once per process; a child inherits the registration. */
static void mind_forks(void)
{
	static uint32_t knows;

	if (!xchg(&knows, 1u))
		fork_lock_on_child(after_fork);
}

int region_check(int fd, struct stat *st)
{
	struct statfs fs;
	int seals = libc.fcntl(fd, F_GET_SEALS);

	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return -EBADMSG;
	if (libc.fstat(fd, st) < 0 || fstatfs(fd, &fs) < 0)
		return -errno;
	/* Refuse huge pages: reading a hole of such a file may fail. */
	return S_ISREG(st->st_mode) && fs.f_type == TMPFS_MAGIC && st->st_size
		   ? 0
		   : -EBADMSG;
}

/* A region for another file; caller holds the lock. */
static struct region *region_unused(void)
{
	if (n_regions < REGIONS)
		return &regions[n_regions++];
	for (uint32_t i = 0; i < REGIONS; i++) {
		struct region *r = &regions[++last_reused % REGIONS];

		if (!r->n_users)
			return r;
	}
	return NULL;
}

static struct region *region_of(const struct region *file)
{
	static uint64_t last_id;

	for (uint32_t i = 0; i < n_regions; i++)
		if (is_file_of(&regions[i], file))
			return &regions[i];
	struct region *r = region_unused();
	if (!r)
		return NULL;
	*r = *file;
	store_rlx(&r->id, ++last_id);
	return r;
}

int region_open(int fd, struct region **out)
{
	struct stat st;
	int err = region_check(fd, &st);

	if (err)
		return err;
	struct region file = { .fd = -1,
			       .dev = st.st_dev,
			       .ino = st.st_ino,
			       .size = (uint64_t)st.st_size,
			       .born_ns = born_ns(fd) };
	GUARD(&lock);
	mind_forks();
	struct region *r = region_of(&file);
	if (!r)
		return -ENOSPC;
	if (!r->n_users) {
		int own = fds_hide(libc.fcntl(fd, F_DUPFD_CLOEXEC, 0));

		if (own < 0)
			return -errno;
		store_rlx(&r->fd, own);
	}
	r->n_users++;
	*out = r;
	return 0;
}

void region_close(struct region *r)
{
	GUARD(&lock);
	if (--r->n_users)
		return;
	fds_close(r->fd);
	store_rlx(&r->fd, -1);
}
