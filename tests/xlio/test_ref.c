/* SPDX-License-Identifier: MIT */
/*
 * tests/xlio/test_ref.c - sending by reference, and the allocator for it
 *
 * Over shared memory whole pages are to be read where they lie, and the statistics say
 * how many; over the kernel the same tests see copies.
 */
#include "ref_pair.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static void pages_are_read_where_they_lie(void)
{
	uint8_t *data = block(BLOCK, 7);
	struct end *c, *s;

	world_open(0);
	ref_pair(&c, &s);
	uint64_t before = ref_bytes();
	w->on_rx = keep;
	send_key(c, data, BLOCK, 0);
	UNTIL(s->received == BLOCK);
	EXPECT(kept_are(7));
	EXPECT_EQ(ref_bytes() - before, is_shm() ? BLOCK : 0);
	poll_n(3000);
	if (is_shm()) {
		/* It is our memory that the receiver sees, until it gives it back. */
		EXPECT_EQ(n_kept, 1);
		EXPECT_EQ(c->n_comps, c->n_ops - 1);
		data[5000] ^= 1;
		EXPECT(!kept_are(7));
	}
	while (n_kept)
		give_back(0);
	UNTIL(c->n_comps == c->n_ops);
	osf_mem_free(data);
	world_close();
}

/* Any piece of anything: the stream is right, and what covers pages is not copied. */
static void any_part_of_any_memory_arrives(void)
{
	size_t n = 1 << 20, off = 0;
	uint8_t *data = block(n, 3);
	struct end *c, *s;
	unsigned seed = 5;

	world_open(0);
	ref_pair(&c, &s);
	uint64_t before = ref_bytes();
	s->key = 3;
	while (off < n) {
		struct iovec iov[3];
		struct xlio_socket_send_attr attr = {
			.flags = seed & 1 << 9 ? FLUSH : 0,
			.userdata_op = (uintptr_t)data
		};
		int k = 0;

		for (; k < 3 && off < n; k++) {
			seed = seed * 1103515245 + 12345;
			size_t len =
			    (seed >> 8) % (seed & 1 << 30 ? 50000 : 500);

			len = len < n - off ? len : n - off;
			iov[k] = (struct iovec){ data + off, len };
			off += len;
		}
		c->n_ops++;
		EXPECT_EQ(xlio_socket_sendv(c->sock, iov, (unsigned)k, &attr),
			  0);
		poll_n(seed >> 28);
	}
	xlio_socket_flush(c->sock);
	UNTIL(s->received == n && c->n_comps == c->n_ops);
	uint64_t refs = ref_bytes() - before;
	EXPECT_EQ(refs > n / 2 && refs < n, is_shm());
	EXPECT_EQ(refs % PAGE, 0);
	osf_mem_free(data);
	world_close();
}

/* The sender's memory is not its own before the receiver has given it back. */
static void completions_wait_for_buffers_in_any_order(void)
{
	uint8_t *data[40];
	struct end *c, *s;
	unsigned seed = 9;

	world_open(0);
	ref_pair(&c, &s);
	w->on_rx = keep;
	for (int i = 0; i < 40; i++) {
		data[i] = block(2 * PAGE, (uint64_t)i);
		send_key(c, data[i], 2 * PAGE, 0);
	}
	unsigned had = c->n_ops - 40;
	UNTIL(s->received == 40 * 2 * PAGE);
	while (n_kept) {
		seed = seed * 1103515245 + 12345;
		give_back((int)(seed >> 8) % n_kept);
		poll_n(200);
		/* Those that are complete are no longer looked at. */
		for (unsigned i = 0; i < c->n_comps - had; i++)
			memset(data[i], 0xdd, 2 * PAGE);
		for (int i = 0; is_shm() && i < n_kept; i++)
			EXPECT(kept[i].data[0] != 0xdd ||
			       kept[i].data[1] != 0xdd);
	}
	UNTIL(c->n_comps == c->n_ops);
	for (int i = 0; i < 40; i++)
		osf_mem_free(data[i]);
	world_close();
}

