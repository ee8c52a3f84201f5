/* SPDX-License-Identifier: MIT */
/* tests/unit/tap_ring.c - what a port shows is read whole, in order, and what is missing is
 * counted; a program that lies harms no reader */
#include "port/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "unit.h"

static struct tap tap;
static struct tap_reader reader;
static struct tap_seen seen;
static uint8_t frame[100000];

static void reader_begin(struct tap_reader *r)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", tap.fd);
	assert_int_equal(tap_reader_open(r, open(path, O_RDWR | O_CLOEXEC)), 0);
}

static int begin(void **state)
{
	assert_int_equal(tap_open(&tap, "eth0", "redis\n-server"), 0);
	reader_begin(&reader);
	for (size_t i = 0; i < sizeof(frame); i++)
		frame[i] = stream_byte(i);
	return 0;
}

static int end(void **state)
{
	tap_reader_close(&reader);
	tap_close(&tap);
	return 0;
}

static void want(struct tap_reader *r)
{
	tap_reader_want(r, now_ns() + 1000 * NS_PER_S);
}

/* Two pieces, of a frame that tells its length. */
static void write_frame(uint32_t len)
{
	struct iovec iov[2] = { { frame, len / 3 },
				{ frame + len / 3, len - len / 3 } };

	tap_frame(&tap, len % 2 ? TAP_IN : TAP_OUT, iov, 2);
}

static void expect_frame(struct tap_reader *r, uint32_t len)
{
	assert_int_equal(tap_reader_next(r, &seen), 1);
	assert_int_equal(seen.r.wire_len, len);
	assert_int_equal(seen.r.len, MIN(len, TAP_FRAME_MAX));
	assert_int_equal(seen.r.direction, len % 2 ? TAP_IN : TAP_OUT);
	assert_memory_equal(seen.data, frame, seen.r.len);
}

static void a_reader_learns_whose_tap_it_is(void **state)
{
	assert_string_equal(reader.info.dev, "eth0");
	assert_string_equal(reader.info.program, "redis?-server");
	assert_int_equal(reader.info.pid, getpid());
}

static void nobody_reads_and_nothing_is_written(void **state)
{
	assert_false(tap_is_wanted(&tap));
	write_frame(100);
	assert_int_equal(tap.nth, 0);
	want(&reader);
	assert_true(tap_is_wanted(&tap));
	write_frame(100);
	expect_frame(&reader, 100);
	assert_int_equal(tap_reader_next(&reader, &seen), 0);
}

/* A reader that died. */
static void what_is_wanted_ends_by_itself(void **state)
{
	tap_reader_want(&reader, now_ns());
	assert_true(tap_is_wanted(&tap));
	write_frame(100);
	assert_false(tap_is_wanted(&tap));
	assert_int_equal(tap_reader_next(&reader, &seen), 0);
}

static void all_lengths_come_in_order_around_the_ring(void **state)
{
	struct rng r = { 7 };
	uint64_t n_bytes = 0;

	want(&reader);
	while (n_bytes < 3 * (uint64_t)TAP_RING_BYTES) {
		uint32_t len[20];

		for (unsigned i = 0; i < 20; i++) {
			len[i] = rng_below(&r, rng_below(&r, 8) ? 1500 : 90000);
			write_frame(len[i]);
			n_bytes += len[i];
		}
		for (unsigned i = 0; i < 20; i++) {
			expect_frame(&reader, len[i]);
			assert_int_equal(seen.n_lost, 0);
		}
	}
}

static void a_slow_reader_learns_what_it_missed(void **state)
{
	struct tap_reader fast;
	unsigned n = 3 * TAP_RING_BYTES / 1500;

	reader_begin(&fast);
	want(&reader);
	write_frame(1);
	expect_frame(&reader, 1);
	expect_frame(&fast, 1);
	for (unsigned i = 0; i < n; i++) {
		write_frame(1500);
		expect_frame(&fast, 1500);
	}
	assert_int_equal(tap_reader_next(&reader, &seen), 0);
	write_frame(77);
	expect_frame(&reader, 77);
	assert_int_equal(seen.n_lost, n);
	expect_frame(&fast, 77);
	tap_reader_close(&fast);
}

static void other_files_are_no_taps(void **state)
{
	struct tap_reader r;
	int fd = memfd_create(TAP_MEMFD, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, TAP_HEAD_BYTES + TAP_RING_BYTES), 0);
	assert_int_equal(tap_reader_open(&r, dup(fd)), -EBADMSG);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW),
			 0);
	assert_int_equal(tap_reader_open(&r, fd), -EBADMSG); /* no magic */
	assert_int_equal(tap_reader_open(&r, open("/dev/null", O_RDWR)),
			 -EBADMSG);
}

/* The program writes what it likes, also into the words of the reader's way. */
static void any_bytes_are_survived(void **state)
{
	struct rng r = { 11 };
	unsigned n_bad = 0;

	want(&reader);
	for (unsigned i = 0; i < 20000; i++) {
		uint8_t *at = (uint8_t *)tap.head + TAP_HEAD_BYTES +
			      reader.at % TAP_RING_BYTES;
		struct tap_record lie = { .len = rng_below(&r, 200000),
					  .wire_len = rng_below(&r, 200000),
					  .nth = rng_next(&r) };

		write_frame(rng_below(&r, 3000));
		if (reader.at % TAP_RING_BYTES < TAP_RING_BYTES - sizeof(lie))
			memcpy(at, &lie, sizeof(lie));
		if (!rng_below(&r, 50))
			tap.head->done = rng_next(&r) >> rng_below(&r, 64);
		if (!rng_below(&r, 50))
			tap.head->begun = rng_next(&r) >> rng_below(&r, 64);
		int got = tap_reader_next(&reader, &seen);
		n_bad += got < 0;
		assert_true(got != 1 || seen.r.len <= TAP_FRAME_MAX);
	}
	assert_true(n_bad);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_reader_learns_whose_tap_it_is),
		TEST(nobody_reads_and_nothing_is_written),
		TEST(what_is_wanted_ends_by_itself),
		TEST(all_lengths_come_in_order_around_the_ring),
		TEST(a_slow_reader_learns_what_it_missed),
		TEST(other_files_are_no_taps),
		TEST(any_bytes_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
