/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/tcp_buffers.c - buffers that grow with the path, and what small segments cost
 */
#include "tcp_kit.h"
#include "tcp/rcv.h"
#include "tcp/snd.h"

#define ROUND (50 * NS_PER_MS)

static struct kit k;
static struct tcp_conn *c;
static struct kit_frame f;
static seq32 edge; /* of the window that the stack has advertised */

static void open_one(const struct tcp_config *cfg)
{
	kit_init(&k, cfg);
	k.tsval = 1;
	c = kit_connect(&k);
	kit_wait(&k, ROUND);
	kit_in(&k, TCP_SYN | TCP_ACK, NULL, 0);
	assert_true(kit_out(&k, &f));
	edge = seq_add(f.seg.ack, (uint32_t)f.seg.wnd << c->rcv_wscale);
}

static void close_one(void) { kit_close_one(&k, c); }

static void read_all(void)
{
	const uint8_t *data;
	ssize_t n;

	while ((n = tcp_peek(c, &data)) > 0)
		tcp_consume(c, (uint32_t)n, k.now);
}

static void acks_out(void)
{
	while (kit_out(&k, &f))
		edge = seq_add(f.seg.ack, (uint32_t)f.seg.wnd << c->rcv_wscale);
}

/* A round trip in which the peer sends all that it may, up to @max bytes. */
static uint32_t round_trip(uint32_t max)
{
	static const uint8_t bytes[1448];
	uint32_t sent = 0, tsecr = k.tsecr;
	seq32 until = edge;

	kit_wait(&k, ROUND);
	k.tsval += ROUND / NS_PER_MS;
	while (sent < max) {
		uint32_t len = MIN(seq_len(k.seq, until), max - sent);

		len = MIN(len, (uint32_t)sizeof(bytes));
		if (!len)
			break;
		k.tsecr = tsecr;
		kit_in(&k, TCP_ACK, bytes, len);
		sent += len;
		read_all();
		acks_out();
	}
	return sent;
}

static void a_window_that_is_used_up_grows(void **state)
{
	struct tcp_config cfg = kit_config(false);
	uint32_t last = 0;

	cfg.rcv_buf = 1 << 16;
	cfg.rcv_buf_max = 4 << 20;
	open_one(&cfg);
	for (int i = 0; i < 12; i++)
		last = round_trip(UINT32_MAX);
	assert_true(last > 3u << 20);
	assert_true(c->rcv_buf <= 4u << 20);
	close_one();
}

static void a_window_that_is_not_used_stays(void **state)
{
	struct tcp_config cfg = kit_config(false);

	cfg.rcv_buf = 1 << 16;
	cfg.rcv_buf_max = 4 << 20;
	open_one(&cfg);
	for (int i = 0; i < 50; i++)
		assert_int_equal(round_trip(10000), 10000);
	assert_int_equal(c->rcv_buf, 1 << 16);
	close_one();
}

static void what_the_program_has_set_stays(void **state)
{
	struct tcp_config cfg = kit_config(false);

	cfg.rcv_buf = 1 << 16;
	cfg.rcv_buf_max = 4 << 20;
	open_one(&cfg);
	tcp_set_rcv_buf(c, 100000);
	for (int i = 0; i < 12; i++)
		assert_true(round_trip(UINT32_MAX) <= 100000);
	assert_int_equal(c->rcv_buf, 100000);
	close_one();
}

/* RFC 9293 section 3.8.6.2.2 shall not cost memory that nobody needs. */
static void a_buffer_that_suffices_stays(void **state)
{
	struct tcp_config cfg = kit_config(false);

	cfg.rcv_buf_max = 1 << 22;
	open_one(&cfg);
	uint32_t space = c->rcv_space;
	for (int i = 0; i < 4; i++)
		assert_int_equal(round_trip(space + 100), space + 100);
	assert_int_equal(c->rcv_buf, cfg.rcv_buf);
	close_one();
}

