/* SPDX-License-Identifier: MIT */
/* tests/xlio/test_move.c - threads: migration under load, groups in parallel, SAFE */
#include "xlio_test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#define FLUSH XLIO_SOCKET_SEND_FLAG_FLUSH
#define INLINE XLIO_SOCKET_SEND_FLAG_INLINE

static void a_detached_socket_rests_and_loses_nothing(void)
{
	struct xlio_socket_send_attr attr = { .flags = FLUSH };
	struct end *c, *s;

	world_open(XLIO_GROUP_FLAG_DIRTY);
	pair(&c, &s);
	end_send(s, "gathered", 8, 0);
	EXPECT_EQ(xlio_socket_detach_group(s->sock), 0);
	EXPECT_ERR(xlio_socket_detach_group(s->sock), EINVAL);
	EXPECT_ERR(xlio_socket_send(s->sock, "x", 1, &attr), EINVAL);
	end_send(c, "while away", 10, FLUSH);
	poll_n(200);
	EXPECT_EQ(s->received, 0);
	EXPECT_EQ(xlio_socket_attach_group(s->sock, w->client), 0);
	EXPECT_ERR(xlio_socket_attach_group(s->sock, w->client), EINVAL);
	UNTIL(s->received == 10);
	EXPECT_EQ(s->n_comps, 0);
	xlio_poll_group_flush(w->client); /* it is in this group's list now */
	UNTIL(c->received == 8 && s->n_comps == 1);
	world_close();
}

static void the_peer_may_go_while_a_socket_is_detached(void)
{
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	EXPECT_EQ(xlio_socket_detach_group(s->sock), 0);
	end_send(c, "last", 4, FLUSH);
	end_destroy(c);
	UNTIL(c->is_gone);
	EXPECT_EQ(xlio_socket_attach_group(s->sock, w->server), 0);
	UNTIL(s->n_closed);
	EXPECT_EQ(s->received, 4);
	world_close();
}

static void a_detached_socket_is_destroyed_at_once(void)
{
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	end_send(c, "not flushed", 11, 0);
	EXPECT_EQ(xlio_socket_detach_group(c->sock), 0);
	end_destroy(c);
	EXPECT(c->is_gone);
	EXPECT_EQ(c->n_comps, 1);
	UNTIL(s->n_closed);
	world_close();
}

static void detach_self(struct end *e, uintptr_t op)
{
	(void)op;
	EXPECT_EQ(xlio_socket_detach_group(e->sock), 0);
}

static bool detach_at_data(struct end *e, void *data, size_t len,
			   struct xlio_buf *buf)
{
	(void)data, (void)len;
	if (!e->is_accepted)
		return false;
	EXPECT_EQ(xlio_socket_detach_group(e->sock), 0);
	xlio_poll_group_buf_free(w->server, buf);
	return true;
}

static void detaching_in_callbacks(void)
{
	static uint8_t data[1 << 20];
	struct end *c, *s;
	int n = 0;

	world_open(0);
	pair(&c, &s);
	stream_fill(data, 3, 0, sizeof(data));
	s->key = 3;
	w->on_rx = detach_at_data;
	w->on_comp = detach_self;
	end_send(c, data, sizeof(data), FLUSH);
	for (double end = now() + 20; s->received < sizeof(data); n++) {
		size_t before = s->received;

		xlio_poll_group_poll(w->client);
		xlio_poll_group_poll(w->server);
		EXPECT(now() < end);
		if (s->received > before)
			EXPECT_EQ(xlio_socket_attach_group(s->sock, w->server),
				  0);
	}
	EXPECT(n > 3);
	UNTIL(c->n_comps == 1);
	EXPECT_EQ(xlio_socket_attach_group(c->sock, w->client), 0);
	world_close();
}

/*
 * Between two threads: each polls its group and passes what it has to the other.
 */

#define MOVES 100000
static struct mover {
	xlio_poll_group_t group;
	uintptr_t inbox; /* the socket, while it is under way */
	bool has_it;
	struct mover *other;
} movers[2];
static uint32_t n_moves;
static bool stops;
static struct end *moved;

