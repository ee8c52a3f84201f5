/* SPDX-License-Identifier: MIT */
/*
 * tests/xlio/test_ref_faults.c - sending by reference: peers that lie, stop or die,
 * memory that comes and goes, limits of the process
 */
#include "ref_pair.h"

#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "proto/shm/ring.h"
#include "proto/shm/segment.h"

/*
 * Registrations.
 */

static void files_are_let_go_with_their_registration(void)
{
	struct end *c, *s;
	int fd;

	world_open(0);
	ref_pair(&c, &s);
	struct ibv_pd *pd = xlio_socket_get_pd(c->sock);
	int before = n_fds();
	for (int i = 0; i < 1100; i++) {
		uint8_t *data = shared_mapping(PAGE, &fd);
		struct ibv_mr *one = ibv_reg_mr(pd, data, PAGE, 1);
		struct ibv_mr *two = ibv_reg_mr(pd, data, PAGE, 1);

		EXPECT(one && two);
		ibv_dereg_mr(i & 1 ? one : two);
		ibv_dereg_mr(i & 1 ? two : one);
		munmap(data, PAGE);
		close(fd);
	}
	EXPECT_EQ(n_fds(), before);
	/* However many there have been, and however often it is this one. */
	uint8_t *data = shared_mapping(4 * PAGE, &fd);
	for (int i = 0; i < 50; i++) {
		struct ibv_mr *mr = ibv_reg_mr(pd, data, 4 * PAGE, 1);
		uint64_t n = refs_of(c, s, data, 4 * PAGE, mr->lkey);

		EXPECT_EQ(n, i && is_shm() ? 4 * PAGE : 0);
		ibv_dereg_mr(mr);
	}
	/* Another file in its place is not taken for it. */
	for (int i = 0; i < 12; i++) {
		int other;
		uint8_t *more = shared_mapping(4 * PAGE, &other);

		memset(more, 1 + i, 4 * PAGE);
		stream_fill(more, 40 + (uint64_t)i, 0, 4 * PAGE);
		for (int k = 0; k < 3; k++) {
			struct ibv_mr *mr = ibv_reg_mr(pd, more, 4 * PAGE, 1);

			s->received = 0;
			s->key = 40 + (uint64_t)i;
			refs_of(c, s, more, 4 * PAGE, mr->lkey);
			ibv_dereg_mr(mr);
		}
		munmap(more, 4 * PAGE);
		close(other);
	}
	world_close();
}

static void a_child_may_deregister(void)
{
	struct end *c, *s;
	int fd, status;

	world_open(0);
	pair(&c, &s);
	uint8_t *data = shared_mapping(4 * PAGE, &fd);
	struct ibv_mr *mr =
	    ibv_reg_mr(xlio_socket_get_pd(c->sock), data, 4 * PAGE, 1);
	pid_t pid = fork();
	if (!pid) {
		EXPECT_EQ(ibv_dereg_mr(mr), 0);
		_exit(0);
	}
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(ibv_dereg_mr(mr), 0);
	world_close();
}

/* Somebody registers and sends, somebody else does the same with the same keys. */
static uint32_t churn_key;
static int churn_stop;

static void *churn(void *pd)
{
	int fd;
	uint8_t *data = shared_mapping(4 * PAGE, &fd);

	while (!__atomic_load_n(&churn_stop, __ATOMIC_RELAXED)) {
		struct ibv_mr *mr = ibv_reg_mr(pd, data, 4 * PAGE, 1);

		__atomic_store_n(&churn_key, mr->lkey, __ATOMIC_RELAXED);
		ibv_dereg_mr(mr);
	}
	return NULL;
}

