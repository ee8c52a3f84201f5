/* SPDX-License-Identifier: MIT */
/*
 * tests/verbs/test_order.c - who waits for the last byte of an RDMA write finds the others
 *
 * A thread looks at memory, as the ping-pongs of DAPL and MPI do, and another one writes it through a
 * queue pair. InfiniBand promises this order to nobody, but adapters keep it, and programs rely on it.
 */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "ends.h"

#define ROUNDS 3000
#define SIZE_NS 1000000000 /* for a size, at most */

static struct end a, b;
static uint32_t length, offset;
/* Under no lock: each has one writer. */
static _Atomic uint32_t seen, over;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint8_t byte_of(uint32_t round) { return (uint8_t)(round % 251 + 1); }

static void *look(void *unused)
{
	const volatile uint8_t *at = b.buf + offset;

	for (uint32_t round = 1; round <= ROUNDS; round++) {
		while (at[length - 1] != byte_of(round)) {
			if (over)
				return NULL;
			sched_yield();
		}
		for (uint32_t i = 0; i < length; i++)
			if (at[i] != byte_of(round)) {
				printf("%u bytes at %u, round %u: byte %u "
				       "came after the last one\n",
				       length, offset, round, i);
				exit(1);
			}
		seen = round;
	}
	return NULL;
}

static void write_all(const struct address *to)
{
	uint64_t until = now_ns() + SIZE_NS;

	for (uint32_t round = 1; round <= ROUNDS && now_ns() < until; round++) {
		memset(a.buf, byte_of(round), length);
		CHECK(!post(&a, IBV_WR_RDMA_WRITE, length, a.mr->lkey, to));
		CHECK(next(&a).status == IBV_WC_SUCCESS);
		while (seen != round)
			sched_yield();
	}
	over = 1;
}

int main(void)
{
	static const uint32_t lengths[] = { 8, 64, 200, 2048, 5000, BUF / 2 };

	setvbuf(stdout, NULL, _IONBF, 0);
	alarm(100);
	pair(&a, &b, IBV_QPT_RC);
	for (unsigned i = 0; i < 2 * sizeof(lengths) / sizeof(*lengths); i++) {
		pthread_t looker;
		struct address to = address_of(&b);

		length = lengths[i / 2];
		offset = i % 2 ? 61 : 0; /* it ends elsewhere in a line */
		to.addr += offset;
		seen = over = 0;
		memset(b.buf, 0, BUF);
		CHECK(!pthread_create(&looker, NULL, look, NULL));
		write_all(&to);
		CHECK(!pthread_join(looker, NULL));
		printf("%u bytes at %u: %u rounds\n", length, offset, seen);
	}
	return 0;
}
