/* SPDX-License-Identifier: MIT */
/* tests/unit/pcapng_blocks.c - a capture's blocks are whole, and say what was written */
#include "port/pcapng.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

#define FILE_MAX 131072

static uint8_t file[FILE_MAX];
static uint32_t n_file;

static uint32_t word(uint32_t at)
{
	uint32_t w;

	assert_true(at + 4 <= n_file);
	memcpy(&w, file + at, 4);
	return w;
}

/* The option's bytes among those between @at and @end; NULL: it is not there. */
static const uint8_t *option(uint32_t at, uint32_t end, unsigned code,
			     uint32_t *len)
{
	while (at < end) {
		*len = word(at) >> 16;
		if ((word(at) & 0xffff) == code)
			return file + at + 4;
		if (!(word(at) & 0xffff))
			break;
		at += 4 + (*len + 3) / 4 * 4;
	}
	return NULL;
}

/* The @nth block; checks all before it. */
static uint32_t block(unsigned nth)
{
	uint32_t at = 0;

	for (;; nth--) {
		uint32_t len = word(at + 4);

		assert_true(len % 4 == 0 && len >= 12);
		assert_int_equal(word(at + len - 4), len);
		if (!nth)
			return at;
		at += len;
	}
}

static char path[] = "/tmp/pcapng-XXXXXX";

static void begin(struct pcapng *p)
{
	strcpy(path + sizeof(path) - 7, "XXXXXX");
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(pcapng_open(p, path), 0);
}

static void written(struct pcapng *p)
{
	assert_int_equal(pcapng_close(p), 0);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	n_file = (uint32_t)fread(file, 1, FILE_MAX, f);
	fclose(f);
	unlink(path);
}

static void an_interface_has_its_name_and_counts_nanoseconds(void **state)
{
	struct pcapng p;
	uint32_t at, len;

	begin(&p);
	assert_int_equal(pcapng_interface(&p, PCAPNG_IP, "a", NULL), 0);
	assert_int_equal(pcapng_interface(&p, PCAPNG_ETHERNET, "eth0", "redis"),
			 1);
	written(&p);
	at = block(2);
	assert_int_equal(word(at), 1);
	assert_int_equal(word(at + 8), PCAPNG_ETHERNET);
	uint32_t end = at + word(at + 4) - 4;
	assert_memory_equal(option(at + 16, end, 2, &len), "eth0", 4);
	assert_int_equal(len, 4);
	assert_memory_equal(option(at + 16, end, 3, &len), "redis", 5);
	assert_int_equal(*option(at + 16, end, 9, &len), 9);
	assert_int_equal(at + word(at + 4), n_file);
}

static void a_frame_has_its_bytes_time_direction_and_comment(void **state)
{
	struct pcapng p;
	uint32_t at, end, len;

	for (uint32_t n = 0; n < 9; n++) {
		begin(&p);
		pcapng_interface(&p, PCAPNG_IP, "a", NULL);
		pcapng_write(
		    &p, &(struct pcapng_frame){ .direction = PCAPNG_OUT,
						.at_ns = 0x123456789abcdef0,
						.data = "12345678",
						.len = n,
						.wire_len = n + 100,
						.n_lost = 7,
						.comment = "redis (12)" });
		written(&p);
		at = block(2);
		end = at + word(at + 4) - 4;
		assert_int_equal(word(at), 6);
		assert_int_equal(word(at + 12), 0x12345678);
		assert_int_equal(word(at + 16), 0x9abcdef0);
		assert_int_equal(word(at + 20), n);
		assert_int_equal(word(at + 24), n + 100);
		assert_memory_equal(file + at + 28, "12345678", n);
		at += 28 + (n + 3) / 4 * 4;
		assert_memory_equal(option(at, end, 1, &len), "redis (12)", 10);
		assert_int_equal(len, 10);
		assert_int_equal(*option(at, end, 2, &len), PCAPNG_OUT);
		assert_int_equal(*option(at, end, 4, &len), 7);
		assert_int_equal(end + 4, n_file);
	}
}

/* An option's length has 16 bits. */
static void a_long_comment_is_cut(void **state)
{
	static char comment[100000];
	struct pcapng p;
	uint32_t len;

	memset(comment, 'x', sizeof(comment) - 1);
	begin(&p);
	pcapng_interface(&p, PCAPNG_IP, "a", NULL);
	pcapng_write(&p, &(struct pcapng_frame){ .comment = comment });
	pcapng_interface(&p, PCAPNG_IP, "b", NULL);
	written(&p);
	uint32_t at = block(2);
	assert_non_null(option(at + 28, n_file, 1, &len));
	assert_int_equal(len, 65532);
	assert_int_equal(word(at + 4), 28 + 4 + 65532 + 8);
	assert_int_equal(word(at + word(at + 4)), 1);
}

static void a_full_disk_is_told(void **state)
{
	struct pcapng p;

	if (access("/dev/full", W_OK))
		skip();
	assert_int_equal(pcapng_open(&p, "/dev/full"), 0);
	pcapng_interface(&p, PCAPNG_IP, "a", NULL);
	assert_int_equal(pcapng_close(&p), -EIO);
	assert_int_equal(pcapng_open(&p, "/nowhere/file"), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
		    an_interface_has_its_name_and_counts_nanoseconds),
		cmocka_unit_test(
		    a_frame_has_its_bytes_time_direction_and_comment),
		cmocka_unit_test(a_long_comment_is_cut),
		cmocka_unit_test(a_full_disk_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
