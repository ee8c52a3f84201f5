/* SPDX-License-Identifier: MIT */
/*
 * tests/xlio/test_keep.c - receivers that keep what they have got
 *
 * A storage protocol keeps the buffers of a message until it is complete, however
 * large it is.  What is kept must not stop the stream, must stay as it was received,
 * and comes back in any order; only past a limit is there an error.
 */
#include "xlio_test.h"

#include <pthread.h>

#define FLUSH XLIO_SOCKET_SEND_FLAG_FLUSH
#define INLINE XLIO_SOCKET_SEND_FLAG_INLINE
#define MB (1u << 20)

struct kept {
	struct xlio_buf *buf;
	const uint8_t *data;
	uint64_t key;
	size_t off, len;
};

#define KEPT (1u << 20)
static struct kept kept[KEPT];
static size_t n_kept, n_lent;
static uint32_t seed = 7;

static uint32_t below(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 17;
	seed ^= seed << 5;
	return seed % n;
}

static bool keep(struct end *e, void *data, size_t len, struct xlio_buf *buf)
{
	EXPECT(n_kept < KEPT);
	kept[n_kept++] =
	    (struct kept){ buf, data, e->key, e->received - len, len };
	return true;
}

static void check(const struct kept *k)
{
	EXPECT(stream_is(k->data, k->key, k->off, k->len));
}

static void check_all(void)
{
	for (size_t i = 0; i < n_kept; i++)
		check(&kept[i]);
}

/* In no order. */
static void return_all_to(xlio_poll_group_t group)
{
	while (n_kept) {
		uint32_t i = below((uint32_t)n_kept);

		check(&kept[i]);
		errno = 0;
		xlio_poll_group_buf_free(group, kept[i].buf);
		EXPECT_EQ(errno, 0);
		kept[i] = kept[--n_kept];
	}
}

/* @len bytes of the stream of @s from where it is, in parts. */
static void send_stream(struct end *c, struct end *s, uint8_t *data, size_t len,
			size_t part)
{
	stream_fill(data, s->key, s->received, len);
	for (size_t at = 0; at < len; at += part)
		end_send(c, data + at, len - at < part ? len - at : part,
			 FLUSH);
}

static void keep_rounds(struct end *c, struct end *s, size_t len, size_t part,
			int rounds)
{
	uint8_t *data = malloc(len);

	EXPECT(data);
	w->on_rx = keep;
	while (rounds--) {
		size_t want = s->received + len;

		send_stream(c, s, data, len, part);
		UNTIL(s->received == want && c->n_comps == c->n_ops);
		memset(data, 0xdd, len);
		check_all();
		return_all_to(w->server);
	}
	w->on_rx = NULL;
	free(data);
}

static void a_message_is_kept_until_it_is_complete(void)
{
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	s->key = 3;
	keep_rounds(c, s, 1 * MB, 64 * 1024, 20);
	keep_rounds(c, s, 4 * MB, 4 * MB, 10);
	keep_rounds(c, s, 16 * MB, 1 * MB, 5);
	keep_rounds(c, s, 3000000, 777, 3);
	world_close();
}

static void many_small_records_are_kept(void)
{
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	s->key = 5;
	keep_rounds(c, s, 100 * 30000, 100, 2);
	keep_rounds(c, s, 30000, 1, 2);
	world_close();
}

static void several_connections_keep_at_once(void)
{
	enum { N = 8, BYTES = 3 * MB };
	static uint8_t data[N][BYTES];
	struct end *c[N], *s[N];

	world_open(0);
	for (int i = 0; i < N; i++) {
		pair(&c[i], &s[i]);
		s[i]->key = (uint64_t)(11 * i + 1);
	}
	w->on_rx = keep;
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < N; i++)
			send_stream(c[i], s[i], data[i], BYTES, 100000);
		for (int i = 0; i < N; i++)
			UNTIL(s[i]->received == (size_t)(round + 1) * BYTES);
		check_all();
		return_all_to(w->server);
	}
	world_close();
}

/* The stream goes on for long, and what comes after it was returned is lent again. */
static void one_record_is_kept_and_the_stream_goes_on(void)
{
	static uint8_t data[8 * MB];
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	s->key = 9;
	w->on_rx = keep;
	send_stream(c, s, data, 100, 100);
	UNTIL(s->received == 100);
	w->on_rx = NULL;
	for (int round = 0; round < 8; round++) {
		size_t want = s->received + sizeof(data);

		send_stream(c, s, data, sizeof(data), 50000);
		UNTIL(s->received == want && c->n_comps == c->n_ops);
		check_all();
	}
	return_all_to(w->server);
	keep_rounds(c, s, 2 * MB, 64 * 1024, 4);
	world_close();
}

static void what_is_kept_outlives_its_socket(void)
{
	static uint8_t data[4 * MB];
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	s->key = 4;
	w->on_rx = keep;
	send_stream(c, s, data, sizeof(data), MB);
	UNTIL(s->received == sizeof(data));
	end_destroy(s);
	end_destroy(c);
	UNTIL(s->is_gone && c->is_gone);
	check_all();
	return_all_to(w->client);
	world_close();
}

