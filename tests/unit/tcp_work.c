/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/tcp_work.c - no call costs more than a few ranges, whatever the peer does
 *
 * A peer with the smallest MSS lets many thousand ranges be in flight, tells of them what
 * costs the sender most, and the ranges are counted that each call touches (tcp_most_work()),
 * never the time.
 */
#include "tcp_kit.h"

#define FLIGHT (1u << 20)
#define MSS 48u

struct sender {
	struct kit k;
	struct tcp_conn *c;
	seq32 una;
	uint32_t mss, n_ranges;
};

static const uint8_t text[1 << 16];

/* Without conn_check(), which looks at all ranges. */
static void in(struct kit *k, struct tcp_seg *seg)
{
	uint8_t buf[TCP_HEAD_MAX];
	uint32_t head = tcp_head_build(buf, seg);
	struct extent *e = extent_new(&k->rx);

	assert_non_null(e);
	uint32_t ip = ip_build(e->data, &k->peer, &k->me, IP_PROTO_TCP, 0,
			       head + seg->len);
	memcpy(e->data + ip, buf, head);
	tcp_rx(k->s, e, 0, ip + head + seg->len, TCP_RX_SUM_GOOD, k->now);
	extent_put(e);
	assert_in_range(tcp_most_work(k->s), 0, TCP_WORK_MAX);
}

static struct tcp_seg ack_of(struct sender *s, seq32 ack)
{
	struct tcp_seg seg = kit_seg(&s->k, TCP_ACK);

	seg.ack = ack;
	seg.wnd = UINT16_MAX;
	return seg;
}

static void ack(struct sender *s, seq32 at)
{
	struct tcp_seg seg = ack_of(s, at);

	in(&s->k, &seg);
}

static void sack(struct sender *s, uint32_t from, uint32_t to)
{
	struct tcp_seg seg = ack_of(s, s->una);

	seg.n_sacks = 1;
	seg.sacks[0] =
	    (struct tcp_sack){ seq_add(s->una, from), seq_add(s->una, to) };
	in(&s->k, &seg);
}

static unsigned drain(struct sender *s)
{
	struct tcp_frame f;
	struct tcp_seg seg;
	unsigned n = 0;

	for (; tcp_tx(s->k.s, &f, s->k.now); n++) {
		int err = tcp_head_parse(
		    f.head + f.ip_len, (uint32_t)(f.head_len - f.ip_len), &seg);

		assert_int_equal(err, 0);
		s->k.tsecr = seg.tsval;
		tcp_frame_done(&f);
		assert_in_range(tcp_most_work(s->k.s), 0, TCP_WORK_MAX);
	}
	return n;
}

static void timers(struct sender *s, uint64_t pause_ns)
{
	s->k.now += pause_ns;
	s->k.tsval += (uint32_t)(pause_ns / NS_PER_MS);
	tcp_timers(s->k.s, s->k.now);
	assert_in_range(tcp_most_work(s->k.s), 0, TCP_WORK_MAX);
}

static void fill(struct sender *s)
{
	while (tcp_send(s->c, text, sizeof(text), s->k.now) > 0)
		;
	assert_in_range(tcp_most_work(s->k.s), 0, TCP_WORK_MAX);
}