static void registered_shared_mappings_go_by_reference(void)
{
	size_t n = 16 * PAGE;
	int fd, other;
	uint8_t *data = shared_mapping(n, &fd);
	uint8_t *cannot = shared_mapping(n, &other);
	uint8_t *private = malloc(n);
	struct end *c, *s;

	EXPECT(private != NULL);
	fcntl(other, F_ADD_SEALS, F_SEAL_SEAL); /* it might shrink for ever */
	world_open(0);
	ref_pair(&c, &s);
	struct ibv_pd *pd = xlio_socket_get_pd(c->sock);
	struct ibv_mr *mr = ibv_reg_mr(pd, data + PAGE, n - PAGE, 1);
	struct ibv_mr *mr_private = ibv_reg_mr(pd, private, n, 1);
	struct ibv_mr *mr_cannot = ibv_reg_mr(pd, cannot, n, 1);
	EXPECT(mr && mr_private && mr_cannot && mr->lkey != mr_private->lkey);
	EXPECT(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK);
	stream_fill(data, 11, 0, n);
	stream_fill(private, 11, 0, n);
	stream_fill(cannot, 11, 0, n);
	s->key = 11;
#define SENT(mem, at, len, k)                                                  \
	(s->received = (at), refs_of(c, s, (mem) + (at), (len), (k)))
	/* The first use tells the peer where it is. */
	EXPECT_EQ(SENT(data, PAGE, 4 * PAGE, mr->lkey), 0);
	EXPECT_EQ(SENT(data, PAGE, 4 * PAGE, mr->lkey),
		  is_shm() ? 4 * PAGE : 0);
	EXPECT_EQ(SENT(data, 5 * PAGE, n - 5 * PAGE, mr->lkey),
		  is_shm() ? n - 5 * PAGE : 0);
	/* In front of what is registered, and without its key. */
	EXPECT_EQ(SENT(data, 0, 4 * PAGE, mr->lkey), 0);
	EXPECT_EQ(SENT(data, PAGE, 4 * PAGE, 0), 0);
	EXPECT_EQ(SENT(data, PAGE, 4 * PAGE, mr->lkey + 1000), 0);
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(SENT(private, 0, n, mr_private->lkey), 0);
		EXPECT_EQ(SENT(cannot, 0, n, mr_cannot->lkey), 0);
	}
	uint32_t stale = mr->lkey;
	EXPECT_EQ(ibv_dereg_mr(mr), 0);
	EXPECT_EQ(SENT(data, PAGE, 4 * PAGE, stale), 0);
	mr = ibv_reg_mr(pd, data, n, 1);
	EXPECT(mr->lkey != stale);
	EXPECT_EQ(SENT(data, 0, n, mr->lkey), is_shm() ? n : 0);
	EXPECT_EQ(SENT(data, 0, n, stale), 0);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(mr_private);
	ibv_dereg_mr(mr_cannot);
	free(private);
	world_close();
}

/* Whoever keeps received data keeps it as it was, whatever becomes of the sender. */
static void kept_data_stays_when(bool receiver_ends, bool by_group)
{
	size_t n = 8 * BLOCK;
	uint8_t *data = block(n, 21);
	struct end *c, *s;

	ref_pair_holding(&c, &s, data, n);
	if (receiver_ends) {
		end_destroy(s);
		UNTIL(s->is_gone);
		poll_n(1000);
		if (is_shm())
			EXPECT_EQ(c->n_comps, c->n_ops - 1);
	}
	if (by_group) {
		c->is_destroyed = true;
		EXPECT_EQ(xlio_poll_group_destroy(w->client), 0);
		struct xlio_poll_group_attr attr = world_attr(0);
		EXPECT_EQ(xlio_poll_group_create(&attr, &w->client), 0);
	} else {
		end_destroy(c);
	}
	UNTIL(c->is_gone);
	EXPECT_EQ(c->n_comps, c->n_ops);
	EXPECT(stream_is(data, 21, 0, n)); /* for us, too */
	memset(data, 0xdd, n);
	EXPECT(kept_are(21));
	while (n_kept)
		give_back(n_kept - 1);
	EXPECT_EQ(data[n - 1], 0xdd);
	osf_mem_free(data);
	world_close();
}

static void kept_data_stays_when_the_sender_ends(void)
{
	kept_data_stays_when(false, false);
}

