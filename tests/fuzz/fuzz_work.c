/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_work.c - what a call costs at most, of a peer that wants it to cost much
 *
 *     bytes -> rows of segments, pauses, calls -> a stack with thousands of ranges in flight
 *           -> tcp_most_work(): each number that is new is a new input for the fuzzer
 *
 * A row is many segments that differ by a step, so that few bytes make many ranges, blocks
 * and runs.  More than TCP_WORK_MAX is a failure.
 */
#include "fuzz_stack.h"

#include "ip/checksum.h"

#define PEER 0x0a000002
#define SEND_BUF 100000u
#define RECV_BUF 200000u
#define N_RANGES 16384
#define N_LENT 64
#define ROW 512

static struct tcp_stack *s;
static struct tcp_listener *listener;
static struct tcp_conn *c;
static struct pool rx_pool;
static uint64_t now;
static uint32_t echo, tsval;
static struct tcp_lent lent[N_LENT];
static bool is_lent[N_LENT];
static const struct ip_addr peer = { { [10] = 0xff, 0xff, 10, 0, 0, 2 } };

/* The fuzzer takes these for code that was reached. */
__attribute__((section("__libfuzzer_extra_counters"),
	       used)) static uint8_t reached[TCP_WORK_MAX + 1];

static void worked(void)
{
	uint32_t most = tcp_most_work(s);

	assert(most <= TCP_WORK_MAX);
	reached[most] = 1;
}

static void drain(unsigned n)
{
	struct tcp_frame f;
	struct tcp_lent *z;
	struct tcp_seg seg;

	while (n-- && tcp_tx(s, &f, now)) {
		if (!tcp_head_parse(f.head + f.ip_len,
				    (uint32_t)(f.head_len - f.ip_len), &seg))
			echo = seg.tsval;
		tcp_frame_done(&f);
		worked();
	}
	while ((z = tcp_next_returned(s)))
		is_lent[z - lent] = false;
}

static void in(const struct tcp_seg *seg)
{
	struct extent *e = extent_new(&rx_pool);
	uint8_t head[TCP_HEAD_MAX];

	if (!e) {
		tcp_reclaim(s);
		return;
	}
	uint32_t n = tcp_head_build(head, seg);
	uint32_t ip = ip_build(e->data, &peer, &s->cfg.addrs[0], IP_PROTO_TCP,
			       0, n + seg->len);
	memcpy(e->data + ip, head, n);
	memset(e->data + ip + n, 0, seg->len);
	tcp_rx(s, e, 0, ip + n + seg->len, TCP_RX_SUM_GOOD, now);
	extent_put(e);
	worked();
}

static struct tcp_seg segment(unsigned flags)
{
	return (struct tcp_seg){ .sport = 5000,
				 .dport = FUZZ_PORT,
				 .flags = (uint8_t)flags,
				 .wnd = UINT16_MAX,
				 .wscale = TCP_NO_WSCALE,
				 .has_ts = true,
				 .tsval = tsval,
				 .tsecr = echo };
}

static void fill(void)
{
	static const uint8_t bytes[4096];

	while (c && tcp_send(c, bytes, sizeof(bytes), now) > 0)
		worked();
}

static void begin(uint16_t mss)
{
	struct tcp_seg seg = segment(TCP_SYN);
	struct tcp_frame f;

	seg.seq.v = 1000;
	seg.mss = mss;
	seg.wscale = 8;
	seg.is_sack_ok = true;
	in(&seg);
	bool is_out = tcp_tx(s, &f, now);
	assert(is_out);
	int err = tcp_head_parse(f.head + f.ip_len,
				 (uint32_t)(f.head_len - f.ip_len), &seg);
	assert(!err);
	seq32 iss = seg.seq;
	echo = seg.tsval;
	tcp_frame_done(&f);
	now += 10 * NS_PER_MS;
	tsval += 10;
	seg = segment(TCP_ACK);
	seg.seq.v = 1001;
	seg.ack = seq_add(iss, 1);
	in(&seg);
	c = tcp_accept(listener);
	assert(c);
	c->cwnd = 4 * SEND_BUF;
	fill();
	drain(UINT32_MAX);
}

/* Segments with blocks of @width at @from, and each @step behind the one before. */
static void sack_row(struct fuzz_input *in_)
{
	uint32_t from = fuzz_u16(in_) * 2, step = fuzz_u16(in_),
		 width = fuzz_u16(in_);
	uint32_t n = 1 + fuzz_u8(in_) * 2u, how = fuzz_u8(in_);

	for (uint32_t i = 0; i < MIN(n, ROW) && c; i++) {
		struct tcp_seg seg = segment(TCP_ACK);
		uint32_t flight = seq_len(c->snd_una, c->snd_nxt);

		seg.seq = c->rcv_nxt;
		seg.ack = c->snd_una;
		seg.len = how & 8;
		seg.n_sacks = 1 + (how & 1) + (how & 2) / 2;
		for (unsigned b = 0; b < seg.n_sacks; b++) {
			uint32_t at = from + step * (i + b * (how >> 4));

			at = flight ? at % flight : 0;
			seg.sacks[b].from = seq_add(c->snd_una, at);
			seg.sacks[b].to =
			    seq_add(seg.sacks[b].from,
				    MIN(width, flight - MIN(at, flight)));
		}
		in(&seg);
		if (how & 4)
			drain(1);
	}
}