/* All of the send buffer is in flight, in ranges of one segment each. */
static void sender_begin_as(struct sender *s, uint32_t gso, uint32_t piece)
{
	struct tcp_config cfg = kit_config(false);

	if (piece)
		cfg.extent_bytes = piece;
	cfg.snd_buf = FLIGHT;
	cfg.rcv_buf = FLIGHT;
	cfg.n_ranges = 1u << 17;
	cfg.n_extents = FLIGHT / cfg.extent_bytes * 2 + 64;
	cfg.gso_max = gso;
	kit_init(&s->k, &cfg);
	s->k.tsval = 1000;
	int err = tcp_listen(s->k.s, NULL, KIT_PORT, 8, &s->k.listener);
	assert_int_equal(err, 0);
	struct tcp_seg syn = kit_seg(&s->k, TCP_SYN);
	struct kit_frame f;

	syn.mss = MSS;
	syn.is_sack_ok = true;
	syn.wscale = TCP_WSCALE_MAX;
	s->k.seq = seq_add(s->k.seq, 1);
	in(&s->k, &syn);
	assert_true(kit_out(&s->k, &f));
	timers(s, 10 * NS_PER_MS);
	ack(s, s->k.ack);
	s->c = tcp_accept(s->k.listener);
	assert_non_null(s->c);
	s->c->cwnd = 2 * FLIGHT;
	fill(s);
	drain(s);
	timers(s, 10 * NS_PER_MS);
	s->una = s->c->snd_una;
	s->mss = s->c->mss;
	s->n_ranges = 0;
	for (const struct range *r = s->c->sent.head; r; r = r->next)
		s->n_ranges++;
	assert_int_equal(seq_len(s->una, s->c->snd_nxt), FLIGHT);
}

static void sender_begin(struct sender *s, uint32_t gso)
{
	sender_begin_as(s, gso, 0);
}

static void sender_end(struct sender *s)
{
	conn_check(s->c);
	s->k.seq = s->c->rcv_nxt;
	tcp_abort(s->c, s->k.now);
	drain(s);
	kit_fini(&s->k);
}

static void time_out(struct sender *s)
{
	while (s->c->ca_state != CA_LOSS) {
		uint64_t at = tcp_next_ns(s->k.s);

		timers(s, at > s->k.now ? at - s->k.now : 1);
		if (s->c->ca_state != CA_LOSS)
			drain(s);
	}
}

/* RFC 6298 section 5, RFC 3522 */
static void a_time_out_and_its_end_cost_little(void **state)
{
	struct sender s;

	sender_begin(&s, 1);
	assert_in_range(s.n_ranges, 20000, 100000);
	uint32_t echo = s.k.tsecr;
	time_out(&s);
	assert_int_equal(s.c->lost_bytes, FLIGHT);
	conn_check(s.c);
	drain(&s);
	timers(&s, 2 * NS_PER_MS);
	s.k.tsecr = echo;
	ack(&s, seq_add(s.una, s.mss));
	assert_int_equal(s.c->ca_state, CA_OPEN);
	assert_int_equal(s.c->lost_bytes, 0);
	sender_end(&s);
}

/* RFC 8985, RFC 3522 */
static void every_second_range_lost_and_not_lost_costs_little(void **state)
{
	struct sender s;

	sender_begin(&s, 1);
	for (uint32_t at = s.mss; at + s.mss <= FLIGHT; at += 2 * s.mss)
		sack(&s, at, at + s.mss);
	uint32_t echo = s.k.tsecr;
	timers(&s, 5 * NS_PER_MS);
	drain(&s);
	assert_in_range(s.c->lost_bytes + s.c->again_out, FLIGHT / 4, FLIGHT);
	conn_check(s.c);
	time_out(&s);
	drain(&s);
	timers(&s, 3 * NS_PER_MS);
	for (uint32_t i = 1; i < 6; i++) {
		s.k.tsecr = echo;
		ack(&s, seq_add(s.una, s.mss + i - 1));
		timers(&s, 3 * NS_PER_MS);
		drain(&s);
	}
	conn_check(s.c);
	sender_end(&s);
}

/* RFC 8985 section 6.2 */
static void all_lost_at_once_is_marked_bit_by_bit(void **state)
{
	struct sender s;
	uint32_t last = FLIGHT - FLIGHT % MSS, before;

	sender_begin(&s, 1);
	last = FLIGHT / s.mss * s.mss;
	for (uint32_t i = 0; i < 3 * s.n_ranges / (WORK_SACK - 2); i++)
		sack(&s, last - 4 * s.mss, last);
	assert_int_equal(s.c->sacked_bytes, 4 * s.mss);
	/* The timer goes on without ACKs, and drain() is the only sender. */
	for (uint32_t i = 0; i < s.n_ranges / 8; i++) {
		before = s.c->lost_bytes;
		timers(&s, NS_PER_MS);
		if (before == s.c->lost_bytes)
			break;
	}
	assert_in_range(s.c->lost_bytes, FLIGHT - 8 * s.mss, FLIGHT);
	conn_check(s.c);
	time_out(&s);
	sender_end(&s);
}

