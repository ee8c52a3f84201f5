/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_tcp.c - any frames, calls and pauses against a stack
 *
 *     bytes -> operations -> tcp_rx(), tcp_timers(), tcp_send() ... -> conn_check()
 *
 * An operation is a raw frame, a segment close to what a connection expects (so that
 * all states are reached), or a call.  After each operation the fuzzer takes all frames
 * of the stack, which our own parsers must accept, and checks every connection.  In the
 * end all buffers are free.
 */
#include <stdlib.h>

#include "ip/checksum.h"
#include "ip/icmp.h"
#include "tcp/calls.h"
#include "tcp/opt.h"
#include "tcp/stack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define N_CONNS 4
#define N_LENT 4
#define PORT 80
#define RX_CAP 2048
#define N_RX 256

struct input {
	const uint8_t *p;
	size_t left;
};

static struct tcp_stack *stack;
static struct tcp_listener *listener;
static struct tcp_conn *conns[N_CONNS];
static struct tcp_lent lent[N_LENT];
static bool is_lent[N_LENT];
static struct pool rx_pool;
static uint64_t now = 1000000;
static const struct ip_addr peer = { { [10] = 0xff, 0xff, 10, 0, 0, 2 } };

static uint8_t next8(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->p++;
}

/* Each comes back once. */
static void take_returned(void)
{
	struct tcp_lent *z;

	while ((z = tcp_next_returned(stack))) {
		assert(is_lent[z - lent]);
		is_lent[z - lent] = false;
	}
}

static void check(void)
{
	struct list *head = &stack->conns;
	struct tcp_frame f;

	while (tcp_tx(stack, &f, now)) {
		struct ip_packet ip;
		struct tcp_seg seg;
		int err = ip_parse(f.head, f.head_len, &ip);

		/* The payload lies elsewhere, so the length exceeds the bytes here. */
		assert(err == (f.len ? -(1 + (int)DROP_IP_LENGTH) : 0));
		err = tcp_head_parse(f.head + f.ip_len,
				     (uint32_t)(f.head_len - f.ip_len), &seg);
		assert(!err);
		tcp_frame_done(&f);
	}
	take_returned();
	for (struct list *l = head->next; l != head; l = l->next)
		conn_check(container_of(l, struct tcp_conn, all_link));
}

static void frame_rx(const uint8_t *p, uint32_t len)
{
	struct extent *e = extent_new(&rx_pool);

	if (!e) {
		tcp_reclaim(stack);
		return;
	}
	memcpy(e->data, p, len);
	tcp_rx(stack, e, 0, len, TCP_RX_SUM_GOOD, now);
	extent_put(e);
}

/* Sends a segment with the numbers of a connection, a bit off. */
static void segment_rx(struct input *in)
{
	const struct tcp_conn *c = conns[next8(in) % N_CONNS];
	uint8_t buf[RX_CAP] = { 0 }, how = next8(in);
	struct tcp_seg s = { .sport = (uint16_t)(1000 + (how & 3)),
			     .dport = PORT,
			     .flags = next8(in),
			     .wnd = (uint16_t)(next8(in) << (how >> 4)),
			     .len = next8(in) * 4u,
			     .mss = next8(in),
			     .is_sack_ok = true,
			     .wscale = next8(in) & 15,
			     .has_ts = how & 4 };

	s.seq.v = next8(in);
	s.ack.v = next8(in);
	if (c && !(how & 8)) {
		s.sport = c->flow.rport;
		s.dport = c->flow.lport;
		s.seq = seq_add(c->rcv_nxt, (uint32_t)((int8_t)s.seq.v * 40));
		s.ack = seq_add(c->snd_nxt, (uint32_t)(-(int32_t)s.ack.v * 20));
		s.tsval = c->ts_recent + next8(in);
		s.urg = next8(in);
		s.n_sacks = next8(in) & 3;
		for (unsigned i = 0; i < s.n_sacks; i++) {
			s.sacks[i].from = seq_add(c->snd_una, next8(in) * 16u);
			s.sacks[i].to =
			    seq_add(s.sacks[i].from, next8(in) * 16u);
		}
	}
	if (s.flags & TCP_SYN && s.wscale > TCP_WSCALE_MAX)
		s.wscale = TCP_NO_WSCALE;
	uint32_t head = tcp_head_build(buf + IPV4_HEAD, &s);
	ip_build(buf, &peer, &stack->cfg.addrs[0], IP_PROTO_TCP, 0,
		 head + s.len);
	frame_rx(buf, IPV4_HEAD + head + s.len);
}

static void raw_rx(struct input *in)
{
	size_t n = next8(in);
	struct ip_packet ip;
	struct icmp_error e;

	n = MIN(n, in->left);
	frame_rx(in->p, (uint32_t)n);
	if (!ip_parse(in->p, (uint32_t)n, &ip))
		(void)!icmp_parse(&ip, in->p + ip.l4_off, &e);
	in->p += n;
	in->left -= n;
}

