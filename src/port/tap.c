/* SPDX-License-Identifier: MIT */
/*
 * port/tap.c - a port's frames, copied into shared memory; see tap.h
 *
 * The ring gets memory when the first reader comes.  The writer marks each frame twice, as
 * with a sequence lock: it stores `begun', writes the bytes, and stores `done'.
 */
#include "port/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/libc.h"
#include "base/nocancel.h"
#include "base/sealed.h"

static uint8_t *ring(const struct tap *t)
{
	return (uint8_t *)t->head + TAP_HEAD_BYTES;
}

static void text_copy(char *to, const char *from, size_t size)
{
	strncpy(to, from, size - 1);
	to[size - 1] = '\0';
}

/* The memory may not be available, and touching it would then kill the program. */
static int map_head(struct tap *t)
{
	const size_t bytes = TAP_HEAD_BYTES + TAP_RING_BYTES;

	if (fallocate(t->fd, 0, 0, TAP_HEAD_BYTES))
		return -errno;
	void *p =
	    mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	madvise(p, bytes, MADV_DONTFORK);
	madvise(p, bytes, MADV_DONTDUMP);
	t->head = p;
	return 0;
}

int tap_open(struct tap *t, const char *dev, const char *program)
{
	*t = TAP_NONE;
	t->fd = sealed_file(TAP_MEMFD, TAP_HEAD_BYTES + TAP_RING_BYTES);
	if (t->fd < 0)
		return t->fd;
	int err = map_head(t);
	if (err) {
		tap_close(t);
		return err;
	}
	t->head->pid = (uint32_t)getpid();
	text_copy(t->head->dev, dev, TAP_DEV_MAX);
	text_copy(t->head->program, program, TAP_PROGRAM_MAX);
	store_rel(&t->head->magic, TAP_MAGIC); /* T1 */
	return 0;
}

void tap_close(struct tap *t)
{
	if (t->head)
		munmap(t->head, TAP_HEAD_BYTES + TAP_RING_BYTES);
	if (t->fd >= 0)
		nocancel_close(t->fd);
	*t = TAP_NONE;
}

bool tap_is_due(struct tap *t)
{
	uint64_t until_ns = load_rlx(&t->head->until_ns);

	if (now_ns() >= until_ns) {
		(void)cas(&t->head->until_ns, until_ns, 0);
		return false;
	}
	if (!t->has_memory)
		t->has_memory =
		    !fallocate(t->fd, 0, TAP_HEAD_BYTES, TAP_RING_BYTES);
	return t->has_memory;
}

static void put(struct tap *t, const void *p, size_t n)
{
	size_t off = t->at % TAP_RING_BYTES;
	size_t first = MIN(n, TAP_RING_BYTES - off);

	memcpy(ring(t) + off, p, first);
	memcpy(ring(t), (const uint8_t *)p + first, n - first);
	t->at += n;
}

void tap_frame(struct tap *t, enum tap_direction direction,
	       const struct iovec *iov, unsigned n)
{
	size_t all = 0;

	if (!tap_is_due(t))
		return;
	for (unsigned i = 0; i < n; i++)
		all += iov[i].iov_len;
	size_t left = MIN(all, (size_t)TAP_FRAME_MAX);
	struct tap_record r = { .at_ns = clock_ns(CLOCK_REALTIME),
				.nth = t->nth++,
				.len = (uint32_t)left,
				.wire_len = (uint32_t)all,
				.direction = direction };
	uint64_t end = t->at + sizeof(r) + (left + 7) / 8 * 8;

	store_rlx(&t->head->begun, end);
	fence_full(); /* readers see begun before they see any of these bytes */
	put(t, &r, sizeof(r));
	for (unsigned i = 0; left; i++) {
		size_t part = MIN(iov[i].iov_len, left);

		put(t, iov[i].iov_base, part);
		left -= part;
	}
	t->at = end;
	store_rel(&t->head->done, end); /* T2 */
}
