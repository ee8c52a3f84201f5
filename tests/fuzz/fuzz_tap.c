/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_tap.c - any bytes as the tap of a program, as `osf tap' reads it
 *
 *     script of stores into the head and the ring -> tap_reader_next() -> pcapng_write()
 *
 * Besides not crashing, this holds:
 *   I1  what is read has lengths that a frame can have
 *   I2  reading ends: the program has written so many bytes, and each record has some of them
 *   I3  texts of the head end, and can be shown
 */
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz_script.h"
#include "port/pcapng.h"
#include "port/tap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tap_head *head;
static struct tap_seen seen;
static struct pcapng out;
static int memory;

static void begin(void)
{
	size_t bytes = TAP_HEAD_BYTES + TAP_RING_BYTES;

	memory = memfd_create(TAP_MEMFD, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int err = ftruncate(memory, (off_t)bytes) ||
		  fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	head = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	err |= head == MAP_FAILED || pcapng_open(&out, "/dev/null");
	assert(!err);
}

/* The head as it should be, except for what the script says. */
static void fresh_head(void)
{
	uint32_t wrong = next();

	memset(head, 0, sizeof(*head));
	head->magic = TAP_MAGIC;
	head->begun = head->done = wrong & 2 ? take(4) : 0;
	if (wrong & 1)
		take_bytes((uint8_t *)head + next() % 64, next() % 64);
}

/* Most often a record that is possible, at the end of the ring or elsewhere. */
static void write_record(void)
{
	uint32_t how = next(), len = how & 1 ? take(4) : next();
	struct tap_record r = { .nth = how & 2 ? take(4) : head->done,
				.len = len,
				.wire_len = how & 4 ? take(4) : len,
				.direction = next() };
	uint8_t *ring = (uint8_t *)head + TAP_HEAD_BYTES;
	uint64_t at = head->done % TAP_RING_BYTES;

	for (size_t i = 0; i < sizeof(r); i++)
		ring[(at + i) % TAP_RING_BYTES] = ((uint8_t *)&r)[i];
	head->done += how & 8 ? take(4) : sizeof(r) + (len + 7u) / 8 * 8;
	head->begun = how & 16 ? take(4) : head->done;
}

static void move(void)
{
	uint64_t to = take(4) | (uint64_t)take(4) << 32;

	if (next() & 1)
		head->done = to;
	else
		head->begun = to;
}

static void read_some(struct tap_reader *r, uint32_t interface)
{
	uint64_t there = head->done - r->at;

	for (uint64_t n = 0; tap_reader_next(r, &seen) == 1; n++) {
		assert(seen.r.len <= TAP_FRAME_MAX &&
		       seen.r.len <= seen.r.wire_len); /* I1 */
		assert(n <= there / sizeof(seen.r));   /* I2 */
		const struct pcapng_frame f = { .interface = interface,
						.at_ns = seen.r.at_ns,
						.data = seen.data,
						.len = seen.r.len,
						.wire_len = seen.r.wire_len };
		pcapng_write(&out, &f);
	}
}

static void check_text(const char *text, size_t size)
{
	size_t n = strnlen(text, size);

	assert(n < size); /* I3 */
	for (size_t i = 0; i < n; i++)
		assert(isprint((unsigned char)text[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tap_reader r;

	if (!head)
		begin();
	script_begin(data, size);
	fresh_head();
	if (tap_reader_open(&r, dup(memory)))
		return 0;
	check_text(r.info.dev, sizeof(r.info.dev));
	check_text(r.info.program, sizeof(r.info.program));
	while (script.at < script.end) {
		if (next() & 1)
			move();
		else
			write_record();
		read_some(&r, 0);
	}
	tap_reader_close(&r);
	return 0;
}