static void kept_data_stays_when_the_senders_group_ends(void)
{
	kept_data_stays_when(false, true);
}

static void kept_data_stays_when_both_end(void)
{
	kept_data_stays_when(true, false);
}

/* A receiver that has gone and gives back later: the sender learns of it. */
static void a_late_return_completes(void)
{
	uint8_t *data = block(BLOCK, 2);
	struct end *c, *s;

	ref_pair_holding(&c, &s, data, BLOCK);
	end_destroy(s);
	UNTIL(s->is_gone);
	poll_n(1000);
	while (n_kept)
		give_back(0);
	UNTIL(c->n_comps == c->n_ops);
	osf_mem_free(data);
	world_close();
}

static uint8_t given[16 << 20];
static size_t n_given;

static void *given_alloc(size_t n)
{
	n_given = (n_given + 63) & ~(size_t)63;
	void *p = n <= sizeof(given) - n_given ? given + n_given : NULL;

	n_given += n;
	return p;
}

static void given_free(void *p) { (void)p; }

/* A receiver with memory of its own gets one copy, into it. */
static void receivers_with_an_allocator_get_a_copy(void)
{
	struct xlio_init_attr init = { .memory_alloc = given_alloc,
				       .memory_free = given_free };
	uint8_t *data = block(BLOCK, 5);
	struct end *c, *s;

	EXPECT_EQ(xlio_init_ex(&init), 0);
	world_open(0);
	ref_pair(&c, &s);
	uint64_t before = ref_bytes();
	w->on_rx = keep;
	send_key(c, data, BLOCK, 0);
	UNTIL(s->received == BLOCK && c->n_comps == c->n_ops);
	EXPECT_EQ(ref_bytes() - before, is_shm() ? BLOCK : 0);
	for (int i = 0; i < n_kept; i++)
		EXPECT(kept[i].data >= given &&
		       kept[i].data < given + sizeof(given));
	memset(data, 0xdd, BLOCK);
	EXPECT(kept_are(5));
	while (n_kept)
		give_back(0);
	world_close();
}

/* More than a ring's worth of references, to a receiver that gives back slowly. */
static void many_references_under_way(void)
{
	size_t n = 4096;
	uint8_t *data = block(16 * PAGE, 0);
	struct end *c, *s;

	world_open(0);
	ref_pair(&c, &s);
	for (size_t i = 0; i < n; i++)
		send_key(c, data, 16 * PAGE, 0);
	UNTIL(c->n_comps == c->n_ops && s->received == n * 16 * PAGE);
	osf_mem_free(data);
	world_close();
}

/* By way of a group that does not serve the socket. */
static void returned_to_another_group(void)
{
	uint8_t *data = block(BLOCK, 2);
	struct end *c, *s;

	ref_pair_holding(&c, &s, data, BLOCK);
	poll_n(1000);
	for (; n_kept; n_kept--)
		xlio_poll_group_buf_free(w->client, kept[n_kept - 1].buf);
	UNTIL(c->n_comps == c->n_ops);
	osf_mem_free(data);
	world_close();
}

/*
 * Another process.
 */

static void other_processes_read_it_too(void)
{
	size_t n = 64 * BLOCK, sent = 0;
	volatile uint64_t *seen;
	pid_t pid = serve_apart(&seen, false);
	uint8_t *data = block(n, 77);
	struct end *c = connect_apart(seen, data, n);
	uint64_t before = ref_bytes(), had = seen[0];

	for (; sent < n; sent += BLOCK) {
		send_key(c, data + sent, BLOCK, 0);
		UNTIL(seen[0] == had + sent + BLOCK && c->n_comps == c->n_ops);
	}
	EXPECT_EQ(ref_bytes() - before > n / 2, is_shm());
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	world_close();
}