static void stale_keys_are_harmless_while_others_register(void)
{
	struct end *c, *s;
	pthread_t t;
	uint8_t *data;
	int fd;

	world_open(0);
	ref_pair(&c, &s);
	data = shared_mapping(4 * PAGE, &fd);
	EXPECT_EQ(pthread_create(&t, NULL, churn, xlio_socket_get_pd(c->sock)),
		  0);
	for (int i = 0; i < 3000; i++) {
		uint32_t key = __atomic_load_n(&churn_key, __ATOMIC_RELAXED);

		EXPECT_EQ(refs_of(c, s, data, 4 * PAGE, key), 0);
	}
	__atomic_store_n(&churn_stop, 1, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	world_close();
}

/*
 * Completions, and what they wait for.
 */

static void a_peer_that_nobody_waits_for_is_dead(void)
{
	size_t n = 8 * BLOCK;
	volatile uint64_t *seen;
	pid_t pid = serve_apart(&seen, true);
	uint8_t *data = block(n, 77);
	struct end *c = held_apart(seen, data, n);

	kill(pid, SIGKILL);
	siginfo_t info;
	EXPECT_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	UNTIL(c->n_comps == c->n_ops);
	world_close();
}

static void sends_without_completions_need_no_memory(void)
{
	uint8_t *data = block(PAGE, 1);
	struct xlio_socket_send_attr attr = { .flags = FLUSH };
	struct end *c, *s;
	size_t n = 300000, sent = 0;

	world_open(0);
	ref_pair(&c, &s);
	struct mallinfo2 before = mallinfo2();
	while (sent < n) {
		for (int i = 0; i < 100; i++, sent++)
			EXPECT_EQ(xlio_socket_send(c->sock, data, PAGE, &attr),
				  0);
		UNTIL(s->received == sent * PAGE);
	}
	struct mallinfo2 after = mallinfo2();
	EXPECT(after.uordblks + after.hblkhd <
	       before.uordblks + before.hblkhd + (1 << 20));
	world_close();
}

static void after_an_error_everything_completes(void)
{
	static uint8_t data[1 << 20];
	struct linger reset = { .l_onoff = 1 };
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	EXPECT_EQ(xlio_socket_setsockopt(s->sock, SOL_SOCKET, SO_LINGER, &reset,
					 sizeof(reset)),
		  0);
	for (int i = 0; i < 64; i++)
		send_key(c, data, i & 1 ? 1000 : sizeof(data), 0);
	for (int i = 0; i < 1000; i++)
		xlio_poll_group_poll(w->client);
	end_destroy(s);
	UNTIL(s->is_gone && c->n_error);
	UNTIL(c->n_comps == c->n_ops);
	world_close();
}

static int sleeper_tid;

static void *sleeper(void *unused)
{
	(void)unused;
	__atomic_store_n(&sleeper_tid, gettid(), __ATOMIC_RELEASE);
	osf_group_wait(w->server, 2500);
	return NULL;
}

static void until_asleep(int tid)
{
	char path[64], line[256] = "";

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	for (double end = now() + 20; now() < end; sched_yield()) {
		FILE *f = fopen(path, "r");

		EXPECT(f && fgets(line, sizeof(line), f));
		fclose(f);
		if (strstr(line, ") S "))
			return;
	}
	EXPECT(!"asleep");
}

/* The receiver's thread sleeps; another one returns what it holds. */
static void returned_while_the_receiver_sleeps(void)
{
	uint8_t *data = block(BLOCK, 2);
	struct end *c, *s;
	pthread_t t;
	int tid;

	ref_pair_holding(&c, &s, data, BLOCK);
	poll_n(3000);
	EXPECT_EQ(pthread_create(&t, NULL, sleeper, NULL), 0);
	while (!(tid = __atomic_load_n(&sleeper_tid, __ATOMIC_ACQUIRE)))
		sched_yield();
	until_asleep(tid);
	double start = now();
	for (; n_kept; n_kept--)
		xlio_poll_group_buf_free(w->client, kept[n_kept - 1].buf);
	while (c->n_comps != c->n_ops && now() < start + 2)
		xlio_poll_group_poll(w->client);
	EXPECT_EQ(c->n_comps, c->n_ops);
	pthread_join(t, NULL);
	world_close();
}

/* Nobody can be left what the program shares with others: so the end waits. */
static void memory_of_the_programs_own_is_waited_for(void)
{
	struct end *c, *s;
	int fd;
	uint8_t *data = shared_mapping(4 * PAGE, &fd);

	world_open(0);
	ref_pair(&c, &s);
	struct ibv_mr *mr =
	    ibv_reg_mr(xlio_socket_get_pd(c->sock), data, 4 * PAGE, 1);
	refs_of(c, s, data, 4 * PAGE, mr->lkey);
	stream_fill(data, 5, 0, 4 * PAGE);
	send_key(c, data, 4 * PAGE, mr->lkey);
	end_destroy(c); /* before the receiver has seen any of it */
	for (double end = now() + 0.1; now() < end && !c->is_gone;)
		xlio_poll_group_poll(w->client);
	if (c->is_gone)
		memset(data, 0xdd, 4 * PAGE);
	s->received = 0;
	s->key = 5;
	UNTIL(s->received == 4 * PAGE);
	UNTIL(c->is_gone);
	ibv_dereg_mr(mr);
	world_close();
}

/* As with TCP: a close is no reset, however much has not been read. */
static void much_that_nobody_reads_is_no_error(void)
{
	size_t n = 64 << 20;
	uint8_t *data = block(n, 1);
	struct end *c, *s;

	if (!is_shm())
		return;
	world_open(0);
	ref_pair(&c, &s);
	send_key(c, data, n, 0);
	for (int i = 0; i < 100; i++)
		xlio_poll_group_poll(w->client);
	end_destroy(s);
	UNTIL(s->is_gone);
	UNTIL(c->n_closed && c->n_comps == c->n_ops);
	poll_n(1000);
	EXPECT_EQ(c->n_error, 0);
	osf_mem_free(data);
	world_close();
}

static struct {
	uint8_t *at;
	size_t len;
} told[64];
static int n_told;

static void on_memory(void *at, size_t len, size_t huge)
{
	EXPECT_EQ(huge, 0);
	EXPECT(n_told < 64);
	told[n_told].at = at;
	told[n_told++].len = len;
}

static bool was_told(struct end *e, void *data, size_t len,
		     struct xlio_buf *buf)
{
	(void)e;
	(void)buf;
	for (int i = 0; i < n_told; i++)
		if ((uint8_t *)data >= told[i].at &&
		    (uint8_t *)data + len <= told[i].at + told[i].len)
			return false;
	EXPECT(!"memory that the program knows of");
	return false;
}

static void the_program_knows_where_data_may_lie(void)
{
	struct xlio_init_attr init = { .memory_cb = on_memory };
	uint8_t *data = block(BLOCK, 5);
	struct end *c, *s;

	EXPECT_EQ(xlio_init_ex(&init), 0);
	world_open(0);
	ref_pair(&c, &s);
	w->on_rx = was_told;
	send_key(c, data, BLOCK, 0);
	UNTIL(s->received == BLOCK && c->n_comps == c->n_ops);
	world_close();
}

/*
 * A peer that writes what it likes into the segment.
 */

static struct seg *the_segment(uint32_t *ring_size)
{
	char line[512];
	void *from = NULL, *to;
	FILE *f = fopen("/proc/self/maps", "r");
	struct seg *seg = NULL;

	EXPECT(f != NULL);
	while (fgets(line, sizeof(line), f))
		if (strstr(line, "memfd:osf-segment") &&
		    sscanf(line, "%p-%p", &from, &to) == 2)
			seg = seg ? seg : from;
	fclose(f);
	EXPECT(seg != NULL);
	*ring_size = seg->ring_size;
	return seg;
}

/* Where the consumer of @side's ring is, once it has said so. */
static uint8_t *next_record(struct seg *seg, uint32_t size, int side)
{
	return seg_ring(seg, (unsigned)side, size) + seg->side[!side].tail;
}

static void put_record(uint8_t *at, enum ring_mark mark, uint32_t len,
		       const void *bytes, size_t n)
{
	memset(at + RING_ALIGN, 0, RING_HDR);
	memcpy(at + RING_HDR, bytes, n);
	__atomic_store_n((uint64_t *)(void *)at, ring_hdr(mark, len),
			 __ATOMIC_RELEASE);
}

static int n_maps(const char *of)
{
	char line[512];
	int n = 0;
	FILE *f = fopen("/proc/self/maps", "r");

	EXPECT(f != NULL);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, of) != NULL;
	fclose(f);
	return n;
}