static void what_is_kept_moves_with_its_socket(void)
{
	static uint8_t data[2 * MB];
	struct xlio_poll_group_attr attr = world_attr(0);
	xlio_poll_group_t other, server;
	struct end *c, *s;

	world_open(0);
	server = w->server;
	EXPECT_EQ(xlio_poll_group_create(&attr, &other), 0);
	pair(&c, &s);
	s->key = 4;
	w->on_rx = keep;
	for (int round = 0; round < 6; round++) {
		size_t want = s->received + sizeof(data);

		send_stream(c, s, data, sizeof(data), 70000);
		if (round % 2)
			UNTIL(s->received + MB > want);
		EXPECT_EQ(xlio_socket_detach_group(s->sock), 0);
		w->server = w->server == server ? other : server;
		EXPECT_EQ(xlio_socket_attach_group(s->sock, w->server), 0);
		UNTIL(s->received == want);
		check_all();
		if (round % 3 == 2)
			return_all_to(round == 2 ? w->server : w->client);
	}
	w->server = server;
	if (n_kept)
		return_all_to(server);
	EXPECT_EQ(xlio_poll_group_destroy(other), 0);
	world_close();
}

/*
 * By another thread, while the stream goes on.
 */

static struct kept queue[4096];
static size_t queue_in, queue_out;
static bool is_over;

static bool hand_over(struct end *e, void *data, size_t len,
		      struct xlio_buf *buf)
{
	size_t out = __atomic_load_n(&queue_out, __ATOMIC_ACQUIRE);

	if (queue_in - out == 4096)
		return false;
	queue[queue_in % 4096] =
	    (struct kept){ buf, data, e->key, e->received - len, len };
	__atomic_store_n(&queue_in, queue_in + 1, __ATOMIC_RELEASE);
	return true;
}

static void *return_in_thread(void *arg)
{
	struct xlio_poll_group_attr attr = world_attr(0);
	xlio_poll_group_t group;

	(void)arg;
	EXPECT_EQ(xlio_poll_group_create(&attr, &group), 0);
	while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE) || n_kept ||
	       queue_out != __atomic_load_n(&queue_in, __ATOMIC_ACQUIRE)) {
		size_t in = __atomic_load_n(&queue_in, __ATOMIC_ACQUIRE);

		while (queue_out != in) {
			kept[n_kept++] = queue[queue_out % 4096];
			__atomic_store_n(&queue_out, queue_out + 1,
					 __ATOMIC_RELEASE);
		}
		/* Now all, now a few, now for a while nothing. */
		if (below(2000) == 0 || in == queue_in)
			return_all_to(group);
	}
	EXPECT_EQ(xlio_poll_group_destroy(group), 0);
	return NULL;
}

static void another_thread_returns_what_was_kept(void)
{
	static uint8_t data[8 * MB];
	pthread_t thread;
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	s->key = 21;
	w->on_rx = hand_over;
	EXPECT_EQ(pthread_create(&thread, NULL, return_in_thread, NULL), 0);
	for (int round = 0; round < 8; round++) {
		size_t want = s->received + sizeof(data);

		send_stream(c, s, data, sizeof(data), 1 + below(90000));
		UNTIL(s->received == want && c->n_comps == c->n_ops);
	}
	__atomic_store_n(&is_over, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	world_close();
}

/*
 * Senders.
 */

static void a_sender_with_a_small_buffer_is_not_stopped(void)
{
	int bytes = 20000;
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	s->key = 8;
	EXPECT_EQ(xlio_socket_setsockopt(c->sock, SOL_SOCKET, SO_SNDBUF, &bytes,
					 sizeof(bytes)),
		  0);
	keep_rounds(c, s, 300000, 50000, 5);
	world_close();
}

#define PLAIN_BYTES (6u * MB)

static void *plain_sender(void *arg)
{
	static uint8_t data[100000];
	int bytes = *(int *)arg;

	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (bytes)
		EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes,
				     sizeof(bytes)),
			  0);
	EXPECT_EQ(connect(fd, (struct sockaddr *)&w->addr, w->addr_len), 0);
	for (size_t at = 0; at < PLAIN_BYTES;) {
		size_t n = PLAIN_BYTES - at < sizeof(data) ? PLAIN_BYTES - at
							   : sizeof(data);

		stream_fill(data, 2, at, n);
		ssize_t r = send(fd, data, n, 0);
		EXPECT(r > 0);
		at += (size_t)r;
	}
	shutdown(fd, SHUT_WR);
	EXPECT_EQ(recv(fd, data, 1, 0), 0);
	close(fd);
	return NULL;
}

static void name_stream(struct end *e) { e->key = 2; }