static bool give_back(struct end *e, void *data, size_t len,
		      struct xlio_buf *buf)
{
	struct xlio_socket_send_attr attr = { .flags = FLUSH | INLINE };

	(void)buf;
	if (e == moved)
		EXPECT_EQ(xlio_socket_send(e->sock, data, len, &attr), 0);
	return false;
}

static void *move(void *arg)
{
	struct mover *m = arg;

	while (!__atomic_load_n(&stops, __ATOMIC_ACQUIRE)) {
		uintptr_t s =
		    __atomic_exchange_n(&m->inbox, 0, __ATOMIC_ACQ_REL);

		if (s) {
			EXPECT_EQ(xlio_socket_attach_group(s, m->group), 0);
			m->has_it = true;
		}
		xlio_poll_group_poll(m->group);
		if (!m->has_it) {
			sched_yield();
			continue;
		}
		if (__atomic_load_n(&n_moves, __ATOMIC_RELAXED) >= MOVES)
			continue;
		EXPECT_EQ(xlio_socket_detach_group(moved->sock), 0);
		m->has_it = false;
		__atomic_fetch_add(&n_moves, 1, __ATOMIC_RELAXED);
		__atomic_store_n(&m->other->inbox, moved->sock,
				 __ATOMIC_RELEASE);
	}
	return NULL;
}

static uint8_t ask[512];
static size_t asked;

static void ask_more(struct end *c)
{
	stream_fill(ask, 11, asked, sizeof(ask));
	end_send(c, ask, sizeof(ask), FLUSH | INLINE);
	asked += sizeof(ask);
}

static void a_socket_moves_between_threads_under_load(void)
{
	struct xlio_poll_group_attr attr = world_attr(0);
	pthread_t threads[2];
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	moved = s;
	c->key = 11;
	w->on_rx = give_back;
	EXPECT_EQ(xlio_socket_detach_group(s->sock), 0);
	for (int i = 0; i < 2; i++) {
		movers[i] = (struct mover){ .other = &movers[!i] };
		EXPECT_EQ(xlio_poll_group_create(&attr, &movers[i].group), 0);
	}
	movers[0].inbox = s->sock;
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(pthread_create(&threads[i], NULL, move, &movers[i]),
			  0);
	for (double end = now() + 50;
	     __atomic_load_n(&n_moves, __ATOMIC_RELAXED) < MOVES ||
	     c->received < asked;) {
		EXPECT(now() < end);
		if (c->received == asked &&
		    __atomic_load_n(&n_moves, __ATOMIC_RELAXED) < MOVES)
			ask_more(c);
		xlio_poll_group_poll(w->client);
		sched_yield();
	}
	__atomic_store_n(&stops, true, __ATOMIC_RELEASE);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	EXPECT(asked > sizeof(ask));
	fprintf(stderr, "%u moves, %zu bytes there and back\n", n_moves, asked);
	w->on_rx = NULL;
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(xlio_poll_group_destroy(movers[i].group), 0);
	world_close();
}

/*
 * Groups in parallel, and one that others send from.
 */

#define THREADS 4
static struct worker {
	pthread_t thread;
	xlio_poll_group_t group;
	struct end ends[2];
	struct world world;
	size_t want;
} workers[THREADS];

static void *work(void *arg)
{
	struct worker *k = arg;
	struct xlio_poll_group_attr attr = world_attr(0);
	struct end *e = &k->ends[0];
	uint8_t data[4096];
	size_t off = 0;

	EXPECT_EQ(xlio_poll_group_create(&attr, &k->group), 0);
	*e = (struct end){ .world = &k->world, .key = 21 };
	struct xlio_socket_attr sa = { .domain = AF_INET,
				       .group = k->group,
				       .userdata_sq = (uintptr_t)e };
	EXPECT_EQ(xlio_socket_create(&sa, &e->sock), 0);
	EXPECT_EQ(xlio_socket_connect(e->sock, (struct sockaddr *)&w->addr,
				      w->addr_len),
		  0);
	while (!e->n_established)
		xlio_poll_group_poll(k->group);
	while (off < k->want) {
		stream_fill(data, 21, off, sizeof(data));
		end_send(e, data, sizeof(data), FLUSH | INLINE);
		off += sizeof(data);
		while (e->received < off) {
			xlio_poll_group_poll(k->group);
			sched_yield(); /* more threads than cores */
		}
	}
	end_destroy(e);
	while (!e->is_gone)
		xlio_poll_group_poll(k->group);
	EXPECT_EQ(xlio_poll_group_destroy(k->group), 0);
	__atomic_fetch_add(&n_moves, 1, __ATOMIC_RELEASE);
	return NULL;
}

