/* SPDX-License-Identifier: MIT */
/*
 * tests/xlio/test_memory.c - the allocator of memory that may be sent by reference
 *
 * osf_mem_alloc() with wrong pointers, threads, holes, and the limits of the process.
 */
#include "ref_pair.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>

static void what_is_no_block_cannot_be_freed(void)
{
	uint8_t *p[8], *q[64];
	static const size_t sizes[] = { 2,    100,   2048,    4096,
					8192, 65536, 1 << 20, 8 << 20 };

	for (int i = 0; i < 8; i++) {
		p[i] = osf_mem_alloc(sizes[i]);
		memset(p[i], i + 1, sizes[i]);
	}
	for (int i = 0; i < 8; i++) { /* inside */
		osf_mem_free(p[i] + 1);
		osf_mem_free(p[i] + 64);
		osf_mem_free(p[i] + sizes[i] - 1);
		for (size_t at = PAGE; at < sizes[i]; at += PAGE)
			osf_mem_free(p[i] + at);
	}
	for (int i = 0; i < 64; i++) {
		q[i] = osf_mem_alloc(sizes[i & 7]);
		memset(q[i], 0xee, sizes[i & 7]);
	}
	for (int i = 0; i < 8; i++)
		for (size_t k = 0; k < sizes[i]; k += 64)
			EXPECT_EQ(p[i][k], i + 1);
	for (int i = 0; i < 64; i++)
		osf_mem_free(q[i]);
	for (int k = 0; k < 3; k++) /* twice, and more */
		for (int i = 0; i < 8; i++)
			osf_mem_free(p[i]);
	for (int i = 0; i < 64; i++) {
		q[i] = osf_mem_alloc(sizes[i & 7]);
		memset(q[i], i, sizes[i & 7]);
	}
	for (int i = 0; i < 64; i++)
		for (size_t k = 0; k < sizes[i & 7]; k += 64)
			EXPECT_EQ(q[i][k], i);
}

/* Each block is one thread's, whoever frees it. */
static void *handed[64];

static void *allocating(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;

	for (int i = 0; i < 20000; i++) {
		seed = seed * 1103515245 + 12345;
		size_t n = 64 + (seed >> 8) % (seed & 1 << 30 ? 200 : 20000);
		uint8_t *p = osf_mem_alloc(n);

		EXPECT(p != NULL);
		memset(p, (int)seed, n);
		memcpy(p, &n, sizeof(n));
		p[n - 1] = p[sizeof(n)] = (uint8_t)n;
		p = __atomic_exchange_n(&handed[(seed >> 16) % 64], p,
					__ATOMIC_ACQ_REL);
		if (!p)
			continue;
		memcpy(&n, p, sizeof(n));
		EXPECT(p[n - 1] == (uint8_t)n && p[sizeof(n)] == (uint8_t)n);
		osf_mem_free(p);
	}
	return NULL;
}

static void threads_allocate_at_once(void)
{
	pthread_t t[4];

	for (uintptr_t i = 0; i < 4; i++)
		EXPECT_EQ(
		    pthread_create(&t[i], NULL, allocating, (void *)(i + 1)),
		    0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

static void holes_that_are_too_small_cost_nothing(void)
{
	enum { N = 40000 };
	static void *p[N], *q[N];

	for (int i = 0; i < N; i++)
		p[i] = osf_mem_alloc(2 * PAGE);
	for (int i = 0; i < N; i += 2)
		osf_mem_free(p[i]);
	double cpu = cpu_s();
	for (int i = 0; i < N; i++)
		q[i] = osf_mem_alloc(3 * PAGE);
	EXPECT(cpu_s() - cpu < 0.5);
	for (int i = 0; i < N; i++)
		osf_mem_free(q[i]);
}

static size_t status_kb(const char *what)
{
	char line[256];
	size_t kb = 0;
	FILE *f = fopen("/proc/self/status", "r");

	EXPECT(f != NULL);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, what, strlen(what)))
			kb = strtoul(line + strlen(what) + 1, NULL, 10);
	fclose(f);
	return kb;
}

static void few_addresses_are_enough(void)
{
	/* The memory fits, what is noted of its pages does not. */
	struct rlimit rl = { (status_kb("VmSize:") << 10) + (64ul << 30) +
				 (64 << 20),
			     RLIM_INFINITY };
	int fds = n_fds();

	EXPECT_EQ(setrlimit(RLIMIT_AS, &rl), 0);
	uint8_t *p = osf_mem_alloc(PAGE);
	EXPECT(p != NULL);
	EXPECT(n_fds() <= fds + 1);
}

/* Of the allocator's memory, where it is mapped here: resident, or dumped with a core. */
static void memory_kb(size_t *resident, size_t *dumped)
{
	char line[512];
	size_t kb = 0, n;
	bool ours = false;
	void *from, *to;
	FILE *f = fopen("/proc/self/smaps", "r");

	EXPECT(f != NULL);
	*resident = *dumped = 0;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%p-%p", &from, &to) == 2 &&
		    strstr(line, " 00:"))
			ours = strstr(line, "osf-memory");
		sscanf(line, "Size: %zu", &kb);
		if (ours && sscanf(line, "Rss: %zu", &n) == 1)
			*resident += n;
		if (ours && !strncmp(line, "VmFlags:", 8) &&
		    !strstr(line, " dd"))
			*dumped += kb;
	}
	fclose(f);
}

static void no_more_is_locked_or_dumped_than_is_used(void)
{
	struct rlimit rl = { 256 << 20, RLIM_INFINITY };
	size_t resident, dumped;
	struct end *c, *s;

	/* The allocator takes what a file may have. */
	EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &rl), 0);
	bool locks = !mlockall(MCL_FUTURE);
	uint8_t *data = block(BLOCK, 5);
	EXPECT_EQ(munlockall(), 0);
	memory_kb(&resident, &dumped);
	EXPECT(resident < 1 << 10);
	EXPECT(dumped > 0 && dumped < 64 << 10);
	if (locks)
		EXPECT_EQ(mlockall(MCL_CURRENT), 0);
	memory_kb(&resident, &dumped);
	EXPECT(resident < 64 << 10);
	EXPECT_EQ(munlockall(), 0);
	world_open(0);
	mlockall(MCL_FUTURE);
	ref_pair(&c, &s);
	uint64_t before = ref_bytes();
	send_key(c, data, BLOCK, 0);
	UNTIL(s->received == BLOCK && c->n_comps == c->n_ops);
	EXPECT_EQ(ref_bytes() - before, is_shm() ? BLOCK : 0);
	memory_kb(&resident, &dumped);
	EXPECT(resident < 100 << 10);
	EXPECT(dumped < 64 << 10);
	world_close();
}

#define T(name)                                                                \
	{                                                                      \
#name, name                                                    \
	}
const struct test tests_memory[] = {
	T(what_is_no_block_cannot_be_freed),
	T(threads_allocate_at_once),
	T(holes_that_are_too_small_cost_nothing),
	T(few_addresses_are_enough),
	T(no_more_is_locked_or_dumped_than_is_used),
	{ 0 },
};