static void a_peer_killed_with_references_gives_them_back(void)
{
	size_t n = 8 * BLOCK;
	volatile uint64_t *seen;
	pid_t pid = serve_apart(&seen, true);
	uint8_t *data = block(n, 77);
	double start = now();
	struct end *c = held_apart(seen, data, n);

	poll_n(100);
	bool is_held = c->n_comps < c->n_ops;
	/* After STILL_NS (group/ref.c) the sender leaves the pages to the receiver. */
	EXPECT(is_held == is_shm() || now() - start > 0.1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	UNTIL(c->n_comps == c->n_ops);
	if (is_held != is_shm()) {
		world_close();
		return;
	}
	/* The memory was not given up for it. */
	uint64_t before = ref_bytes();
	struct end *s;
	world_listen();
	ref_pair(&c, &s);
	send_key(c, data, n, 0);
	UNTIL(c->n_comps == c->n_ops);
	EXPECT_EQ(ref_bytes() - before >= n, is_shm());
	world_close();
}

/*
 * The allocator.
 */

static bool is_filled(const uint8_t *p, int value, size_t n)
{
	return !n || (p[0] == value && !memcmp(p, p + 1, n - 1));
}

static void memory_comes_and_goes(void)
{
	enum { N = 400 };
	static struct {
		uint8_t *p;
		size_t n;
	} have[N];
	unsigned seed = 3;

	for (int i = 0; i < 60000; i++) {
		seed = seed * 1103515245 + 12345;
		unsigned k = (seed >> 8) % N;

		if (have[k].p) {
			EXPECT(
			    is_filled(have[k].p, (int)(k & 0xff), have[k].n));
			osf_mem_free(have[k].p);
			have[k].p = NULL;
			continue;
		}
		seed = seed * 1103515245 + 12345;
		size_t top = seed & 1 << 28   ? 100
			     : seed & 1 << 27 ? 5000
					      : 70000;
		have[k].n = (seed >> 8) % top;
		have[k].p = osf_mem_alloc(have[k].n);
		EXPECT(have[k].p != NULL);
		EXPECT_EQ((uintptr_t)have[k].p % (have[k].n > 2048 ? PAGE : 64),
			  0);
		memset(have[k].p, (int)(k & 0xff), have[k].n);
	}
	for (int k = 0; k < N; k++) {
		if (have[k].p)
			EXPECT(is_filled(have[k].p, k & 0xff, have[k].n));
		osf_mem_free(have[k].p);
	}
	/* All of it is one piece again, and what is large is given back. */
	uint8_t *all = osf_mem_alloc(8 << 20);
	EXPECT(all != NULL);
	memset(all, 1, 8 << 20);
	osf_mem_free(all);
	all = osf_mem_alloc(8 << 20);
	EXPECT(all != NULL);
	EXPECT(is_filled(all, 0, 8 << 20));
	EXPECT(osf_mem_alloc(SIZE_MAX) == NULL);
	EXPECT(osf_mem_alloc((size_t)1 << 36) == NULL);
	osf_mem_free(NULL);
}

static void a_child_allocates_apart(void)
{
	uint8_t *ours = block(PAGE, 1), *more;
	int status;

	pid_t pid = fork();
	if (!pid) {
		EXPECT(stream_is(ours, 1, 0, PAGE));
		osf_mem_free(ours); /* the parent's: nothing comes of it */
		for (int i = 0; i < 100; i++) {
			uint8_t *mine = osf_mem_alloc(PAGE);

			EXPECT(mine != NULL && mine != ours);
			memset(mine, 0xcc, PAGE);
		}
		_exit(0);
	}
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
	more = osf_mem_alloc(PAGE);
	EXPECT(more != NULL && more != ours);
	EXPECT(stream_is(ours, 1, 0, PAGE));
}

#define T(name)                                                                \
	{                                                                      \
#name, name                                                    \
	}
const struct test tests_ref[] = {
	T(pages_are_read_where_they_lie),
	T(any_part_of_any_memory_arrives),
	T(completions_wait_for_buffers_in_any_order),
	T(registered_shared_mappings_go_by_reference),
	T(kept_data_stays_when_the_sender_ends),
	T(kept_data_stays_when_the_senders_group_ends),
	T(kept_data_stays_when_both_end),
	T(a_late_return_completes),
	T(receivers_with_an_allocator_get_a_copy),
	T(many_references_under_way),
	T(returned_to_another_group),
	T(other_processes_read_it_too),
	T(a_peer_killed_with_references_gives_them_back),
	T(memory_comes_and_goes),
	T(a_child_allocates_apart),
	{ 0 },
};
