/* SPDX-License-Identifier: MIT */
/* tests/xlio/test_data.c - bytes there and back, completions, flushing, buffers */
#include "xlio_test.h"

#define FLUSH XLIO_SOCKET_SEND_FLAG_FLUSH
#define INLINE XLIO_SOCKET_SEND_FLAG_INLINE

static void an_accepted_socket_is_told_of_before_its_data(void)
{
	struct end *c, *s;

	world_open(0); /* on_accept() sets what on_rx() needs */
	pair(&c, &s);
	EXPECT_EQ(c->n_established, 1);
	EXPECT_EQ(s->n_established, 0);
	world_close();
}

static void bytes_arrive_in_order_whatever_their_sizes(void)
{
	static uint8_t data[600000];
	struct end *c, *s;
	size_t off = 0;

	world_open(0);
	pair(&c, &s);
	s->key = 3;
	for (unsigned i = 0; i < 400; i++) {
		size_t len = 1 + (i * 7919u * i) % (i % 10 ? 3000 : 500000);
		unsigned flags = i % 3 ? FLUSH : FLUSH | INLINE;

		stream_fill(data, 3, off, len);
		end_send(c, data, len, flags);
		off += len;
		UNTIL(s->received == off && c->n_comps == c->n_ops);
		memset(data, 0xdd, len); /* it is ours again */
	}
	world_close();
}

static void vectors_are_one_operation(void)
{
	uint8_t a[100], b[70000];
	struct iovec iov[70];
	struct end *c, *s;
	size_t off = 0;

	world_open(0);
	pair(&c, &s);
	s->key = 9;
	for (int i = 0; i < 70; i++)
		iov[i] =
		    (struct iovec){ i % 2 ? (void *)&b[i * 500] : (void *)a,
				    i % 2 ? 500 : 0 };
	for (int i = 1; i < 70; i += 2, off += 500)
		stream_fill(iov[i].iov_base, 9, off, 500);
	struct xlio_socket_send_attr attr = { .userdata_op = 5 };
	c->n_ops = 1;
	EXPECT_EQ(xlio_socket_sendv(c->sock, iov, 70, &attr), 0);
	memset(iov, 0, sizeof(iov)); /* the vectors may go */
	poll_n(50);
	EXPECT_EQ(s->received, 0);
	xlio_socket_flush(c->sock);
	UNTIL(s->received == off && c->n_comps == 1);
	EXPECT_EQ(c->last_comp, 5);
	world_close();
}

static void nothing_leaves_before_it_is_flushed(void)
{
	char bytes[4] = "abc";
	struct end *c, *s;

	world_open(XLIO_GROUP_FLAG_DIRTY);
	pair(&c, &s);
	end_send(c, bytes, 1, 0);
	end_send(c, bytes, 1, INLINE);
	poll_n(100);
	EXPECT_EQ(s->received, 0);
	EXPECT_EQ(c->n_comps, 0);
	xlio_socket_flush(c->sock); /* one's own */
	UNTIL(s->received == 2 && c->n_comps == 1);
	end_send(c, bytes, 1, 0);
	poll_n(100);
	EXPECT_EQ(s->received, 2);
	xlio_poll_group_flush(w->server); /* another group's */
	poll_n(100);
	EXPECT_EQ(s->received, 2);
	xlio_poll_group_flush(w->client); /* the group's */
	UNTIL(s->received == 3 && c->n_comps == 2);
	end_send(c, bytes, 1, 0);
	end_send(c, bytes, 2, FLUSH); /* another operation's */
	UNTIL(s->received == 6 && c->n_comps == 4);
	world_close();
}

static void a_group_that_keeps_no_list_is_not_flushed(void)
{
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	end_send(c, "x", 1, 0);
	xlio_poll_group_flush(w->client);
	poll_n(100);
	EXPECT_EQ(s->received, 0);
	xlio_socket_flush(c->sock);
	UNTIL(s->received == 1);
	world_close();
}

