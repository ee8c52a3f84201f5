/* SPDX-License-Identifier: MIT */
/*
 * tests/xlio/test_fuzz.c - calls of the API in any order, with any arguments
 *
 * The rules of xlio_test.c's callbacks hold throughout, bytes are checked against
 * their stream, and at the end everything has ended.  OSF_TEST_SEED is the
 * first of the seeds; OSF_SEED repeats one run; a longer one is OSF_FUZZ_S seconds.
 */
#include "xlio_test.h"

#include <netinet/tcp.h>

#define FLUSH XLIO_SOCKET_SEND_FLAG_FLUSH
#define INLINE XLIO_SOCKET_SEND_FLAG_INLINE
#define STEPS 3000
#define HELD 256
#define ARENA 65536

static uint64_t seed;

static uint32_t below(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 20) % n;
}

/* What each end has sent: a stream named by the end's number, and its own peer. */
static struct flow {
	struct end *peer;
	size_t sent;
	bool is_detached;
} flows[ENDS];

static uint8_t arena[ARENA]; /* of bytes under way, all streams alike */

static struct {
	struct xlio_buf *buf;
	const uint8_t *data;
	uint64_t key;
	size_t off, len;
} held[HELD];
static int n_held;

static void give_back(int i)
{
	EXPECT(stream_is(held[i].data, held[i].key, held[i].off, held[i].len));
	errno = 0;
	xlio_poll_group_buf_free(below(2) ? w->client : w->server, held[i].buf);
	EXPECT_EQ(errno, 0);
	held[i] = held[--n_held];
}

static int index_of(const struct end *e) { return (int)(e - w->ends); }

/* Something that may be done anywhere, callbacks included. */
static void anything(struct end *e)
{
	struct xlio_socket_send_attr attr = { .flags = below(4) };
	struct flow *f = &flows[index_of(e)];
	static const size_t sizes[] = { 0, 1, 40, 300, 5000, 30000 };
	int on = 1;

	switch (below(14)) {
	case 0: /* seldom, or nothing would ever be sent */
		if (below(6) == 0 && e != w->listening && !e->is_destroyed &&
		    !f->is_detached)
			end_destroy(e);
		break;
	case 1:
		if (xlio_socket_detach_group(e->sock) == 0)
			f->is_detached = true;
		break;
	case 2:
		if (xlio_socket_attach_group(
			e->sock, below(2) ? w->client : w->server) == 0) {
			EXPECT(f->is_detached);
			f->is_detached = false;
		}
		break;
	case 3:
		xlio_socket_flush(e->sock);
		break;
	case 4:
		xlio_poll_group_flush(below(2) ? w->client : w->server);
		break;
	case 5:
		xlio_socket_setsockopt(e->sock, IPPROTO_TCP, TCP_NODELAY, &on,
				       sizeof(on));
		break;
	case 6:
		xlio_socket_get_pd(e->sock);
		xlio_socket_listen(below(2) ? e->sock : below(1000));
		break;
	case 7:
		if (n_held)
			give_back((int)below((uint32_t)n_held));
		break;
	default: {
		/* Each stream repeats, so data stays what it is. */
		size_t len = sizes[below(6)];

		if (f->sent + len > ARENA)
			break;
		attr.userdata_op = below(2);
		if (xlio_socket_send(e->sock, arena + f->sent, len, &attr))
			break;
		f->sent += len;
		if (attr.userdata_op && !(attr.flags & INLINE))
			e->n_ops++;
	}
	}
}

static struct end *any(void)
{
	struct end *e = &w->ends[below((uint32_t)w->n_ends)];

	return e;
}

static void maybe(struct end *e)
{
	if (below(8) == 0)
		anything(below(3) ? e : any());
}

static void on_event(struct end *e, int event, int value)
{
	(void)value;
	if (event == XLIO_SOCKET_EVENT_TERMINATED)
		flows[index_of(e)].is_detached = false;
	maybe(e);
}

static void on_comp(struct end *e, uintptr_t op)
{
	EXPECT_EQ(op, 1);
	maybe(e);
}

static bool on_rx(struct end *e, void *data, size_t len, struct xlio_buf *buf)
{
	bool takes = n_held < HELD && below(3) == 0;

	if (takes) {
		held[n_held].buf = buf;
		held[n_held].data = data;
		held[n_held].key = e->key;
		held[n_held].off = e->received - len;
		held[n_held++].len = len;
	}
	maybe(e);
	if (!takes) /* its socket may have left the group just now */
		xlio_poll_group_buf_free(w->client, buf);
	return true;
}

static void on_accept(struct end *e)
{
	e->key = 13;
	maybe(e);
}

static void step(void)
{
	if (below(12) == 0 && w->n_ends < ENDS / 2 && !w->listening->is_gone) {
		struct end *e =
		    end_new(below(2) ? w->client : w->server, AF_INET);

		e->key = 13;
		if (below(8))
			EXPECT_EQ(xlio_socket_connect(
				      e->sock, (struct sockaddr *)&w->addr,
				      w->addr_len),
				  0);
	}
	if (below(2))
		poll_both();
	anything(any());
}

static void end_all(void)
{
	w->on_event = NULL;
	w->on_comp = NULL;
	for (int i = 0; i < w->n_ends; i++)
		if (flows[i].is_detached && !w->ends[i].is_gone)
			EXPECT_EQ(xlio_socket_attach_group(w->ends[i].sock,
							   w->client),
				  0);
	while (n_held > HELD / 2)
		give_back(0);
	w->on_rx = NULL;
	if (below(2)) {
		for (int i = 0; i < w->n_ends; i++)
			if (!w->ends[i].is_destroyed)
				end_destroy(&w->ends[i]);
		for (int i = 0; i < w->n_ends; i++)
			UNTIL(w->ends[i].is_gone);
		while (n_held)
			give_back(0);
	} else {
		EXPECT_EQ(xlio_poll_group_destroy(w->client), 0);
	}
	EXPECT_EQ(xlio_exit(), 0);
	for (int i = 0; i < w->n_ends; i++)
		EXPECT(w->ends[i].is_gone);
}

static void one_run(uint64_t s)
{
	seed = s * 0x9e3779b97f4a7c15ull + 1;
	memset(flows, 0, sizeof(flows));
	n_held = 0;
	world_open(below(2) ? XLIO_GROUP_FLAG_DIRTY : 0);
	memset(w->ends + 1, 0, sizeof(w->ends[0]) * (ENDS - 1));
	w->on_event = on_event;
	w->on_comp = on_comp;
	w->on_rx = on_rx;
	w->on_accept = on_accept;
	for (int i = 0; i < STEPS; i++)
		step();
	end_all();
	memset(w, 0, sizeof(*w));
}

static void calls_in_any_order(void)
{
	const char *given = getenv("OSF_SEED"), *seconds = getenv("OSF_FUZZ_S");
	double end = now() + (seconds ? atof(seconds) : 4);
	const char *first = given ? given : getenv("OSF_TEST_SEED");
	uint64_t s = first ? strtoull(first, NULL, 0) : (uint64_t)getpid();

	if (seconds)
		alarm((unsigned)atof(seconds) + 60);
	stream_fill(arena, 13, 0, sizeof(arena));
	do {
		fprintf(stderr, "seed %llu\n", (unsigned long long)s);
		one_run(s++);
	} while (!given && now() < end);
}

#define T(name)                                                                \
	{                                                                      \
#name, name                                                    \
	}
const struct test tests_fuzz[] = { T(calls_in_any_order), { 0 } };
