/* SPDX-License-Identifier: MIT */
/* proto/shm/segment.c - making and mapping segments; see proto/shm/segment.h */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/libc.h"
#include "base/memory.h"
#include "base/nocancel.h"
#include "base/sealed.h"
#include "proto/shm/elsewhere.h"
#include "proto/shm/inbox.h"
#include "proto/shm/ring.h"
#include "proto/shm/segment.h"

#define SHARE_OF_LIMIT 8      /* for all mappings */
#define SHARE_OF_LIMIT_SEG 64 /* for one segment */
/* Two programs that write before they read need as much as TCP has room for. */
#define RING_FLOOR (8u * 1024 * 1024)

/* Each side may come to write as much into a segment before its ring starts over. */
#define SEG_TOUCHED (1024u * 1024)
#define SHARE_OF_ROOM 2

static size_t n_mapped; /* bytes */
static uint32_t n_segs;

static rlim_t space_limit(void)
{
	struct rlimit rl;

	return getrlimit(RLIMIT_AS, &rl) ? RLIM_INFINITY : rl.rlim_cur;
}

/* Map all of @fd: 0 or -errno. */
static int map_shared(int fd, size_t bytes, void **map)
{
	rlim_t limit = space_limit();

	if (limit != RLIM_INFINITY &&
	    load_rlx(&n_mapped) + bytes > limit / SHARE_OF_LIMIT)
		return -ENOMEM;
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	madvise(at, bytes, MADV_DONTDUMP); /* a dump would fill every page */
	fetch_add(&n_mapped, bytes);
	*map = at;
	return 0;
}

void sealed_unmap(void *map, size_t bytes)
{
	discard_map(map, bytes);
	fetch_sub(&n_mapped, bytes);
}

uint32_t seg_ring_fit(uint32_t ring_size)
{
	rlim_t limit = space_limit();

	if (limit == RLIM_INFINITY)
		return ring_size;
	while (ring_size > RING_FLOOR &&
	       seg_bytes(ring_size) > limit / SHARE_OF_LIMIT_SEG)
		ring_size /= 2;
	return ring_size;
}

int sealed_create(const char *name, size_t bytes, void **map, int *pfd)
{
	int fd = sealed_file(name, bytes);

	if (fd < 0)
		return fd;
	int err = map_shared(fd, bytes, map);
	if (err) {
		nocancel_close(fd);
		return err;
	}
	*pfd = fd;
	return 0;
}

int sealed_renew(const char *name, size_t bytes, void **map, int *pfd)
{
	if (!*map)
		return sealed_create(name, bytes, map, pfd);
	int fd = sealed_file(name, bytes);
	if (fd < 0)
		return fd;
	if (mmap(*map, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		 fd, 0) == MAP_FAILED) {
		int err = -errno;

		nocancel_close(fd);
		return err;
	}
	*pfd = fd;
	return 0;
}

void sealed_forget(void *map, size_t bytes)
{
	mmap(map, bytes, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

bool sealed_is(int fd)
{
	int seals = fd < 0 ? -1 : libc.fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & SEALED_SEALS) == SEALED_SEALS;
}

int sealed_map(int fd, size_t bytes, void **map)
{
	struct stat st;

	if (!sealed_is(fd))
		return -EBADMSG;
	if (libc.fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || (size_t)st.st_size != bytes)
		return -EBADMSG;
	int err = map_shared(fd, bytes, map);
	/* Read-only, or sealed against writing. */
	return err == -EPERM || err == -EACCES ? -EBADMSG : err;
}

/* May there be one more, even if all of them are used? */
static bool has_room(void)
{
	uint64_t room = memory_room();

	return room == UINT64_MAX ||
	       (uint64_t)(load_rlx(&n_segs) + 1) * SEG_TOUCHED <=
		   room / SHARE_OF_ROOM;
}

int seg_create(uint32_t ring_size, struct seg **pseg, int *pfd)
{
	void *map;
	int err = !has_room() ? -ENOMEM
			      : sealed_create("osf-segment",
					      seg_bytes(ring_size), &map, pfd);

	if (err)
		return err;
	fetch_add(&n_segs, 1);
	struct seg *seg = map;
	seg->version = SEG_VERSION;
	seg->ring_size = ring_size;
	seg->side[0].slot = seg->side[1].slot = SLOT_NONE;
	store_rel(&seg->magic, SEG_MAGIC);
	*pseg = seg;
	return 0;
}

int seg_open(int fd, struct seg **pseg, uint32_t *ring_size)
{
	struct stat st;
	void *map;

	if (libc.fstat(fd, &st) < 0)
		return -errno;
	uint64_t rings = (uint64_t)st.st_size - SEG_PAGE;
	uint64_t size = rings / 2;
	if (st.st_size < (off_t)SEG_PAGE || size < RING_MIN_SIZE ||
	    size > RING_MAX_SIZE || rings % 2 || size % SEG_PAGE)
		return -EBADMSG;
	int err =
	    has_room() ? sealed_map(fd, (size_t)st.st_size, &map) : -ENOMEM;
	if (err)
		return err;
	struct seg *seg = map;
	if (load_acq(&seg->magic) != SEG_MAGIC || seg->ring_size != size)
		err = -EBADMSG;
	else if (seg->version != SEG_VERSION)
		err = -EPROTONOSUPPORT;
	if (err) {
		sealed_unmap(map, (size_t)st.st_size);
		return err;
	}
	fetch_add(&n_segs, 1);
	*pseg = seg;
	*ring_size = (uint32_t)size;
	return 0;
}

void seg_unmap(struct seg *seg, uint32_t ring_size)
{
	if (!seg)
		return;
	fetch_sub(&n_segs, 1);
	sealed_unmap(seg, seg_bytes(ring_size));
}