static void inline_data_may_be_overwritten_at_once(void)
{
	static uint8_t data[300000];
	struct end *c, *s;
	size_t off = 0;

	world_open(0);
	pair(&c, &s);
	s->key = 1;
	for (int i = 0; i < 40; i++) {
		size_t len = i % 4 ? 50 : sizeof(data);

		stream_fill(data, 1, off, len);
		end_send(c, data, len, i % 2 ? INLINE : INLINE | FLUSH);
		memset(data, 0xdd, len);
		off += len;
	}
	xlio_socket_flush(c->sock);
	UNTIL(s->received == off);
	EXPECT_EQ(c->n_comps, 0);
	world_close();
}

static void operations_without_bytes_or_userdata(void)
{
	struct xlio_socket_send_attr attr = { .flags = FLUSH };
	char byte = 'x';
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	EXPECT_EQ(xlio_socket_send(c->sock, &byte, 1, &attr), 0);
	UNTIL(s->received == 1);
	poll_n(100);
	EXPECT_EQ(c->n_comps, 0);
	attr.userdata_op = 1; /* no bytes: completes after what is before it */
	c->n_ops = 1;
	EXPECT_EQ(xlio_socket_send(c->sock, NULL, 0, &attr), 0);
	UNTIL(c->n_comps == 1);
	attr.flags = INLINE; /* an inline one never completes */
	EXPECT_EQ(xlio_socket_send(c->sock, &byte, 1, &attr), 0);
	world_close();
}

static void the_same_userdata_completes_as_often_as_it_was_given(void)
{
	char byte = 'x';
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	for (int i = 0; i < 100; i++)
		end_send(c, &byte, 1, i % 10 == 9 ? FLUSH : 0);
	UNTIL(c->n_comps == 100 && s->received == 100);
	world_close();
}

static void sixteen_thousand_sends_are_under_way_at_once(void)
{
	static char bytes[16384];
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	for (int i = 0; i < 16384; i++)
		end_send(c, &bytes[i], 1, i % 2 ? FLUSH : 0);
	UNTIL(c->n_comps == 16384 && s->received == 16384);
	world_close();
}

/* More than any buffer between the two holds, and nobody reads at first. */
static void nothing_is_sent_in_part(void)
{
	static uint8_t data[40 << 20];
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	s->key = 2;
	stream_fill(data, 2, 0, sizeof(data));
	end_send(c, data, sizeof(data) / 2, FLUSH);
	end_send(c, data + sizeof(data) / 2, sizeof(data) / 2, FLUSH);
	for (int i = 0; i < 100; i++)
		xlio_poll_group_poll(w->client);
	EXPECT_EQ(c->n_comps, 0);
	UNTIL(s->received == sizeof(data) && c->n_comps == 2);
	world_close();
}

/* A sender that never runs dry, both ways, and buffers poisoned when they are free. */
static void fill_and_send(struct end *e, uint8_t *buf, size_t len, size_t off)
{
	stream_fill(buf, e->is_accepted ? 7 : 8, off, len);
	end_send(e, buf, len, FLUSH);
}

#define PIECES 8
#define PIECE 65536
static uint8_t pieces[2][PIECES][PIECE];
static size_t sent[2];

static void again(struct end *e, uintptr_t op)
{
	memset((void *)op, 0xdd, PIECE);
	if (sent[e->is_accepted] < 300 * (size_t)PIECE) {
		fill_and_send(e, (uint8_t *)op, PIECE, sent[e->is_accepted]);
		sent[e->is_accepted] += PIECE;
	}
}

static void streams_both_ways_from_completions(void)
{
	struct end *ends[2];

	world_open(0);
	pair(&ends[0], &ends[1]);
	ends[0]->key = 7;
	ends[1]->key = 8;
	w->on_comp = again;
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < PIECES; k++, sent[i] += PIECE)
			fill_and_send(ends[i], pieces[i][k], PIECE, sent[i]);
	UNTIL(ends[0]->received == sent[1] && ends[1]->received == sent[0] &&
	      ends[0]->n_comps == ends[0]->n_ops &&
	      ends[1]->n_comps == ends[1]->n_ops);
	EXPECT_EQ(sent[0], 300 * (size_t)PIECE);
	world_close();
}