static bool echo(struct end *e, void *data, size_t len, struct xlio_buf *buf)
{
	(void)buf;
	if (e->is_accepted)
		end_send(e, data, len, FLUSH | INLINE);
	return false;
}

static void groups_of_several_threads_at_once(void)
{
	world_open(0);
	w->on_rx = echo;
	for (int i = 0; i < THREADS; i++) {
		workers[i].want = 1 << 20;
		EXPECT_EQ(
		    pthread_create(&workers[i].thread, NULL, work, &workers[i]),
		    0);
	}
	UNTIL((sched_yield(),
	       __atomic_load_n(&n_moves, __ATOMIC_ACQUIRE) == THREADS));
	for (int i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	world_close();
}

#define SAFE_SENDS 20000
static struct end *safe;

static void *send_many(void *arg)
{
	struct xlio_socket_send_attr attr = { .flags = FLUSH | INLINE };
	uint8_t data[16];

	(void)arg;
	for (size_t i = 0; i < SAFE_SENDS; i++) {
		stream_fill(data, 31, i * sizeof(data), sizeof(data));
		EXPECT_EQ(
		    xlio_socket_send(safe->sock, data, sizeof(data), &attr), 0);
	}
	return NULL;
}

static void another_thread_sends_while_a_safe_group_is_polled(void)
{
	pthread_t thread;
	struct end *c, *s;

	world_open(XLIO_GROUP_FLAG_SAFE);
	pair(&c, &s);
	safe = c;
	s->key = 31;
	EXPECT_EQ(pthread_create(&thread, NULL, send_many, NULL), 0);
	UNTIL(s->received == SAFE_SENDS * 16);
	pthread_join(thread, NULL);
	world_close();
}

#ifdef OSF_DEBUG
static bool stay_inside(struct end *e, void *data, size_t len,
			struct xlio_buf *buf)
{
	(void)e, (void)data, (void)len, (void)buf;
	sleep(60); /* the other thread ends it */
	return false;
}

static void *poll_server(void *arg)
{
	(void)arg;
	for (;;)
		xlio_poll_group_poll(w->server);
	return NULL;
}

/* The library says so, and aborts: in a release build it would corrupt the group. */
static void two_threads_inside_a_group_are_found(void)
{
	char said[200] = "";
	int err[2], status;
	struct end *c, *s;
	pthread_t thread;

	EXPECT_EQ(pipe(err), 0);
	pid_t pid = fork();
	if (!pid) {
		dup2(err[1], 2);
		world_open(0);
		pair(&c, &s);
		w->on_rx = stay_inside;
		end_send(c, "x", 1, FLUSH | INLINE);
		pthread_create(&thread, NULL, poll_server, NULL);
		poll_server(NULL);
	}
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	EXPECT(read(err[0], said, sizeof(said) - 1) > 0);
	EXPECT(strstr(said, "two threads are inside one poll group") != NULL);
}
#endif

#define T(name)                                                                \
	{                                                                      \
#name, name                                                    \
	}
const struct test tests_move[] = {
	T(a_detached_socket_rests_and_loses_nothing),
	T(the_peer_may_go_while_a_socket_is_detached),
	T(a_detached_socket_is_destroyed_at_once),
	T(detaching_in_callbacks),
	T(a_socket_moves_between_threads_under_load),
	T(groups_of_several_threads_at_once),
	T(another_thread_sends_while_a_safe_group_is_polled),
#ifdef OSF_DEBUG
	T(two_threads_inside_a_group_are_found),
#endif
	{ 0 },
};
