/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/tcp_batch.c - frames that come together, and what they touch
 *
 * Two stacks that are told the same must say the same: one of them is given frames one
 * by one, or has the lines of a connection spoilt that a segment has no business with.
 */
#include "tcp_kit.h"

#define N_CONNS 40u
#define BATCH_MAX 40u
#define N_BATCHES 400

static struct kit kits[2];
static struct tcp_conn *conns[2][N_CONNS];

static struct ip_addr peer_of(uint32_t i) { return ip_addr_v4(0x0a000100 + i); }

static void both_open(uint32_t n)
{
	struct tcp_config cfg = kit_config(false);

	cfg.n_conns = cfg.n_reqsks = 2 * N_CONNS;
	for (unsigned k = 0; k < 2; k++) {
		kit_init(&kits[k], &cfg);
		for (uint32_t i = 0; i < n; i++) {
			kits[k].peer = peer_of(i);
			kits[k].seq = (seq32){ KIT_PEER_ISS };
			conns[k][i] = kit_accepted(&kits[k]);
		}
	}
}

/* What both have to say is the same, to the byte. */
static void both_say_the_same(void)
{
	static struct kit_frame f[2];
	bool is_more;

	do {
		is_more = kit_out(&kits[0], &f[0]);
		assert_int_equal(is_more, kit_out(&kits[1], &f[1]));
		if (!is_more)
			continue;
		assert_int_equal(f[0].head_len, f[1].head_len);
		assert_memory_equal(f[0].head, f[1].head, f[0].head_len);
		assert_int_equal(f[0].len, f[1].len);
		assert_memory_equal(f[0].payload, f[1].payload, f[0].len);
	} while (is_more);
	for (unsigned why = 0; why < DROP_REASONS; why++)
		assert_int_equal(kits[0].s->drops[why], kits[1].s->drops[why]);
	assert_int_equal(tcp_next_ns(kits[0].s), tcp_next_ns(kits[1].s));
}

/* --- batches --- */

/* Any frame, most of them for a connection that is, or was. */
static uint32_t frame_make(struct rng *r, uint8_t *out)
{
	static const uint8_t flags[] = { TCP_ACK,           TCP_ACK,
					 TCP_ACK,           TCP_ACK,
					 TCP_ACK | TCP_PSH, TCP_RST,
					 TCP_ACK | TCP_FIN, TCP_SYN,
					 TCP_RST | TCP_ACK };
	uint32_t i = rng_below(r, N_CONNS + 3);
	struct ip_addr from = peer_of(i);
	const struct tcp_conn *c = i < N_CONNS ? conns[0][i] : NULL;
	struct tcp_seg seg = { .sport = KIT_PEER_PORT,
			       .dport = KIT_PORT,
			       .flags = flags[rng_below(r, sizeof(flags))],
			       .wnd = 1000,
			       .seq = { (uint32_t)rng_next(r) },
			       .wscale = TCP_NO_WSCALE };
	uint32_t len = rng_below(r, 3) ? rng_below(r, 100) : 0, n;

	if (c) {
		seg.seq = c->rcv_nxt;
		seg.ack = c->snd_nxt;
	}
	if (rng_below(r, 20) == 0)
		seg.seq.v += rng_below(r, 200);
	n = tcp_head_build(out + IPV4_HEAD, &seg);
	memset(out + IPV4_HEAD + n, (int)i, len);
	ip_build(out, &from, &kits[0].me,
		 rng_below(r, 30) ? IP_PROTO_TCP : IP_PROTO_ICMP, 0, n + len);
	if (rng_below(r, 30) == 0)
		out[rng_below(r, IPV4_HEAD + n)] ^= 0x10;
	return IPV4_HEAD + n + len;
}

static void batch_give(struct rng *r)
{
	struct tcp_rx_frame f[2][BATCH_MAX];
	uint32_t n = 1 + rng_below(r, BATCH_MAX);

	for (uint32_t i = 0; i < n; i++)
		for (unsigned k = 0; k < 2; k++) {
			struct extent *e = extent_new(&kits[k].rx);

			assert_non_null(e);
			f[k][i] =
			    (struct tcp_rx_frame){ .ext = e,
						   .flags = TCP_RX_SUM_GOOD };
			if (k)
				memcpy(e->data, f[0][i].ext->data, f[0][i].len);
			f[k][i].len = k ? f[0][i].len : frame_make(r, e->data);
		}
	for (uint32_t i = 0; i < n; i++)
		tcp_rx(kits[0].s, f[0][i].ext, f[0][i].off, f[0][i].len,
		       f[0][i].flags, kits[0].now);
	tcp_rx_batch(kits[1].s, f[1], n, kits[1].now);
	for (uint32_t i = 0; i < n; i++)
		for (unsigned k = 0; k < 2; k++)
			extent_put(f[k][i].ext);
}

static void programs_act(struct rng *r)
{
	uint32_t i = rng_below(r, N_CONNS), act = rng_below(r, 12);
	const uint8_t *data;
	ssize_t n;

	for (unsigned k = 0; k < 2 && conns[k][i]; k++) {
		/* Fetching ahead changes nothing. */
		if (k && act % 2)
			tcp_send_soon(kits[k].s, conns[k][i]);
		while ((n = tcp_peek(conns[k][i], &data)) > 0)
			tcp_consume(conns[k][i], (uint32_t)n, kits[k].now);
		if (act < 6)
			tcp_send(conns[k][i], "hello", 5, kits[k].now);
		if (act != 7)
			continue;
		tcp_close(conns[k][i], kits[k].now);
		conns[k][i] = NULL;
	}
}