/*
 * Buffers.
 */

#define KEPT 4096
static struct {
	struct xlio_buf *buf;
	void *data;
	size_t off, len;
} kept[KEPT];
static int n_kept;

static bool keep(struct end *e, void *data, size_t len, struct xlio_buf *buf)
{
	EXPECT(n_kept < KEPT);
	kept[n_kept].buf = buf;
	kept[n_kept].data = data;
	kept[n_kept].off = e->received - len;
	kept[n_kept++].len = len;
	return true;
}

static void check_kept(uint64_t key)
{
	for (int i = 0; i < n_kept; i++)
		if (kept[i].buf)
			EXPECT(stream_is(kept[i].data, key, kept[i].off,
					 kept[i].len));
}

static void buffers_come_back_in_any_order(void)
{
	static uint8_t data[300];
	struct end *c, *s;
	unsigned seed = 1;
	size_t off = 0;

	world_open(0);
	pair(&c, &s);
	s->key = 4;
	w->on_rx = keep;
	for (int round = 0; round < 60; round++) {
		for (int i = 0; i < 100; i++, off += sizeof(data)) {
			stream_fill(data, 4, off, sizeof(data));
			end_send(c, data, sizeof(data), FLUSH | INLINE);
			if (i % 5 == 0)
				poll_both();
		}
		UNTIL(s->received == off);
		check_kept(4);
		for (int left = n_kept; left > n_kept / 3;) {
			seed = seed * 1103515245 + 12345;
			int i = (int)(seed >> 8) % n_kept;

			if (!kept[i].buf)
				continue;
			xlio_poll_group_buf_free(w->server, kept[i].buf);
			kept[i] = kept[--n_kept];
			left--;
		}
	}
	check_kept(4);
	while (n_kept)
		xlio_socket_buf_free(s->sock, kept[--n_kept].buf);
	world_close();
}

static void buffers_outlive_their_socket(void)
{
	static uint8_t data[50000];
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	s->key = 4;
	stream_fill(data, 4, 0, sizeof(data));
	w->on_rx = keep;
	end_send(c, data, sizeof(data), FLUSH);
	UNTIL(s->received == sizeof(data));
	end_destroy(c);
	end_destroy(s);
	UNTIL(c->is_gone && s->is_gone);
	check_kept(4);
	EXPECT(n_kept > 0);
	errno = 0;
	xlio_socket_buf_free(s->sock, kept[0].buf); /* not by a stale handle */
	EXPECT_EQ(errno, EINVAL);
	while (n_kept) {
		xlio_poll_group_buf_free(w->server, kept[--n_kept].buf);
		check_kept(4);
	}
	/* Nor is what was returned once returned again. */
	errno = 0;
	xlio_poll_group_buf_free(w->server, kept[0].buf);
	EXPECT_EQ(errno, EINVAL);
	world_close();
}

static void wrong_buffers_are_refused(void)
{
	struct xlio_buf none;
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	w->on_rx = keep;
	end_send(c, "x", 1, FLUSH);
	UNTIL(s->received == 1);
	struct xlio_buf *wrong[] = { NULL, &none, kept[0].buf + 1,
				     (struct xlio_buf *)1 };
	for (int i = 0; i < 4; i++) {
		errno = 0;
		xlio_socket_buf_free(s->sock, wrong[i]);
		EXPECT_EQ(errno, EINVAL);
	}
	errno = 0;
	xlio_socket_buf_free(s->sock, kept[0].buf);
	EXPECT_EQ(errno, 0);
	xlio_socket_buf_free(s->sock, kept[0].buf);
	EXPECT_EQ(errno, EINVAL);
	world_close();
}