/* Sends an ICMP error that quotes a number of a connection, or one close to it. */
static void error_rx(struct input *in)
{
	const struct tcp_conn *c = conns[next8(in) % N_CONNS];
	uint8_t m[128] = { 0 };
	struct cksum sum = { 0 };

	if (!c)
		return;
	uint32_t ip_len = ip_build(m + IPV4_HEAD + 8, &stack->cfg.addrs[0],
				   &peer, IP_PROTO_TCP, 0, 1480);
	uint32_t n = 8 + ip_len + 8;
	uint8_t *icmp = m + IPV4_HEAD, *tcp = icmp + 8 + ip_len;
	seq32 seq = seq_add(c->snd_una, (uint32_t)((int8_t)next8(in) * 20));

	icmp[0] = next8(in) % 16;
	icmp[1] = next8(in) % 16;
	store_be32(icmp + 4, next8(in) * 8u);
	store_be16(tcp, c->flow.lport);
	store_be16(tcp + 2, c->flow.rport);
	store_be32(tcp + 4, seq.v);
	cksum_add(&sum, icmp, n);
	store_be16(icmp + 2, cksum_end(&sum));
	ip_build(m, &peer, &stack->cfg.addrs[0], IP_PROTO_ICMP, 0, n);
	frame_rx(m, IPV4_HEAD + n);
}

static void call(struct input *in)
{
	static const uint8_t bytes[4096];
	unsigned i = next8(in) % N_CONNS, what = next8(in), arg = next8(in);
	struct tcp_conn *c = conns[i];
	const uint8_t *data;
	uint8_t byte;
	ssize_t n;

	if (!c) {
		uint16_t lport = (uint16_t)(2000 + i);

		conns[i] = tcp_accept(listener);
		if (!conns[i] && tcp_connect(stack, &stack->cfg.addrs[0], lport,
					     &peer, 99, now, &conns[i]))
			conns[i] = NULL;
		return;
	}
	switch (what % 9) {
	case 0:
	case 1:
		(void)!tcp_send_as(c, bytes, arg * 16u, arg & 7, now);
		break;
	case 2:
	case 3:
		(void)!tcp_peek_at(c, arg, &data);
		n = tcp_peek(c, &data);
		(void)!tcp_recv_urgent(c, &byte, arg & 1);
		if (n > 0)
			tcp_consume(c, (uint32_t)MIN(n, (ssize_t)arg), now);
		break;
	case 4:
		(void)!tcp_shutdown(c, now);
		break;
	case 5:
		tcp_set_keepalive(c, arg, 1, 3, now);
		tcp_set_user_timeout(c, arg * 100u);
		tcp_set_nodelay(c, arg & 1, now);
		tcp_set_cork(c, arg & 2, now);
		tcp_set_oob_inline(c, arg & 4);
		tcp_set_quickack(c, arg & 8, now);
		tcp_set_maxseg(c, arg);
		tcp_set_snd_buf(c, arg * 100u);
		tcp_set_window_clamp(c, arg & 16 ? arg * 20u : 0);
		break;
	case 6:
		tcp_close(c, now);
		conns[i] = NULL;
		break;
	case 7:
		tcp_abort(c, now);
		conns[i] = NULL;
		break;
	case 8:
		i = arg % N_LENT;
		if (!is_lent[i])
			is_lent[i] = !tcp_send_lent(c, &lent[i], bytes,
						    1 + arg * 16u, now);
		break;
	}
}

static void pause_for(struct input *in)
{
	now += (uint64_t)next8(in) << (next8(in) % 32);
	tcp_timers(stack, now);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct tcp_config cfg = {
		.addrs = { ip_addr_v4(0x0a000001) },
		.n_addrs = 1,
		.mtu = 1500,
		.gso_max = size % 2 ? 20000 : 0,
		.offers = TCP_OFFER_ALL,
		.snd_buf = 20000,
		.rcv_buf = 8000,
		.rcv_mem = size % 8 ? 0 : 20000,
		.cc = size % 4 < 2 ? &tcp_newreno : &tcp_cubic,
		.n_conns = N_CONNS,
		.n_reqsks = 4,
		.n_ranges = 128,
		.n_extents = 16,
		.extent_bytes = 2000,
	};
	void *mem = aligned_alloc(64, tcp_stack_bytes(&cfg));
	void *rx = aligned_alloc(64, (size_t)extent_size(RX_CAP) * N_RX);

	assert(mem);
	assert(rx);
	now = 1000000;
	stack = tcp_stack_init(mem, &cfg, now);
	pool_init(&rx_pool, rx, extent_size(RX_CAP), N_RX);
	memset(conns, 0, sizeof(conns));
	int err = tcp_listen(stack, NULL, PORT, 2, &listener);
	assert(!err);
	while (in.left) {
		switch (next8(&in) % 9) {
		case 0:
			raw_rx(&in);
			break;
		case 8:
			error_rx(&in);
			break;
		case 1:
			pause_for(&in);
			break;
		case 2:
		case 3:
			call(&in);
			break;
		default:
			segment_rx(&in);
		}
		check();
	}
	tcp_stack_fini(stack);
	take_returned();
	for (unsigned i = 0; i < N_LENT; i++)
		assert(!is_lent[i]);
	assert(rx_pool.n_free == rx_pool.n);
	assert(stack->pool_extents.n_free == stack->pool_extents.n);
	free(mem);
	free(rx);
	return 0;
}
