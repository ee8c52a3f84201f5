/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/idle_conns.c - very many connections that do nothing
 *
 *     idle_conns [N]     N connections (100,000)
 *
 * There is one stack, whose pools grow on demand.  The peers are written out by hand,
 * because those need no memory.  Each peer opens a connection, sends a request and
 * takes the answer.  Then nothing happens for two hours except keepalive on one
 * connection in a hundred.  The test prints the memory that the stack uses, which must
 * be 1 KB per connection at most.  It counts both what the stack was given and what the
 * process has resident.  Then one connection in a thousand sends something, to show
 * that it is alive.  In the end all blocks come back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tcp/calls.h"
#include "tcp/opt.h"
#include "tcp/stack.h"

#define PORT 80
#define RX_CAP 2048
#define N_BYTES 100
#define LIMIT 1024
#define KEEP_S 600

static struct tcp_stack *stack;
static struct tcp_listener *listener;
static struct pool rx;
static uint64_t now = NS_PER_S;
static uint32_t n_blocks, n_frames;
static struct tcp_seg out; /* the last segment of the stack's */
static struct ip_addr out_dst;

static struct ip_addr addr_of(uint32_t i)
{
	return ip_addr_v4(0x0b000000u + i / 50000);
}

static uint16_t port_of(uint32_t i) { return (uint16_t)(1024 + i % 50000); }

static void segment(const struct ip_addr *src, struct tcp_seg *s)
{
	static const uint8_t payload[N_BYTES];
	struct extent *e = extent_new(&rx);

	s->dport = PORT;
	s->wnd = 65535;
	s->has_ts = true;
	s->tsval = (uint32_t)(now / NS_PER_MS);
	if (!(s->flags & TCP_SYN))
		s->wscale = TCP_NO_WSCALE;
	assert(e);
	uint32_t head = tcp_head_build(e->data + IPV4_HEAD, s);
	uint32_t len = head + s->len;
	ip_build(e->data, src, &stack->cfg.addrs[0], IP_PROTO_TCP, 0, len);
	memcpy(e->data + IPV4_HEAD + head, payload, s->len);
	tcp_rx(stack, e, 0, IPV4_HEAD + len, TCP_RX_SUM_GOOD, now);
	extent_put(e);
}

static void drain(void)
{
	struct tcp_frame f;

	while (tcp_tx(stack, &f, now)) {
		int err = tcp_head_parse(
		    f.head + f.ip_len, (uint32_t)(f.head_len - f.ip_len), &out);
		assert(!err);
		out.len = f.len;
		out_dst = ip_addr_v4(load_be32(f.head + 16));
		tcp_frame_done(&f);
		n_frames++;
	}
}

static void feed(void)
{
	int which;

	while ((which = tcp_wants(stack)) >= 0) {
		void *mem = aligned_alloc(TCP_BLOCK, TCP_BLOCK);

		assert(mem);
		bool is_taken = tcp_grow(stack, (enum tcp_pool)which, mem);
		assert(is_taken);
		n_blocks++;
	}
}

static struct tcp_conn *open_one(uint32_t i)
{
	struct ip_addr src = addr_of(i);
	uint8_t bytes[N_BYTES] = { 0 };
	struct tcp_seg s = { .sport = port_of(i),
			     .seq = { i * 7919u },
			     .flags = TCP_SYN,
			     .mss = 1460,
			     .wscale = 7,
			     .is_sack_ok = true };

	segment(&src, &s);
	drain();
	assert(out.flags == (TCP_SYN | TCP_ACK));
	s = (struct tcp_seg){ .sport = port_of(i),
			      .seq = seq_add(s.seq, 1),
			      .ack = seq_add(out.seq, 1),
			      .flags = TCP_ACK,
			      .tsecr = out.tsval,
			      .len = N_BYTES };
	segment(&src, &s);
	struct tcp_conn *c = tcp_accept(listener);
	assert(c);
	const uint8_t *data;
	ssize_t n = tcp_peek(c, &data);
	assert(n == N_BYTES);
	tcp_consume(c, N_BYTES, now);
	n = tcp_send(c, bytes, N_BYTES, now);
	assert(n == N_BYTES);
	if (i % 100 == 0)
		tcp_set_keepalive(c, KEEP_S, 75, 9, now);
	drain();
	assert(out.len == N_BYTES);
	s.seq = seq_add(s.seq, N_BYTES);
	s.ack = seq_add(out.seq, N_BYTES);
	s.len = 0;
	s.tsecr = out.tsval;
	segment(&src, &s);
	drain();
	while (tcp_next_ready(stack))
		;
	return c;
}