/* As long as nobody knows how long a round trip is. */
static void without_a_round_trip_the_buffer_stays(void **state)
{
	struct tcp_config cfg = kit_config(false);
	static const uint8_t bytes[1448];

	cfg.rcv_buf_max = 1 << 22;
	kit_init(&k, &cfg);
	c = kit_connect(&k);
	kit_wait(&k, 1100 * NS_PER_MS);
	assert_int_equal(kit_drain(&k), 1);
	kit_in(&k, TCP_SYN | TCP_ACK, NULL, 0);
	kit_drain(&k);
	assert_int_equal(c->srtt_8us, 0);
	for (int i = 0; i < 400; i++) {
		kit_wait(&k, NS_PER_MS);
		kit_in(&k, TCP_ACK, bytes, sizeof(bytes));
		read_all();
		acks_out();
	}
	assert_int_equal(c->rcv_buf, cfg.rcv_buf);
	close_one();
}

static void what_was_set_before_the_open_stays(void **state)
{
	struct tcp_config cfg = kit_config(false);

	cfg.rcv_buf_max = 1 << 22;
	kit_init(&k, &cfg);
	k.tsval = 1;
	c = kit_connect(&k);
	tcp_set_rcv_buf(c, 20000);
	kit_wait(&k, ROUND);
	kit_in(&k, TCP_SYN | TCP_ACK, NULL, 0);
	assert_true(kit_out(&k, &f));
	assert_int_equal(c->rcv_buf, 20000);
	edge = seq_add(f.seg.ack, (uint32_t)f.seg.wnd << c->rcv_wscale);
	for (int i = 0; i < 4; i++)
		round_trip(1 << 20);
	assert_int_equal(c->rcv_buf, 20000);
	assert_true(seq_len(k.seq, edge) <= 20000);
	close_one();
}

static void the_send_buffer_follows_cwnd(void **state)
{
	static uint8_t bytes[1 << 20];
	struct tcp_config cfg = kit_config(false);

	cfg.snd_buf = 1 << 15;
	cfg.snd_buf_max = 1 << 19;
	open_one(&cfg);
	assert_int_equal(tcp_send(c, bytes, sizeof(bytes), k.now), 1 << 15);
	c->cwnd = 100000;
	assert_int_equal(tcp_send(c, bytes, sizeof(bytes), k.now),
			 200000 - (1 << 15));
	c->cwnd = 1 << 20;
	assert_int_equal(tcp_send(c, bytes, sizeof(bytes), k.now),
			 (1 << 19) - 200000);
	close_one();
}

static void the_send_buffer_may_be_set(void **state)
{
	static uint8_t bytes[1 << 20];
	struct tcp_config cfg = kit_config(false);

	cfg.snd_buf = 1 << 15;
	cfg.snd_buf_max = 1 << 19;
	open_one(&cfg);
	tcp_set_snd_buf(c, 0);
	assert_int_equal(tcp_send(c, bytes, sizeof(bytes), k.now), SND_BUF_MIN);
	assert_false(tcp_poll(c) & TCP_WRITABLE);
	/* Whatever cwnd is, it stays as it was set. */
	c->cwnd = 1 << 20;
	tcp_set_snd_buf(c, 50000);
	assert_true(tcp_poll(c) & TCP_WRITABLE);
	assert_int_equal(tcp_send(c, bytes, sizeof(bytes), k.now),
			 50000 - SND_BUF_MIN);
	/* What is there stays when it becomes smaller. */
	tcp_set_snd_buf(c, 10000);
	assert_int_equal(tcp_send(c, bytes, 1, k.now), -EAGAIN);
	acks_out();
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(tcp_unacked_bytes(c), 0);
	assert_int_equal(tcp_send(c, bytes, sizeof(bytes), k.now), 10000);
	tcp_set_snd_buf(c, UINT32_MAX);
	assert_int_equal(snd_space(c), (1u << 30) - 10000);
	close_one();
}