/* Which side has accepted is 0: the client is 1. */
#define CLIENT 1

static void maps_without_end_are_a_lie(void)
{
	struct ring_map map = { .region = 99 };
	struct end *c, *s;
	uint32_t size;

	if (!is_shm())
		return;
	world_open(0);
	pair(&c, &s);
	poll_n(3000);
	struct seg *seg = the_segment(&size);
	uint8_t *ring = seg_ring(seg, CLIENT, size);
	put_record(ring + size - RING_ALIGN * 2, RING_WRAP, 0, &map, 0);
	for (uint32_t at = size - RING_ALIGN * 3; at; at -= RING_ALIGN) {
		memcpy(ring + at + RING_HDR, &map, sizeof(map));
		__atomic_store_n((uint64_t *)(void *)(ring + at),
				 ring_hdr(RING_MAP, 0), __ATOMIC_RELEASE);
	}
	memcpy(ring + RING_HDR, &map, sizeof(map));
	__atomic_store_n((uint64_t *)(void *)ring, ring_hdr(RING_MAP, 0),
			 __ATOMIC_RELEASE);
	alarm(10);
	UNTIL(s->n_error);
	world_close();
}

static struct ring_map map_of(int fd, uint32_t region)
{
	struct stat st;

	EXPECT_EQ(fstat(fd, &st), 0);
	return (struct ring_map){ .region = region,
				  .pid = (uint32_t)getpid(),
				  .fd = fd,
				  .dev = st.st_dev,
				  .ino = st.st_ino,
				  .size = (uint64_t)st.st_size };
}