/* Answers a keepalive probe; it can only be for @c. */
static void answer(void)
{
	const struct flow *f = flow_find(stack, 0, PORT, &out_dst, out.dport);
	const struct tcp_conn *c = container_of(f, struct tcp_conn, flow);
	struct tcp_seg s = { .sport = out.dport,
			     .seq = c->rcv_nxt,
			     .ack = c->snd_nxt,
			     .flags = TCP_ACK,
			     .tsecr = out.tsval };

	segment(&out_dst, &s);
}

static void idle_for(uint64_t ns)
{
	uint64_t until = now + ns, at;
	struct tcp_frame f;

	while ((at = tcp_next_ns(stack)) <= until) {
		now = at > now ? at : now;
		tcp_timers(stack, now);
		while (tcp_tx(stack, &f, now)) {
			int err = tcp_head_parse(
			    f.head + f.ip_len,
			    (uint32_t)(f.head_len - f.ip_len), &out);
			assert(!err);
			out_dst = ip_addr_v4(load_be32(f.head + 16));
			tcp_frame_done(&f);
			n_frames++;
			answer();
		}
	}
	now = until;
}

static void speak(struct tcp_conn *c, uint32_t i)
{
	struct ip_addr src = addr_of(i);
	struct tcp_seg s = { .sport = port_of(i),
			     .seq = c->rcv_nxt,
			     .ack = c->snd_nxt,
			     .flags = TCP_ACK,
			     .len = N_BYTES };
	const uint8_t *data;

	segment(&src, &s);
	ssize_t n = tcp_peek(c, &data);
	assert(n == N_BYTES);
	tcp_consume(c, N_BYTES, now);
	drain();
}

static uint64_t resident(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long all = 0, pages = 0;

	assert(f);
	int n = fscanf(f, "%lu %lu", &all, &pages);
	assert(n == 2);
	fclose(f);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv)
{
	uint32_t n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : 100000;
	struct tcp_config cfg = {
		.key = { { 1, 2 } },
		.addrs = { ip_addr_v4(0x0a000001) },
		.n_addrs = 1,
		.mtu = 1500,
		.offers = TCP_OFFER_ALL,
		.snd_buf = 1 << 16,
		.rcv_buf = 1 << 17,
		.snd_buf_max = 4 << 20,
		.rcv_buf_max = 6 << 20,
		.cc = &tcp_cubic,
		.n_conns = 64,
		.n_reqsks = 64,
		.n_ranges = 64,
		.n_extents = 8,
		.extent_bytes = 16384,
		.n_blocks =
		    16 +
		    (uint32_t)(n / (TCP_BLOCK / sizeof(struct tcp_conn) - 1)),
	};
	struct tcp_conn **conns = calloc(n, sizeof(struct tcp_conn *));
	size_t rx_bytes = (size_t)extent_size(RX_CAP) * 16;
	void *mem = aligned_alloc(64, tcp_stack_bytes(&cfg));
	void *rx_mem = aligned_alloc(64, rx_bytes);

	assert(conns);
	assert(mem);
	assert(rx_mem);
	memset(conns, 0xff, n * sizeof(struct tcp_conn *));
	uint64_t before = resident();
	stack = tcp_stack_init(mem, &cfg, now);
	pool_init(&rx, rx_mem, extent_size(RX_CAP), 16);
	int err = tcp_listen(stack, NULL, PORT, 8, &listener);
	assert(!err);
	for (uint32_t i = 0; i < n; i++, now += 10 * NS_PER_US) {
		feed();
		conns[i] = open_one(i);
	}
	uint32_t opened = n_frames;
	idle_for(7200 * NS_PER_S);
	uint64_t held = tcp_stack_bytes(&cfg) + (uint64_t)n_blocks * TCP_BLOCK;
	uint64_t rss = resident() - before;
	printf(
	    "idle_conns: %u connections of %zu bytes; %llu bytes each handed "
	    "in, %llu resident; %u keepalive probes in two hours\n",
	    n, sizeof(struct tcp_conn), (unsigned long long)(held / n),
	    (unsigned long long)(rss / n), n_frames - opened);
	for (uint32_t i = 0; i < n; i += 1000)
		speak(conns[i], i);
	for (uint32_t i = 0; i < n; i++) {
		assert(conns[i]->state == TCP_ESTABLISHED);
		tcp_abort(conns[i], now);
		drain();
	}
	void *block;
	while ((block = tcp_shrink(stack))) {
		free(block);
		n_blocks--;
	}
	tcp_stack_fini(stack);
	assert(!n_blocks);
	free(mem);
	free(rx_mem);
	free(conns);
	return held / n > LIMIT || rss / n > LIMIT;
}