/* RFC 2018 section 3 */
static void blocks_anywhere_cost_little(void **state)
{
	struct sender s;
	uint32_t random = 1;

	sender_begin(&s, 65000);
	for (unsigned i = 0; i < 5000; i++) {
		struct tcp_seg seg = ack_of(&s, s.una);

		seg.n_sacks = 3;
		for (unsigned j = 0; j < 3; j++) {
			random = random * 1664525 + 1013904223;
			uint32_t at = (random >> 8) % (FLIGHT - 2 * s.mss);

			seg.sacks[j].from = seq_add(s.una, at - at % s.mss);
			seg.sacks[j].to = seq_add(seg.sacks[j].from, s.mss);
		}
		in(&s.k, &seg);
		if (i % 16 == 0)
			drain(&s);
	}
	assert_in_range(s.c->sacked_bytes, 100 * s.mss, FLIGHT);
	conn_check(s.c);
	time_out(&s);
	conn_check(s.c);
	while (s.c->ca_state == CA_LOSS && s.c->lost_bytes)
		if (!drain(&s))
			ack(&s, seq_add(s.c->snd_una, s.mss));
	sender_end(&s);
}

/* RFC 2018 section 8 */
static void a_peer_that_forgets_much_costs_little(void **state)
{
	struct sender s;

	sender_begin(&s, 1);
	for (uint32_t at = 0; at + s.mss <= FLIGHT; at += 2 * s.mss)
		sack(&s, at, at + s.mss);
	for (unsigned i = 0; i < 3; i++) {
		while (!s.c->lost_bytes || s.c->sent.head->flags & RANGE_SACKED)
			time_out(&s), drain(&s), s.c->ca_state = CA_OPEN;
		conn_check(s.c);
		ack(&s, seq_add(s.c->snd_una, s.mss));
	}
	sender_end(&s);
}

/* RFC 2018 section 8: the peer forgets all of a flight that it has SACKed, which is one range
 * by then.  New bytes follow that range, and to find them costs little. */
static void new_bytes_behind_what_a_peer_forgets_cost_little(void **state)
{
	struct sender s;

	sender_begin_as(&s, 1, 256);
	while (s.c->sent.head->next)
		sack(&s, 0, FLIGHT);
	assert_int_equal(s.c->sacked_bytes, FLIGHT);
	time_out(&s);
	conn_check(s.c);
	tcp_set_snd_buf(s.c, 2 * FLIGHT);
	fill(&s);
	/* F-RTO: the first segment again, and after its ACK new ones. */
	drain(&s);
	timers(&s, 2 * NS_PER_MS);
	seq32 before = s.c->snd_nxt;
	for (unsigned i = 1; i < 100; i++) {
		ack(&s, seq_add(s.una, i * s.mss));
		drain(&s);
	}
	conn_check(s.c);
	ack(&s, before);
	drain(&s);
	assert_true(seq_lt(before, s.c->snd_nxt));
	sender_end(&s);
}