/* Opening a file that has a lease waits for its holder, up to 45 s. */
static void opening_a_peers_file_does_not_wait(void)
{
	struct end *c, *s;
	uint32_t size;
	int fd;

	if (!is_shm())
		return;
	fd = memfd_create("leased", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	EXPECT_EQ(ftruncate(fd, PAGE), 0);
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int again = open(path, O_RDONLY | O_CLOEXEC);
	close(fd);
	fd = again;
	world_open(0);
	pair(&c, &s);
	poll_n(3000);
	struct seg *seg = the_segment(&size);
	struct ring_map map = map_of(fd, 0);
	signal(SIGIO, SIG_IGN);
	if (fcntl(fd, F_SETLEASE, F_WRLCK)) {
		printf("no lease: %m\n");
		return;
	}
	double start = now();
	put_record(next_record(seg, size, CLIENT), RING_MAP, 0, &map,
		   sizeof(map));
	while (now() < start + 2)
		poll_both();
	EXPECT(now() - start < 20);
	EXPECT_EQ(seg->side[!CLIENT].maps, 0);
	world_close();
}

/* What one peer has shown is not another's to refer to. */
static void memory_of_another_peer_stays_out_of_reach(void)
{
	uint8_t *secret = block(PAGE, 9);
	struct end *c, *s, *c2, *s2;
	uint32_t size;
	struct stat st = { 0 };

	if (!is_shm())
		return;
	world_open(0);
	ref_pair(&c, &s);
	pair(&c2, &s2);
	poll_n(3000);
	DIR *d = opendir("/proc/self/fd");
	EXPECT(d != NULL);
	for (struct dirent *e; (e = readdir(d));) {
		char name[64] = "";
		if (readlinkat(dirfd(d), e->d_name, name, sizeof(name) - 1) >
			0 &&
		    strstr(name, "osf-memory"))
			EXPECT_EQ(fstatat(dirfd(d), e->d_name, &st, 0), 0);
	}
	closedir(d);
	EXPECT(st.st_ino != 0);
	/* The second mapping of the later pair has the higher address or not: either
	 * end may be lied to. */
	struct ring_map map = { .pid = (uint32_t)getpid(),
				.fd = 1 << 20, /* there is none */
				.dev = st.st_dev,
				.ino = st.st_ino,
				.size = (uint64_t)st.st_size };
	struct ring_ref ref = { .region = 0 };
	size_t had = s2->received;
	struct seg *seg = the_segment(&size);
	int side = CLIENT;
	uint8_t *at = next_record(seg, size, side);
	put_record(at + RING_ALIGN, RING_REF, PAGE, &ref, sizeof(ref));
	memset(at + 2 * RING_ALIGN, 0, RING_HDR);
	memcpy(at + RING_HDR, &map, sizeof(map));
	__atomic_store_n((uint64_t *)(void *)at, ring_hdr(RING_MAP, 0),
			 __ATOMIC_RELEASE);
	size_t had1 = s->received;
	UNTIL(s2->n_error || s->n_error || s2->received > had ||
	      s->received > had1);
	EXPECT_EQ(s2->received, had);
	EXPECT_EQ(s->received, had1);
	osf_mem_free(secret);
	world_close();
}

/* They have taken most addresses themselves. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER true
#else
#define HAS_SANITIZER false
#endif

static void peers_do_not_take_all_addresses(void)
{
	struct end *c, *s;
	uint32_t size;

	if (!is_shm() || HAS_SANITIZER)
		return;
	world_open(0);
	for (int i = 0; i < 3; i++) {
		pair(&c, &s);
		poll_n(3000);
		/* Any pair will do. */
		struct seg *seg = the_segment(&size);
		for (uint32_t k = 0; k < RING_REGIONS; k++) {
			int fd = memfd_create("huge",
					      MFD_CLOEXEC | MFD_ALLOW_SEALING);

			EXPECT_EQ(ftruncate(fd, 1l << 42), 0);
			fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
			struct ring_map map = map_of(fd, k);
			put_record(next_record(seg, size, CLIENT), RING_MAP, 0,
				   &map, sizeof(map));
			poll_n(3000);
		}
	}
	EXPECT(n_maps("memfd:huge") > 10 && n_maps("memfd:huge") <= 16);
	void *mine = mmap(NULL, 1ul << 42, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	EXPECT(mine != MAP_FAILED);
	_exit(0);
}