/* RFC 9293 section 3.8.6: what was promised before stays promised. */
static void a_clamp_holds_the_window_from_then_on(void **state)
{
	static const uint8_t bytes[1000];
	struct tcp_config cfg = kit_config(false);
	seq32 before;

	open_one(&cfg);
	before = edge;
	tcp_set_window_clamp(c, 5000);
	for (int i = 0; i < 100; i++) {
		kit_in(&k, TCP_ACK, bytes, sizeof(bytes));
		read_all();
		acks_out();
		assert_true(seq_le(before, edge));
		before = edge;
	}
	assert_true(seq_len(c->rcv_nxt, c->rcv_adv) <= 5000);
	assert_true(seq_len(c->rcv_nxt, c->rcv_adv) > 3000);
	tcp_set_window_clamp(c, 1);
	for (int i = 0; i < 20; i++) {
		kit_in(&k, TCP_ACK, bytes, 500);
		read_all();
		acks_out();
	}
	assert_true(seq_len(c->rcv_nxt, c->rcv_adv) <= RCV_BUF_MIN);
	tcp_set_window_clamp(c, 0);
	kit_in(&k, TCP_ACK, bytes, 500);
	read_all();
	acks_out();
	assert_true(seq_len(c->rcv_nxt, c->rcv_adv) > 60000);
	close_one();
}

/* RFC 9293 section 3.8.6.2.2: what is less than a segment moves the edge, too, if no more
 * is ever free; and what the scale cannot express is no window for ever. */
static void a_small_window_never_stays_shut(void **state)
{
	static const uint32_t scales[] = { 1 << 16, 32 << 20, 1 << 30 };

	for (unsigned i = 0; i < 2 * ARRAY_LEN(scales); i++) {
		struct tcp_config cfg = kit_config(false);

		cfg.rcv_buf_max = scales[i / 2];
		open_one(&cfg);
		if (i % 2)
			tcp_set_window_clamp(c, 1);
		else
			tcp_set_rcv_buf(c, 1);
		for (int n = 0; n < 200; n++) {
			assert_true(round_trip(UINT32_MAX));
			acks_out();
		}
		for (int n = 0; n < 2000; n++) {
			assert_int_equal(round_trip(100), 100);
			acks_out();
		}
		assert_true(seq_len(c->rcv_nxt, edge) <= 32768);
		close_one();
	}
}

/* Linux: who waits for more than fits would wait for ever. */
static void a_low_mark_gives_way_to_a_full_window(void **state)
{
	static const uint8_t bytes[1000];
	struct tcp_config cfg = kit_config(false);

	open_one(&cfg);
	tcp_set_rcv_lowat(c, 30000);
	tcp_set_rcv_buf(c, 4096);
	round_trip(UINT32_MAX);
	acks_out();
	kit_in(&k, TCP_ACK, bytes, 100);
	acks_out();
	assert_false(tcp_poll(c) & TCP_READABLE);
	while (seq_lt(k.seq, edge)) {
		uint32_t n = MIN(seq_len(k.seq, edge), sizeof(bytes));

		kit_in(&k, TCP_ACK, bytes, n);
		acks_out();
	}
	assert_true(tcp_readable_bytes(c) < 5000);
	assert_true(tcp_poll(c) & TCP_READABLE);
	close_one();
}

/* TCP_NOTSENT_LOWAT: as much waits, and who waits for room hears of it when it is sent. */
static void a_low_mark_bounds_what_waits(void **state)
{
	static uint8_t bytes[100000];
	struct tcp_config cfg = kit_config(false);
	struct tcp_lent z;

	open_one(&cfg);
	tcp_set_notsent_lowat(c, 4000);
	uint32_t now = conn_sendable(c);
	assert_int_equal(now, 10u * c->mss);
	assert_int_equal(tcp_send(c, bytes, sizeof(bytes), k.now), now + 4000);
	assert_int_equal(tcp_send(c, bytes, 1, k.now), -EAGAIN);
	assert_int_equal(tcp_send_lent(c, &z, bytes, 1, k.now), -EAGAIN);
	assert_false(tcp_poll(c) & TCP_WRITABLE);
	assert_int_equal(kit_drain(&k), 10);
	assert_false(tcp_poll(c) & TCP_WRITABLE);
	kit_in(&k, TCP_ACK, NULL, 0);
	while (tcp_next_ready(k.s))
		;
	assert_int_equal(kit_drain(&k), 3);
	assert_ptr_equal(tcp_next_ready(k.s), c);
	assert_true(tcp_poll(c) & TCP_WRITABLE);
	/* A piece that is lent goes in whole, or poll() would have lied. */
	assert_int_equal(tcp_send_lent(c, &z, bytes, sizeof(bytes), k.now), 0);
	assert_int_equal(tcp_send(c, bytes, 1, k.now), -EAGAIN);
	/* Without the mark there is the buffer alone. */
	tcp_set_notsent_lowat(c, 0);
	assert_int_equal(tcp_send(c, bytes, sizeof(bytes), k.now),
			 sizeof(bytes));
	tcp_abort(c, k.now);
	kit_drain(&k);
	assert_ptr_equal(tcp_next_returned(k.s), &z);
	kit_fini(&k);
}

