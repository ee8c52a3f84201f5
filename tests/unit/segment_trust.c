/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/segment_trust.c - a segment that was passed to us is input
 *
 * seg_open() must map what seg_create() made, and nothing that could shrink, has
 * another size than it says, or speaks another version.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/libc.h"
#include "proto/shm/ring.h"
#include "proto/shm/segment.h"
#include "unit.h"

#define RING 16384u

/* Make one, let @spoil change it, and say what seg_open() thinks of it. */
static int open_after(void (*spoil)(struct seg *seg))
{
	struct seg *made, *opened;
	uint32_t size = 0;
	int fd;

	assert_int_equal(seg_create(RING, &made, &fd), 0);
	if (spoil)
		spoil(made);
	int err = seg_open(fd, &opened, &size);
	if (!err) {
		assert_int_equal(size, RING);
		assert_ptr_not_equal(made, opened);
		made->side[1].flags = 7;
		assert_int_equal(opened->side[1].flags, 7);
		seg_unmap(opened, size);
	}
	seg_unmap(made, RING);
	close(fd);
	return err;
}

static void spoil_magic(struct seg *seg) { seg->magic ^= 1; }
static void spoil_version(struct seg *seg) { seg->version++; }
static void spoil_small(struct seg *seg) { seg->ring_size /= 2; }
static void spoil_large(struct seg *seg) { seg->ring_size *= 2; }
static void spoil_none(struct seg *seg) { seg->ring_size = 0; }

static void what_was_made_can_be_opened(void **state)
{
	assert_int_equal(open_after(NULL), 0);
}

static void another_version_is_told_from_nonsense(void **state)
{
	assert_int_equal(open_after(spoil_version), -EPROTONOSUPPORT);
	assert_int_equal(open_after(spoil_magic), -EBADMSG);
}

static void a_ring_size_that_the_file_does_not_have_is_refused(void **state)
{
	assert_int_equal(open_after(spoil_small), -EBADMSG);
	assert_int_equal(open_after(spoil_large), -EBADMSG);
	assert_int_equal(open_after(spoil_none), -EBADMSG);
}

static int open_memfd(off_t bytes, int seals)
{
	struct seg *seg;
	uint32_t size;
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, bytes), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	int err = seg_open(fd, &seg, &size);
	close(fd);
	return err;
}

static void sizes_that_no_segment_has_are_refused(void **state)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

	assert_int_equal(open_memfd(0, seals), -EBADMSG);
	assert_int_equal(open_memfd(1, seals), -EBADMSG);
	assert_int_equal(open_memfd(SEG_PAGE, seals), -EBADMSG);
	assert_int_equal(open_memfd(3 * SEG_PAGE - 1, seals), -EBADMSG);
	assert_int_equal(open_memfd(3 * SEG_PAGE + 128, seals), -EBADMSG);
	assert_int_equal(
	    open_memfd(SEG_PAGE + 2 * ((off_t)RING_MAX_SIZE * 2), seals),
	    -EBADMSG);
	assert_int_equal(open_memfd(3 * SEG_PAGE, seals), -EBADMSG);
}

static void what_could_shrink_is_refused(void **state)
{
	assert_int_equal(open_memfd((off_t)seg_bytes(RING), 0), -EBADMSG);
	assert_int_equal(open_memfd((off_t)seg_bytes(RING), F_SEAL_SHRINK),
			 -EBADMSG);
}

static void what_is_no_memory_is_refused(void **state)
{
	struct seg *seg;
	uint32_t size;
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	assert_int_equal(seg_open(fd, &seg, &size), -EBADMSG);
	close(fd);
	assert_int_equal(seg_open(-1, &seg, &size), -EBADF);
}

static void what_was_made_cannot_be_resized(void **state)
{
	struct seg *seg;
	int fd;

	assert_int_equal(seg_create(RING, &seg, &fd), 0);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(ftruncate(fd, 1 << 20), -1);
	seg_unmap(seg, RING);
	seg_unmap(NULL, RING);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_made_can_be_opened),
		cmocka_unit_test(another_version_is_told_from_nonsense),
		cmocka_unit_test(
		    a_ring_size_that_the_file_does_not_have_is_refused),
		cmocka_unit_test(sizes_that_no_segment_has_are_refused),
		cmocka_unit_test(what_could_shrink_is_refused),
		cmocka_unit_test(what_is_no_memory_is_refused),
		cmocka_unit_test(what_was_made_cannot_be_resized),
	};

	libc_resolve();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
