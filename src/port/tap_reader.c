/* SPDX-License-Identifier: MIT */
/*
 * port/tap_reader.c - reads what a program writes into its tap; see tap.h
 *
 * Another program writes the memory.  So the reader copies everything, and checks the copy.
 * If the program may have overwritten a frame during the copy, the frame counts as missed.
 */
#include "port/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

/* A file that cannot shrink can be mapped without fear of a fault. */
static bool is_tap_file(int fd)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & SEALS) == SEALS && !fstat(fd, &st) &&
	       st.st_size == TAP_HEAD_BYTES + TAP_RING_BYTES;
}

/* Names are shown to people, so they must be printable. */
static void text_clean(char *s, size_t size)
{
	s[size - 1] = '\0';
	for (; *s; s++)
		if (*s < ' ' || *s > '~')
			*s = '?';
}

static int map(struct tap_reader *r)
{
	if (!is_tap_file(r->fd))
		return -EBADMSG;
	void *p = mmap(NULL, TAP_HEAD_BYTES + TAP_RING_BYTES,
		       PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	r->head = p;
	if (load_acq(&r->head->magic) != TAP_MAGIC) /* T1 */
		return -EBADMSG;
	r->info = *r->head;
	text_clean(r->info.dev, TAP_DEV_MAX);
	text_clean(r->info.program, TAP_PROGRAM_MAX);
	r->at = load_acq(&r->head->done);
	return 0;
}

int tap_reader_open(struct tap_reader *r, int fd)
{
	*r = (struct tap_reader){ .fd = fd };
	int err = map(r);

	if (err)
		tap_reader_close(r);
	return err;
}

void tap_reader_close(struct tap_reader *r)
{
	if (r->head)
		munmap(r->head, TAP_HEAD_BYTES + TAP_RING_BYTES);
	if (r->fd >= 0)
		close(r->fd);
	*r = (struct tap_reader){ .fd = -1 };
}

void tap_reader_want(struct tap_reader *r, uint64_t until_ns)
{
	if (load_rlx(&r->head->until_ns) < until_ns)
		store_rlx(&r->head->until_ns, until_ns);
}

static void get(const struct tap_reader *r, uint64_t at, void *to, size_t n)
{
	const uint8_t *ring = (const uint8_t *)r->head + TAP_HEAD_BYTES;
	size_t off = at % TAP_RING_BYTES;
	size_t first = MIN(n, TAP_RING_BYTES - off);

	memcpy(to, ring + off, first);
	memcpy((uint8_t *)to + first, ring, n - first);
}

/* Whether the bytes copied from @at on are valid: the program has not overwritten them
 * meanwhile. */
static bool is_still_there(const struct tap_reader *r, uint64_t at)
{
	fence_full(); /* the copy comes before this load */
	return load_rlx(&r->head->begun) - at <= TAP_RING_BYTES;
}

/* Return: whether the record is possible in a ring that holds @there bytes */
static bool is_sound(const struct tap_record *r, uint64_t there)
{
	return r->len <= TAP_FRAME_MAX && r->len <= r->wire_len &&
	       sizeof(*r) + (r->len + 7u) / 8 * 8 <= there;
}

/* Return: 1, 0: it was overwritten, -EBADMSG */
static int copy(struct tap_reader *r, uint64_t there, struct tap_seen *out)
{
	get(r, r->at, &out->r, sizeof(out->r));
	if (!is_still_there(r, r->at))
		return 0;
	if (!is_sound(&out->r, there))
		return -EBADMSG;
	get(r, r->at + sizeof(out->r), out->data, out->r.len);
	return is_still_there(r, r->at);
}

int tap_reader_next(struct tap_reader *r, struct tap_seen *out)
{
	uint64_t done = load_acq(&r->head->done); /* T2 */

	if (done == r->at)
		return 0;
	if (done - r->at < sizeof(struct tap_record))
		return -EBADMSG;
	int got = copy(r, done - r->at, out);
	if (got < 0)
		return got;
	if (!got) {
		r->at = load_acq(&r->head->done);
		return 0;
	}
	out->n_lost = r->has_nth ? out->r.nth - r->nth : 0;
	r->nth = out->r.nth + 1;
	r->has_nth = true;
	r->at += sizeof(out->r) + (out->r.len + 7u) / 8 * 8;
	return 1;
}