/* Of an open by us, and of one by the peer. */
static void what_a_syn_has_promised_stays(void **state)
{
	struct tcp_config cfg = kit_config(false);

	cfg.rcv_buf_max = 1u << 24;
	kit_init(&k, &cfg);
	assert_int_equal(tcp_connect(k.s, &k.me, KIT_PORT, &k.peer,
				     KIT_PEER_PORT, k.now, &c),
			 0);
	tcp_set_rcv_buf(c, 20000);
	kit_expect(&k, &f, TCP_SYN);
	assert_int_equal(f.seg.wscale, 0);
	assert_int_equal(f.seg.wnd, 13 * 1460);
	tcp_set_rcv_buf(c, 1u << 20);
	kit_in(&k, TCP_SYN | TCP_ACK, NULL, 0);
	assert_int_equal(c->rcv_wscale, 0);
	assert_int_equal(kit_drain(&k), 1);
	tcp_abort(c, k.now);
	kit_drain(&k);

	k.rport++;
	k.seq = (seq32){ KIT_PEER_ISS };
	assert_int_equal(tcp_listen(k.s, NULL, KIT_PORT, 8, &k.listener), 0);
	tcp_set_listen_rcv_buf(k.listener, 100000);
	kit_in(&k, TCP_SYN, NULL, 0);
	kit_expect(&k, &f, TCP_SYN | TCP_ACK);
	assert_int_equal(f.seg.wscale, 1);
	assert_int_equal(f.seg.wnd, 65535);
	tcp_set_listen_rcv_buf(k.listener, 3000);
	kit_in(&k, TCP_ACK, NULL, 0);
	c = tcp_accept(k.listener);
	assert_non_null(c);
	assert_int_equal(c->rcv_wscale, 1);
	assert_int_equal(seq_len(c->rcv_nxt, c->rcv_adv), 65535);
	assert_int_equal(c->rcv_buf, 3000);
	close_one();
}

/* The peer's SYN is there before ours could leave. */
static void a_syn_that_never_left_promises_in_its_answer(void **state)
{
	struct tcp_config cfg = kit_config(false);

	kit_init(&k, &cfg);
	assert_int_equal(tcp_connect(k.s, &k.me, KIT_PORT, &k.peer,
				     KIT_PEER_PORT, k.now, &c),
			 0);
	kit_in(&k, TCP_SYN, NULL, 0);
	tcp_set_rcv_buf(c, 3000);
	kit_expect(&k, &f, TCP_SYN | TCP_ACK);
	assert_int_equal(f.seg.wnd, 44 * 1460);
	assert_int_equal(seq_len(c->rcv_nxt, c->rcv_adv), 44 * 1460);
	close_one();
}

/* Memory for a gigabyte is not less than for a kilobyte. */
static void the_largest_buffer_may_be_filled(void **state)
{
	struct tcp_config cfg = kit_config(false);

	cfg.rcv_buf_max = 1u << 30;
	open_one(&cfg);
	tcp_set_rcv_buf(c, UINT32_MAX);
	assert_true(rcv_mem_max(c) > 1u << 30);
	round_trip(1000);
	assert_true(seq_len(c->rcv_nxt, edge) > 1000u << 20);
	close_one();
}