/* A process has 65,530 mappings. */
static void few_mappings_are_left_to_peers(void)
{
	enum { PER = 8000, PAIRS = 3 };
	uint8_t *data = block((size_t)2 * PER * PAIRS * PAGE, 3);
	struct xlio_socket_send_attr attr = { .flags = FLUSH };
	struct end *c[PAIRS], *s;

	if (!is_shm())
		return;
	world_open(0);
	uint64_t before = ref_bytes();
	for (size_t i = 0; i < PAIRS; i++)
		ref_pair(&c[i], &s);
	for (size_t i = 0; i < PAIRS; i++) {
		for (size_t k = 0; k < PER; k++)
			EXPECT_EQ(
			    xlio_socket_send(c[i]->sock,
					     data + 2 * (i * PER + k) * PAGE,
					     PAGE, &attr),
			    0);
		c[i]->is_destroyed = true;
	}
	EXPECT(ref_bytes() - before > 2 * PER * PAGE);
	EXPECT_EQ(xlio_poll_group_destroy(w->client), 0);
	EXPECT(n_maps("") < 20000);
	EXPECT(stream_is(data, 3, 0, (size_t)2 * PER * PAIRS * PAGE));
	_exit(0);
}

#define T(name)                                                                \
	{                                                                      \
#name, name                                                    \
	}
const struct test tests_ref_faults[] = {
	T(files_are_let_go_with_their_registration),
	T(a_child_may_deregister),
	T(stale_keys_are_harmless_while_others_register),
	T(a_peer_that_nobody_waits_for_is_dead),
	T(sends_without_completions_need_no_memory),
	T(after_an_error_everything_completes),
	T(returned_while_the_receiver_sleeps),
	T(memory_of_the_programs_own_is_waited_for),
	T(much_that_nobody_reads_is_no_error),
	T(the_program_knows_where_data_may_lie),
	T(maps_without_end_are_a_lie),
	T(opening_a_peers_file_does_not_wait),
	T(memory_of_another_peer_stays_out_of_reach),
	T(peers_do_not_take_all_addresses),
	T(few_mappings_are_left_to_peers),
	{ 0 },
};