/* The same, of text. */
static void text_row(struct fuzz_input *in_)
{
	uint32_t from = fuzz_u16(in_) * 2, step = fuzz_u16(in_) & 4095;
	uint32_t len = fuzz_u16(in_) % 1400, n = 1 + fuzz_u8(in_) * 2u;

	for (uint32_t i = 0; i < MIN(n, ROW) && c; i++) {
		struct tcp_seg seg = segment(TCP_ACK);

		seg.seq = seq_add(c->rcv_nxt, (from + i * step) % RECV_BUF);
		seg.ack = c->snd_una;
		seg.len = len;
		in(&seg);
		drain(2);
	}
}

static void ack(struct fuzz_input *in_)
{
	uint32_t n = fuzz_u16(in_) * 2, how = fuzz_u8(in_);
	struct tcp_seg seg = segment(how & 1 ? TCP_RST : TCP_ACK);

	if (!c)
		return;
	seg.seq = seq_add(c->rcv_nxt, how & 1);
	seg.ack = seq_add(c->snd_una, MIN(n, seq_len(c->snd_una, c->snd_nxt)));
	if (how & 2)
		seg.tsecr -= 20u * (how >> 2);
	in(&seg);
}

static void too_big(struct fuzz_input *in_)
{
	uint8_t m[128] = { 0 };
	struct cksum sum = { 0 };
	struct extent *e = c ? extent_new(&rx_pool) : NULL;

	if (!e)
		return;
	uint32_t ip_len =
	    ip_build(m + 8, &s->cfg.addrs[0], &peer, IP_PROTO_TCP, 0, 1480);
	m[0] = 3;
	m[1] = 4;
	store_be32(m + 4, fuzz_u16(in_));
	store_be16(m + 8 + ip_len, c->flow.lport);
	store_be16(m + 8 + ip_len + 2, c->flow.rport);
	store_be32(m + 8 + ip_len + 4, c->snd_una.v);
	cksum_add(&sum, m, 8 + ip_len + 8);
	store_be16(m + 2, cksum_end(&sum));
	uint32_t ip = ip_build(e->data, &peer, &s->cfg.addrs[0], IP_PROTO_ICMP,
			       0, 8 + ip_len + 8);
	memcpy(e->data + ip, m, 8 + ip_len + 8);
	tcp_rx(s, e, 0, ip + 8 + ip_len + 8, TCP_RX_SUM_GOOD, now);
	extent_put(e);
	worked();
}

static void pause_for(struct fuzz_input *in_)
{
	uint64_t ms = 1u << fuzz_u8(in_) % 12;

	now += ms * NS_PER_MS;
	tsval += (uint32_t)ms;
	tcp_timers(s, now);
	worked();
}

static void call(struct fuzz_input *in_)
{
	static const uint8_t bytes[64];
	uint32_t what = fuzz_u8(in_), arg = fuzz_u8(in_);
	const uint8_t *data;

	if (!c)
		return;
	switch (what % 5) {
	case 0:
		fill();
		break;
	case 1:
		(void)!tcp_send_as(c, bytes, 1 + arg % 64, what >> 5, now);
		break;
	case 2:
		for (unsigned i = 0; i < N_LENT; i++)
			if (!is_lent[i])
				is_lent[i] = !tcp_send_lent(c, &lent[i], bytes,
							    1 + arg % 8, now);
		break;
	case 3:
		for (unsigned i = 0; i <= arg && tcp_peek(c, &data) > 0; i++)
			tcp_consume(c, 1, now);
		break;
	case 4:
		if (arg == 7) {
			tcp_close(c, now);
			c = NULL;
		}
		break;
	}
	worked();
}

static void step(struct fuzz_input *in_)
{
	switch (fuzz_u8(in_) % 8) {
	case 0:
	case 1:
		sack_row(in_);
		break;
	case 2:
		text_row(in_);
		break;
	case 3:
		ack(in_);
		break;
	case 4:
		pause_for(in_);
		break;
	case 5:
		drain(fuzz_u8(in_));
		break;
	case 6:
		call(in_);
		break;
	case 7:
		too_big(in_);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in_ = { data, MIN(size, (size_t)64) };
	uint8_t how = fuzz_u8(&in_);
	struct tcp_config cfg = {
		.key = { { 3, 7 } },
		.addrs = { ip_addr_v4(0x0a000001) },
		.n_addrs = 1,
		.mtu = 1500,
		.gso_max = how & 1 ? 60000 : 0,
		.offers = TCP_OFFER_ALL,
		.snd_buf = SEND_BUF,
		.rcv_buf = RECV_BUF,
		.cc = &tcp_cubic,
		.n_conns = 2,
		.n_reqsks = 2,
		.n_ranges = N_RANGES,
		.n_extents = 64,
		.extent_bytes = 4000,
	};
	uint32_t n_rx = 1500;
	void *mem = aligned_alloc(64, tcp_stack_bytes(&cfg));
	void *rx = aligned_alloc(64, (size_t)extent_size(FUZZ_RX_CAP) * n_rx);

	assert(mem);
	assert(rx);
	now = NS_PER_S;
	tsval = 1000;
	echo = 0;
	s = tcp_stack_init(mem, &cfg, now);
	pool_init(&rx_pool, rx, extent_size(FUZZ_RX_CAP), n_rx);
	int err = tcp_listen(s, NULL, FUZZ_PORT, 4, &listener);
	assert(!err);
	begin(how & 2 ? 48 : 536);
	while (in_.left) {
		step(&in_);
		if (c)
			conn_check(c);
		if (c && c->state == TCP_CLOSED) {
			tcp_close(c, now);
			c = NULL;
		}
	}
	tcp_stack_fini(s);
	drain(0);
	assert(rx_pool.n_free == rx_pool.n);
	assert(s->pool_extents.n_free == s->pool_extents.n);
	free(mem);
	free(rx);
	memset(is_lent, 0, sizeof(is_lent));
	return 0;
}