/* Whatever the segments, a look at the bytes is as a read of them. */
static void peeking_gives_all_pieces(void **state)
{
	static uint8_t bytes[64];
	struct tcp_config cfg = kit_config(false);
	const uint8_t *data;
	uint32_t off = 0;
	ssize_t n;

	open_one(&cfg);
	stream_fill(bytes, 0, sizeof(bytes));
	assert_int_equal(tcp_peek_at(c, 0, &data), -EAGAIN);
	assert_int_equal(tcp_peek_at(c, 1, &data), 0);
	for (uint32_t i = 0; i < 8; i++)
		kit_in(&k, TCP_ACK, bytes + i * 8, 8);
	tcp_peek(c, &data);
	tcp_consume(c, 3, k.now);
	while ((n = tcp_peek_at(c, off, &data)) > 0) {
		assert_int_equal(stream_differs(data, 3 + off, (size_t)n), n);
		off += (uint32_t)n;
	}
	assert_int_equal(n, 0);
	assert_int_equal(off, 61);
	for (off = 0; off < 61; off++) {
		n = tcp_peek_at(c, off, &data);
		assert_true(n > 0);
		assert_int_equal(stream_differs(data, 3 + off, (size_t)n), n);
	}
	assert_int_equal(tcp_peek_at(c, 62, &data), 0);
	assert_int_equal(tcp_peek_at(c, UINT32_MAX, &data), 0);
	assert_int_equal(tcp_readable_bytes(c), 61);
	kit_in(&k, TCP_RST, NULL, 0);
	assert_true(tcp_peek_at(c, 0, &data) > 0);
	tcp_consume(c, 61, k.now);
	assert_int_equal(tcp_peek_at(c, 0, &data), -ECONNRESET);
	assert_int_equal(tcp_peek_at(c, 0, &data), 0);
	close_one();
}

/* Each holds a frame of 2 KB for its byte: all that the window allows were 128 MB. */
static void small_segments_do_not_hold_all_memory(void **state)
{
	struct tcp_config cfg = kit_config(false);
	uint32_t max_held = 0;

	open_one(&cfg);
	for (uint32_t i = 0; i < 60000; i++) {
		uint8_t byte = stream_byte(seq_len(c->irs, k.seq) - 1);
		seq32 want = c->rcv_nxt;

		kit_in(&k, TCP_ACK, &byte, 1);
		/* What was dropped comes again. */
		if (seq_eq(c->rcv_nxt, want))
			k.seq = want;
		acks_out();
		uint32_t held =
		    (k.rx.n - k.rx.n_free) * k.rx.size +
		    (k.s->pool_extents.n - k.s->pool_extents.n_free) *
			k.s->pool_extents.size;
		max_held = held > max_held ? held : max_held;
	}
	assert_true(max_held <= rcv_mem_max(c));
	uint32_t off = 0;
	const uint8_t *data;
	ssize_t n;
	while ((n = tcp_peek(c, &data)) > 0) {
		assert_int_equal(stream_differs(data, off, (size_t)n), n);
		off += (uint32_t)n;
		tcp_consume(c, (uint32_t)n, k.now);
	}
	/* Most of them fitted, because they were copied together. */
	assert_true(off > 50000);
	close_one();
}

/* Where there is nothing to copy into, they are dropped, and the window stays. */
static void without_memory_to_copy_they_wait(void **state)
{
	struct tcp_config cfg = kit_config(false);
	seq32 last;

	cfg.n_extents = 1;
	open_one(&cfg);
	struct extent *all = extent_new(&k.s->pool_extents);
	for (uint32_t i = 0; i < 2000; i++) {
		seq32 want = c->rcv_nxt;

		kit_in(&k, TCP_ACK, "x", 1);
		k.seq = seq_eq(c->rcv_nxt, want) ? want : k.seq;
		acks_out();
	}
	assert_true(tcp_dropped(k.s, DROP_RCV_MEMORY) > 100);
	assert_true((k.rx.n - k.rx.n_free) * k.rx.size <= rcv_mem_max(c));
	last = c->rcv_nxt;
	read_all();
	acks_out();
	kit_in(&k, TCP_ACK, "x", 1);
	assert_int_equal(seq_len(last, c->rcv_nxt), 1);
	extent_put(all);
	close_one();
}