/* RFC 2018 section 4: a byte at a time, with holes; then all of them at once. */
static void many_runs_out_of_order_cost_little(void **state)
{
	struct sender s;

	sender_begin(&s, 1);
	drain(&s);
	for (uint32_t i = 0; i < 6000; i++) {
		struct tcp_seg seg = ack_of(&s, s.una);
		uint32_t at = i < OOO_MAX ? i * 769 % OOO_MAX : i % OOO_MAX;

		seg.seq = seq_add(s.c->rcv_nxt, 2 + 2 * at);
		seg.len = 1;
		in(&s.k, &seg);
		drain(&s);
	}
	assert_int_equal(s.c->n_ooo, OOO_MAX);
	conn_check(s.c);
	struct tcp_seg seg = ack_of(&s, s.una);

	/* A reset from anywhere looks where the last run ends. */
	seg.flags = TCP_RST;
	seg.seq = seq_add(s.c->rcv_nxt, 1);
	in(&s.k, &seg);
	/* Covers more holes than can be filled at once. */
	seg = ack_of(&s, s.una);
	seg.seq = seq_add(s.c->rcv_nxt, 2);
	seg.len = 1000;
	in(&s.k, &seg);
	conn_check(s.c);
	seg.seq = s.c->rcv_nxt;
	in(&s.k, &seg);
	conn_check(s.c);
	sender_end(&s);
}

/* RFC 9293 section 3.10.7.4: what was received behind a hole moves over at once. */
static void a_hole_before_much_costs_little_to_fill(void **state)
{
	struct sender s;

	sender_begin(&s, 1);
	for (uint32_t i = 1; i < 200; i++) {
		struct tcp_seg seg = ack_of(&s, s.una);

		seg.seq = seq_add(s.c->rcv_nxt, 100 * i);
		seg.len = 100;
		in(&s.k, &seg);
	}
	struct tcp_seg seg = ack_of(&s, s.una);

	seg.seq = s.c->rcv_nxt;
	seg.len = 150;
	in(&s.k, &seg);
	assert_int_equal(s.c->rcvq_bytes, 20000);
	conn_check(s.c);
	sender_end(&s);
}

/* What is half open when its listener goes is given up bit by bit; its place is not another's
 * before. */
static void a_listener_that_goes_costs_little(void **state)
{
	struct tcp_config cfg = kit_config(false);
	struct tcp_listener *next;
	static struct kit k;
	const uint32_t n = 300;

	cfg.n_reqsks = n;
	kit_init(&k, &cfg);
	int err = tcp_listen(k.s, NULL, KIT_PORT, n, &k.listener);
	assert_int_equal(err, 0);
	for (uint32_t i = 0; i < n; i++, k.rport++)
		kit_in(&k, TCP_SYN, NULL, 0);
	assert_int_equal(kit_drain(&k), 256); /* that wait to be sent */
	assert_in_range(tcp_most_work(k.s), 0, TCP_WORK_MAX);
	tcp_unlisten(k.listener, k.now);
	assert_in_range(tcp_most_work(k.s), 1, TCP_WORK_MAX);
	assert_in_range(k.listener->n_reqsks, 1, n - 1);
	err = tcp_listen(k.s, NULL, KIT_PORT, n, &next);
	assert_int_equal(err, 0);
	assert_ptr_not_equal(next, k.listener);
	/* The ACK of one that was given up, and a SYN from its port. */
	k.rport--;
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_null(tcp_accept(next));
	kit_in(&k, TCP_SYN, NULL, 0);
	assert_int_equal(next->n_reqsks, 1);
	kit_wait(&k, 2 * NS_PER_S);
	assert_int_equal(k.listener->n_reqsks, 0);
	assert_int_equal(next->n_reqsks, 1);
	kit_drain(&k);
	kit_fini(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_time_out_and_its_end_cost_little),
		cmocka_unit_test(
		    every_second_range_lost_and_not_lost_costs_little),
		cmocka_unit_test(all_lost_at_once_is_marked_bit_by_bit),
		cmocka_unit_test(blocks_anywhere_cost_little),
		cmocka_unit_test(a_peer_that_forgets_much_costs_little),
		cmocka_unit_test(
		    new_bytes_behind_what_a_peer_forgets_cost_little),
		cmocka_unit_test(many_runs_out_of_order_cost_little),
		cmocka_unit_test(a_hole_before_much_costs_little_to_fill),
		cmocka_unit_test(a_listener_that_goes_costs_little),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