/* Among them are frames for a connection that one before them has ended. */
static void frames_together_are_as_frames_one_by_one(void **state)
{
	struct rng r = { 7 };

	both_open(N_CONNS);
	both_say_the_same();
	for (unsigned i = 0; i < N_BATCHES; i++) {
		batch_give(&r);
		both_say_the_same();
		programs_act(&r);
		both_say_the_same();
		kit_wait(&kits[0], NS_PER_MS);
		kit_wait(&kits[1], NS_PER_MS);
		for (unsigned k = 0; k < 2; k++)
			while (tcp_next_ready(kits[k].s))
				;
	}
	assert_true(kits[0].s->transitions[TCP_LAST_ACK][TCP_CLOSED] +
			kits[0].s->transitions[TCP_ESTABLISHED][TCP_CLOSED] >
		    10);
	assert_true(kits[0].s->drops[DROP_NO_CONN] > 0);
	kit_fini(&kits[0]);
	kit_fini(&kits[1]);
}

static void no_frames_are_a_batch(void **state)
{
	both_open(1);
	tcp_rx_batch(kits[0].s, NULL, 0, kits[0].now);
	both_say_the_same();
	kit_fini(&kits[0]);
	kit_fini(&kits[1]);
}

/* --- lines --- */

#define SPOILT 0xa5

static uint8_t kept[sizeof(struct tcp_conn)];

static void spoil(struct tcp_conn *c, size_t from)
{
	memcpy(kept, c, sizeof(*c));
	memset((uint8_t *)c + from, SPOILT, sizeof(*c) - from);
}

static void restore(struct tcp_conn *c, size_t from)
{
	const uint8_t *at = (const uint8_t *)c;

	for (size_t i = from; i < sizeof(*c); i++)
		if (at[i] != SPOILT)
			fail_msg("byte %zu of a connection was written", i);
	memcpy((uint8_t *)c + from, kept + from, sizeof(*c) - from);
}

/* A segment of the peer's, without the looks that kit_in() takes at everything. */
static void segment_in(struct kit *k, const struct tcp_conn *c, uint32_t len)
{
	struct tcp_seg seg = { .sport = KIT_PEER_PORT,
			       .dport = KIT_PORT,
			       .seq = c->rcv_nxt,
			       .ack = c->snd_nxt,
			       .flags = TCP_ACK,
			       .wnd = 65535,
			       .wscale = TCP_NO_WSCALE,
			       .has_ts = c->flags & CONN_TS,
			       .tsval = k->tsval,
			       .tsecr = k->tsecr };
	struct extent *e = extent_new(&k->rx);
	uint32_t n;

	assert_non_null(e);
	n = tcp_head_build(e->data + IPV4_HEAD, &seg);
	memset(e->data + IPV4_HEAD + n, 'x', len);
	ip_build(e->data, &k->peer, &k->me, IP_PROTO_TCP, 0, n + len);
	tcp_rx(k->s, e, 0, IPV4_HEAD + n + len, TCP_RX_SUM_GOOD, k->now);
	extent_put(e);
}

static void receive_and_read(struct kit *k, struct tcp_conn *c)
{
	const uint8_t *data;

	segment_in(k, c, 100);
	assert_int_equal(tcp_peek(c, &data), 100);
	tcp_consume(c, 100, k->now);
	assert_int_equal(tcp_peek(c, &data), -EAGAIN);
}

static void both_pass_a_while(void)
{
	for (unsigned k = 0; k < 2; k++) {
		while (tcp_next_ready(kits[k].s))
			;
		kits[k].now += 10 * NS_PER_US;
	}
}

static void what_receives_touches_its_lines_only(void **state)
{
	const size_t from = CONN_LINES_RX * CACHE_LINE;

	both_open(1);
	for (unsigned i = 0; i < QUICK_ACKS / 2; i++) {
		spoil(conns[1][0], from);
		for (unsigned k = 0; k < 2; k++)
			receive_and_read(&kits[k], conns[k][0]);
		both_say_the_same();
		restore(conns[1][0], from);
		both_pass_a_while();
	}
	kit_fini(&kits[0]);
	kit_fini(&kits[1]);
}

static void what_sends_touches_its_lines_only(void **state)
{
	const size_t from = offsetof(struct tcp_conn, rec) + TCP_RECOVERY_HOT;

	both_open(1);
	for (unsigned i = 0; i < 20; i++) {
		spoil(conns[1][0], from);
		for (unsigned k = 0; k < 2; k++)
			assert_int_equal(
			    tcp_send(conns[k][0], "hello", 5, kits[k].now), 5);
		both_say_the_same();
		for (unsigned k = 0; k < 2; k++)
			segment_in(&kits[k], conns[k][0], 0);
		both_say_the_same();
		restore(conns[1][0], from);
		assert_int_equal(tcp_unacked_bytes(conns[1][0]), 0);
		both_pass_a_while();
	}
	kit_fini(&kits[0]);
	kit_fini(&kits[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_together_are_as_frames_one_by_one),
		cmocka_unit_test(no_frames_are_a_batch),
		cmocka_unit_test(what_receives_touches_its_lines_only),
		cmocka_unit_test(what_sends_touches_its_lines_only),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