/* Two stacks without a piece left were each deaf to what the other waited for. */
static void without_pieces_what_is_next_still_gets_in(void **state)
{
	struct tcp_config cfg = kit_config(false);
	struct list taken;
	struct range *r;
	seq32 next;

	open_one(&cfg);
	next = k.seq;
	k.seq = seq_add(next, 100);
	for (unsigned i = 0; i < 10; i++, k.seq = seq_add(k.seq, 100))
		kit_in(&k, TCP_ACK, "later", 5);
	assert_int_equal(c->n_ooo, 10);
	acks_out();
	list_init(&taken);
	while ((r = pool_get(&k.s->pool_ranges)))
		list_add_tail(&taken, &r->link);
	k.seq = next;
	kit_in(&k, TCP_ACK, "next", 4);
	assert_int_equal(seq_len(next, c->rcv_nxt), 4);
	assert_int_equal(c->n_ooo, 0);
	read_all();
	while (!list_is_empty(&taken)) {
		r = container_of(taken.next, struct range, link);
		list_del(&r->link);
		pool_put(&k.s->pool_ranges, r);
	}
	close_one();
}

/* What the peer says from the edge of a closed window counts; and when there is room, it
 * is told, unasked. */
static void a_full_buffer_takes_acks_and_says_when_it_is_read(void **state)
{
	static const uint8_t bytes[1448];
	struct tcp_config cfg = kit_config(false);

	cfg.rcv_buf = 8 * sizeof(bytes);
	open_one(&cfg);
	while (seq_lt(k.seq, edge)) {
		uint32_t left = seq_len(k.seq, edge);

		kit_in(&k, TCP_ACK, bytes, MIN(left, (uint32_t)sizeof(bytes)));
		acks_out();
	}
	assert_int_equal(f.seg.wnd, 0);
	kit_write(&k, c, 1000);
	assert_true(kit_out(&k, &f));
	assert_int_equal(f.seg.wnd, 0);
	assert_int_equal(tcp_unacked_bytes(c), 1000);
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(tcp_unacked_bytes(c), 0);
	read_all();
	assert_true(kit_out(&k, &f));
	assert_true(f.seg.wnd > 0);
	close_one();
}

/* What four times a gigabyte is did not fit its number: the largest buffer was one of
 * 256 KB. */
static void the_largest_buffer_is_a_gigabyte(void **state)
{
	struct tcp_config cfg = kit_config(false);

	cfg.rcv_buf = 1u << 30;
	open_one(&cfg);
	acks_out();
	kit_in(&k, TCP_ACK, "a", 1);
	acks_out();
	assert_in_range(seq_len(c->rcv_nxt, c->rcv_adv), 1000000000, 1u << 30);
	close_one();
	cfg.rcv_buf = 1u << 16;
	cfg.rcv_buf_max = 1u << 30;
	open_one(&cfg);
	tcp_set_rcv_buf(c, UINT32_MAX);
	assert_int_equal(c->rcv_buf, 1u << 30);
	kit_in(&k, TCP_ACK, "a", 1);
	acks_out();
	assert_in_range(seq_len(c->rcv_nxt, c->rcv_adv), 1000000000, 1u << 30);
	close_one();
}

/* --- the limit of all connections --- */

#define BUDGET (200u << 10)

/* Peers that send crumbs behind a hole, as many as they may, and one that does not:
 * all together hold what the stack may, and the one gets its bytes. */
