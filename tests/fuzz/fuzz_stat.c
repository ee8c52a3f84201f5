/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_stat.c - any bytes as the statistics file of a process
 *
 *     bytes -> a memfd -> seg_read(), as "osf stat" reads it -> its texts and sums
 *
 * Besides not crashing, this holds:
 *   I1  a file that is taken has as many sockets as its header says, at most
 *   I2  the name of its program ends, and is printable
 *   I3  a file that is refused says why
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../tools/osf/osf.h"
#include "../../tools/osf/seg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct seg *seg)
{
	struct seg_sums sums = { 0 };
	char text[SEG_ADDR_MAX];

	assert(seg->n_socks <= seg->head.n_socks);
	assert(memchr(seg->head.program, 0, sizeof(seg->head.program)));
	for (const char *c = seg->head.program; *c; c++)
		assert(*c >= ' ' && *c <= '~');
	seg_sums_add(&sums, seg);
	for (size_t i = 0; i < seg->n_socks; i++) {
		const struct seg_sock *s = &seg->socks[i];

		assert(s->idx < seg->head.n_socks && s->s.in_use);
		assert(seg_proto_name(&s->s) && seg_reason_name(s->reason) &&
		       seg_reason_text(s->reason));
		seg_reason_advice(s->reason);
		seg_addr_text(&s->s, true, text);
		seg_addr_text(&s->s, false, text);
		assert(memchr(text, 0, sizeof(text)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static int fd = -1;
	struct seg_list list = { 0 };
	char why[SEG_WHY_MAX] = "";
	struct seg seg;
	uint64_t magic = OSF_STATS_MAGIC;
	uint32_t version = OSF_STATS_VERSION;

	if (fd < 0)
		fd = memfd_create("stat", MFD_CLOEXEC);
	if (n < 2 || ftruncate(fd, 0) || ftruncate(fd, (off_t)n * 8))
		return 0;
	/* The first byte: does it begin as it should?  Holes follow. */
	assert(pwrite(fd, data + 1, n - 1, 0) == (ssize_t)n - 1);
	if (data[0] & 1)
		assert(pwrite(fd, &magic, sizeof(magic), 0) == 8 &&
		       pwrite(fd, &version, sizeof(version), 8) == 4);
	int err = seg_read(&seg, fd, &list, why);
	assert(!err == !*why);
	if (!err) {
		use(&seg);
		seg_free(&seg);
	}
	free(list.costs);
	return 0;
}