static void a_message_larger_than_what_is_held_can_arrive(void)
{
	static uint8_t data[700000];
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	s->key = 6;
	stream_fill(data, 6, 0, sizeof(data));
	w->on_rx = keep; /* and nothing is returned */
	end_send(c, data, sizeof(data), FLUSH);
	UNTIL(s->received == sizeof(data) && c->n_comps == 1);
	check_kept(6);
	while (n_kept)
		xlio_socket_buf_free(s->sock, kept[--n_kept].buf);
	world_close();
}

static void without_a_callback_data_is_dropped(void)
{
	static uint8_t data[1 << 20];
	struct xlio_poll_group_attr attr = world_attr(0);
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	attr.socket_rx_cb = NULL;
	EXPECT_EQ(xlio_poll_group_update(w->server, &attr), 0);
	for (int i = 0; i < 40; i++)
		end_send(c, data, sizeof(data), FLUSH);
	UNTIL(c->n_comps == 40);
	EXPECT_EQ(s->received, 0);
	world_close();
}

static bool echo(struct end *e, void *data, size_t len, struct xlio_buf *buf)
{
	(void)buf;
	if (e->is_accepted)
		end_send(e, data, len, FLUSH | INLINE);
	return false;
}

static void many_connections_at_once(void)
{
	enum { N = 200 };
	static uint8_t data[N][1000];
	struct end *c[N], *s;

	world_open(0);
	for (int i = 0; i < N; i++) {
		pair(&c[i], &s);
		c[i]->key = (uint64_t)i + 1;
	}
	w->on_rx = echo;
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < N; i++) {
			stream_fill(data[i], (uint64_t)i + 1,
				    (uint64_t)round * 1000, 1000);
			end_send(c[i], data[i], 1000, FLUSH);
		}
		for (int i = 0; i < N; i++)
			UNTIL(c[i]->received == (size_t)(round + 1) * 1000 &&
			      c[i]->n_comps == c[i]->n_ops);
	}
	world_close();
}

static void over_ipv6(void)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6,
				    .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct xlio_poll_group_attr attr = world_attr(0);
	struct end *c, *s;

	world_open_with(&attr, &attr);
	w->listening = end_new(w->server, AF_INET6);
	w->listener = w->listening->sock;
	if (xlio_socket_bind(w->listener, (void *)&in6, sizeof(in6)) < 0) {
		world_close(); /* this machine has none */
		return;
	}
	EXPECT_EQ(xlio_socket_listen(w->listener), 0);
	w->addr_len = sizeof(w->addr);
	EXPECT_EQ(xlio_socket_getsockname(w->listener, (void *)&w->addr,
					  &w->addr_len),
		  0);
	pair(&c, &s);
	end_send(c, "six", 3, FLUSH);
	UNTIL(s->received == 3);
	world_close();
}

#define T(name)                                                                \
	{                                                                      \
#name, name                                                    \
	}
const struct test tests_data[] = {
	T(an_accepted_socket_is_told_of_before_its_data),
	T(bytes_arrive_in_order_whatever_their_sizes),
	T(vectors_are_one_operation),
	T(nothing_leaves_before_it_is_flushed),
	T(a_group_that_keeps_no_list_is_not_flushed),
	T(inline_data_may_be_overwritten_at_once),
	T(operations_without_bytes_or_userdata),
	T(the_same_userdata_completes_as_often_as_it_was_given),
	T(sixteen_thousand_sends_are_under_way_at_once),
	T(nothing_is_sent_in_part),
	T(streams_both_ways_from_completions),
	T(buffers_come_back_in_any_order),
	T(buffers_outlive_their_socket),
	T(wrong_buffers_are_refused),
	T(a_message_larger_than_what_is_held_can_arrive),
	T(without_a_callback_data_is_dropped),
	T(many_connections_at_once),
	T(over_ipv6),
	{ 0 },
};