static void hostile_peers_leave_memory_for_others(void **state)
{
	static uint8_t bytes[1000];
	struct tcp_config cfg = kit_config(false);
	struct tcp_conn *honest;
	uint32_t max = 0;

	cfg.n_conns = 32;
	cfg.n_reqsks = 32;
	cfg.n_ranges = 1 << 15;
	cfg.rcv_mem = BUDGET;
	kit_init(&k, &cfg);
	for (uint16_t i = 0; i < 20; i++) {
		k.rport = (uint16_t)(KIT_PEER_PORT + i);
		c = kit_accepted(&k);
		seq32 hole = k.seq;
		for (uint32_t n = 0; n < 500; n++) {
			k.seq = seq_add(hole, 10 + 20 * n);
			kit_in(&k, TCP_ACK, bytes, 1);
			max = k.s->rcv_mem > max ? (uint32_t)k.s->rcv_mem : max;
		}
		kit_drain(&k);
	}
	assert_true(max > BUDGET / 2);
	assert_true(max <= BUDGET);
	assert_true((k.rx.n - k.rx.n_free) * k.rx.size <= BUDGET);
	k.rport = (uint16_t)(KIT_PEER_PORT + 100);
	honest = c = kit_accepted(&k);
	for (uint32_t i = 0; i < 200; i++) {
		kit_in(&k, TCP_ACK, bytes, sizeof(bytes));
		assert_true(seq_eq(c->rcv_nxt, k.seq));
		read_all();
		kit_drain(&k);
	}
	/* It lost one, and what came behind it waits. */
	seq32 lost = k.seq;
	k.seq = seq_add(lost, sizeof(bytes));
	kit_in(&k, TCP_ACK, bytes, sizeof(bytes));
	k.seq = lost;
	kit_in(&k, TCP_ACK, bytes, sizeof(bytes));
	assert_int_equal(seq_len(lost, honest->rcv_nxt), 2 * sizeof(bytes));
	kit_fini(&k);
}

/* A peer whose program reads nothing: what is promised is kept or dropped, never more
 * held than there is; and the next bytes of one that holds none are taken. */
static void without_a_budget_one_frame_is_taken(void **state)
{
	static uint8_t bytes[1000];
	struct tcp_config cfg = kit_config(false);

	cfg.rcv_mem = 1;
	kit_init(&k, &cfg);
	c = kit_accepted(&k);
	for (uint32_t i = 0; i < 20; i++) {
		kit_in(&k, TCP_ACK, bytes, sizeof(bytes));
		assert_true(seq_eq(c->rcv_nxt, k.seq));
		kit_in(&k, TCP_ACK, bytes, sizeof(bytes));
		assert_false(seq_eq(c->rcv_nxt, k.seq));
		k.seq = c->rcv_nxt;
		read_all();
		kit_drain(&k);
	}
	assert_int_equal(k.s->rcv_mem, 0);
	kit_fini(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_window_that_is_used_up_grows),
		cmocka_unit_test(a_window_that_is_not_used_stays),
		cmocka_unit_test(what_the_program_has_set_stays),
		cmocka_unit_test(a_buffer_that_suffices_stays),
		cmocka_unit_test(without_a_round_trip_the_buffer_stays),
		cmocka_unit_test(what_was_set_before_the_open_stays),
		cmocka_unit_test(the_send_buffer_follows_cwnd),
		cmocka_unit_test(
		    a_full_buffer_takes_acks_and_says_when_it_is_read),
		cmocka_unit_test(the_send_buffer_may_be_set),
		cmocka_unit_test(the_largest_buffer_is_a_gigabyte),
		cmocka_unit_test(a_clamp_holds_the_window_from_then_on),
		cmocka_unit_test(a_small_window_never_stays_shut),
		cmocka_unit_test(a_low_mark_gives_way_to_a_full_window),
		cmocka_unit_test(a_low_mark_bounds_what_waits),
		cmocka_unit_test(what_a_syn_has_promised_stays),
		cmocka_unit_test(a_syn_that_never_left_promises_in_its_answer),
		cmocka_unit_test(the_largest_buffer_may_be_filled),
		cmocka_unit_test(peeking_gives_all_pieces),
		cmocka_unit_test(small_segments_do_not_hold_all_memory),
		cmocka_unit_test(without_memory_to_copy_they_wait),
		cmocka_unit_test(without_pieces_what_is_next_still_gets_in),
		cmocka_unit_test(hostile_peers_leave_memory_for_others),
		cmocka_unit_test(without_a_budget_one_frame_is_taken),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