static void a_plain_sender_is_not_stopped(void)
{
	int sizes[] = { 0, 16384 };

	for (int i = 0; i < 2; i++) {
		pthread_t thread;
		struct end *s;

		world_open(0);
		w->on_rx = keep;
		w->on_accept = name_stream;
		EXPECT_EQ(
		    pthread_create(&thread, NULL, plain_sender, &sizes[i]), 0);
		UNTIL((s = w->newest) && s->n_closed);
		EXPECT_EQ(s->received, PLAIN_BYTES);
		EXPECT_EQ(shm_bytes() > 0, is_shm());
		check_all();
		return_all_to(w->server);
		end_destroy(s);
		UNTIL(s->is_gone);
		pthread_join(thread, NULL);
		w->newest = NULL;
		world_close();
		w->n_ends = 0;
	}
}

/* Its own group sleeps when there is nothing to do. */
static void *sleep_and_keep(void *arg)
{
	struct end *s = arg;

	while (s->received < 4 * MB)
		EXPECT(osf_group_wait(w->server, 1000) >= 0);
	return NULL;
}

static void a_sleeper_keeps_a_message(void)
{
	static uint8_t data[4 * MB];
	pthread_t thread;
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	s->key = 17;
	w->on_rx = keep;
	send_stream(c, s, data, sizeof(data), MB);
	EXPECT_EQ(pthread_create(&thread, NULL, sleep_and_keep, s), 0);
	while (c->n_comps < c->n_ops)
		xlio_poll_group_poll(w->client);
	pthread_join(thread, NULL);
	check_all();
	return_all_to(w->server);
	world_close();
}

/*
 * By reference: the sender has one buffer, which it fills again when it may.
 */

static void fill_and_send(struct end *c, struct end *s, uint8_t *buf,
			  size_t len, size_t off)
{
	stream_fill(buf, s->key, off, len);
	end_send(c, buf, len, FLUSH);
}

static void a_sender_with_one_buffer_goes_on(void)
{
	enum { LEN = 64 * 1024 };
	uint8_t *buf = osf_mem_alloc(LEN);
	struct end *c, *s;
	size_t off = 0;

	EXPECT(buf);
	world_open(0);
	pair(&c, &s);
	s->key = 13;
	w->on_rx = keep;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 32; i++, off += LEN) {
			fill_and_send(c, s, buf, LEN, off);
			UNTIL(c->n_comps == c->n_ops);
			memset(buf, 0xdd, LEN); /* it is ours again */
		}
		UNTIL(s->received == off);
		check_all();
		return_all_to(w->server);
	}
	EXPECT_EQ(ref_bytes() > 0, is_shm());
	osf_mem_free(buf);
	world_close();
}

/*
 * Limits.
 */

static void on_memory(void *addr, size_t len, size_t hugepage_size)
{
	(void)addr;
	(void)len;
	(void)hugepage_size;
	n_lent++;
}

static void a_message_is_kept_in_memory_that_was_told_of(void)
{
	struct xlio_init_attr init = { .memory_cb = on_memory };
	struct end *c, *s;

	EXPECT_EQ(xlio_init_ex(&init), 0);
	world_open(0);
	pair(&c, &s);
	s->key = 3;
	keep_rounds(c, s, 4 * MB, 100000, 4);
	EXPECT(n_lent > 0);
	world_close();
}

static void keeping_past_the_limit_is_an_error(void)
{
	static uint8_t data[32 * MB];
	struct end *c, *s;

	setenv("OSF_XLIO_MEMORY", "8m", 1);
	world_open(0);
	pair(&c, &s);
	s->key = 6;
	w->on_rx = keep; /* and nothing is returned */
	send_stream(c, s, data, sizeof(data), MB);
	UNTIL(s->n_error);
	EXPECT_EQ(s->error, ENOBUFS);
	EXPECT(s->received > 7 * MB && s->received < 10 * MB);
	EXPECT_ERR(xlio_socket_send(s->sock, "x", 1,
				    &(struct xlio_socket_send_attr){ 0 }),
		   ENOBUFS);
	check_all();
	end_destroy(s);
	end_destroy(c);
	UNTIL(s->is_gone && c->is_gone);
	check_all();
	return_all_to(w->server);
	/* And then there is room for others. */
	pair(&c, &s);
	s->key = 7;
	keep_rounds(c, s, 4 * MB, 100000, 2);
	world_close();
}

#define T(name)                                                                \
	{                                                                      \
#name, name                                                    \
	}
const struct test tests_keep[] = {
	T(a_message_is_kept_until_it_is_complete),
	T(many_small_records_are_kept),
	T(several_connections_keep_at_once),
	T(one_record_is_kept_and_the_stream_goes_on),
	T(what_is_kept_outlives_its_socket),
	T(what_is_kept_moves_with_its_socket),
	T(another_thread_returns_what_was_kept),
	T(a_sender_with_a_small_buffer_is_not_stopped),
	T(a_plain_sender_is_not_stopped),
	T(a_sleeper_keeps_a_message),
	T(a_sender_with_one_buffer_goes_on),
	T(a_message_is_kept_in_memory_that_was_told_of),
	T(keeping_past_the_limit_is_an_error),
	{ 0 },
};
