/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/peer_engine.c - what a segment costs our own TCP, without a wire
 *
 *     recv: peers' segments -> rx, the program reads, timers, tx -> ACKs -> the peers
 *     copied, lent: the program sends, tx -> segments -> the peers' ACKs -> rx, timers
 *
 * One stack is measured, with all that a segment costs it, its share of the ACK included;
 * when bytes are copied, so is the copy.  The peers, of which each is a few numbers, are
 * not: they are other hosts, whose memory must not take the place of the stack's in the
 * cache.  They acknowledge each second segment.
 *
 * Connections take turns in an order that no cache expects, but the sending program names
 * those whose turn comes next.  The stack's clock is a variable that runs about as fast as
 * a real one would, so timers expire as they should; checksums of TCP are a port's to make
 * and to check.
 */
#include "ip/tcp_head.h"
#include "osf.h"
#include "peer.h"
#include "port/port.h"
#include "proto/tcp/drive.h"
#include "tcp/calls.h"
#include "tcp/tcp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BATCH 32u /* segments of a turn */
#define SOON 8u   /* connections that the program names before it sends */
#define FRAME_BYTES 1536
#define SEGMENT 1448
#define PORTS 50000u /* of one listener's clients */
#define PORT_FIRST 10000u
#define PORT_LISTENED 80u
#define PEER_WSCALE 7
#define TURN_NS 10000
#define ACK_EVERY 2u
/* A young connection has each segment acknowledged at once. */
#define WARM_ROUNDS 20u
#define SAMPLE_TURNS 256u
#define MEASURE_TURNS (128u * SAMPLE_TURNS)

/* The other end of a connection. */
struct far {
	uint32_t seq, ack; /* its next number; what it acknowledges */
	uint32_t tsval;    /* the last one of ours */
	uint32_t n_unacked;
};

struct rig {
	struct tcp_stack *stack;
	struct port port;
	struct ip_addr us, them;
	struct pool frames; /* that come in */
	struct pool lents;  /* of bytes that are sent where they lie */
	bool is_recv, is_lent;

	struct far *fars;
	struct tcp_conn **conns; /* in the order of turns */
	uint32_t *order;         /* the same: of @fars */
	uint32_t n_conns, n_listeners;
	struct tcp_listener *listeners[TCP_LISTENERS_MAX];

	uint64_t now_ns;
	struct tcp_frame out[2 * BATCH];
	uint32_t n_out;
	struct tcp_rx_frame in[2 * BATCH];
	uint32_t n_in, n_taken;

	uint64_t ticks, n_sampled; /* since the last sample */
	struct times times;        /* samples: of a segment, times 16 */
	uint64_t n_segments;
};

static void *memory(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		peer_die("mmap");
	madvise(p, bytes, MADV_HUGEPAGE);
	return p;
}

static void pool_make(struct pool *p, uint32_t size, uint32_t n)
{
	pool_init(p, memory((size_t)size * n), size, n);
}

static void rig_init(struct rig *r)
{
	uint32_t n = r->n_conns;

	r->now_ns = 1000000000;
	r->us = ip_addr_v4(0x0a000001);
	r->them = ip_addr_v4(0x0a000002);
	struct tcp_config cfg = {
		.key = { { 7, 11 } },
		.addrs = { r->us },
		.n_addrs = 1,
		.mtu = 1500,
		.offers = TCP_OFFER_ALL,
		.snd_buf = 65536,
		.rcv_buf = 65536,
		.cc = &tcp_cubic,
		.has_port_sums = true,
		.n_conns = n + 1,
		.n_reqsks = n + 1,
		.n_ranges = 8 * n + 8192,
		.n_extents = 3 * n + 1024,
		.extent_bytes = FRAME_BYTES,
	};

	r->stack =
	    tcp_stack_init(memory(tcp_stack_bytes(&cfg)), &cfg, r->now_ns);
	r->fars = memory(n * sizeof(*r->fars));
	r->conns = memory(n * sizeof(struct tcp_conn *));
	r->order = memory(n * sizeof(*r->order));
	pool_make(&r->frames, extent_size(FRAME_BYTES), 8 * BATCH);
	pool_make(&r->lents, sizeof(struct tcp_lent), 4 * n + 1024);
	times_init(&r->times);
}

/* --- the peers --- */

static uint16_t far_port(uint32_t i)
{
	return (uint16_t)(PORT_FIRST + i % PORTS);
}

static uint16_t near_port(uint32_t i)
{
	return (uint16_t)(PORT_LISTENED + i / PORTS);
}

/* Makes a segment of the @i-th peer for the stack.  Nobody writes its payload, as in a frame
 * that a device wrote: the program is the first to touch those bytes. */
static void far_sends(struct rig *r, uint32_t i, unsigned flags, uint32_t len)
{
	struct far *far = &r->fars[i];
	struct extent *e = extent_new(&r->frames);
	bool is_syn = flags & TCP_SYN;
	struct tcp_seg seg = {
		.sport = far_port(i),
		.dport = near_port(i),
		.seq = { far->seq },
		.ack = { far->ack },
		.flags = (uint8_t)flags,
		.wnd = 65535,
		.mss = is_syn ? SEGMENT + 12 : 0,
		.wscale = is_syn ? PEER_WSCALE : TCP_NO_WSCALE,
		.is_sack_ok = is_syn,
		.has_ts = true,
		.tsval = (uint32_t)(r->now_ns / 1000000),
		.tsecr = far->tsval,
	};
	uint32_t ip_len = ip_head_len(&r->us);
	uint32_t head = tcp_head_build(e->data + ip_len, &seg) + len;

	ip_build(e->data, &r->them, &r->us, IP_PROTO_TCP, 0, head);
	r->in[r->n_in++] = (struct tcp_rx_frame){ .ext = e,
						  .len = ip_len + head,
						  .flags = TCP_RX_SUM_GOOD };
	far->seq += len + is_syn;
	far->n_unacked = 0;
}

/* A segment of the stack's has arrived. */
static void far_takes(struct rig *r, const struct tcp_frame *f)
{
	struct tcp_seg seg;

	if (tcp_head_parse(f->head + f->ip_len, f->head_len - f->ip_len, &seg))
		peer_die("what the stack sends is no segment");
	uint32_t i =
	    (seg.sport - PORT_LISTENED) * PORTS + (seg.dport - PORT_FIRST);
	struct far *far = &r->fars[i];

	if (!(seg.flags & TCP_SYN) && seg.seq.v != far->ack)
		peer_die("what the stack sends is not next");
	far->ack = seg.seq.v + f->len + !!(seg.flags & TCP_SYN);
	far->tsval = seg.tsval;
	far->n_unacked += f->len != 0;
	if (far->n_unacked == ACK_EVERY)
		far_sends(r, i, TCP_ACK, 0);
}

static void fars_take(struct rig *r)
{
	for (uint32_t i = 0; i < r->n_out; i++)
		far_takes(r, &r->out[i]);
}

/* --- the stack --- */

static struct rig *rig_of(struct port *p)
{
	return container_of(p, struct rig, port);
}

static uint32_t rig_recv(struct port *p, struct tcp_rx_frame *f, uint32_t max,
			 uint64_t now_ns)
{
	struct rig *r = rig_of(p);
	uint32_t n = MIN(r->n_in - r->n_taken, max);

	memcpy(f, r->in + r->n_taken, n * sizeof(*f));
	r->n_taken += n;
	if (!n)
		r->n_in = r->n_taken = 0;
	return n;
}

static bool rig_is_short(const struct port *p) { return false; }

static struct tcp_frame *rig_room(struct port *p, uint64_t now_ns)
{
	struct rig *r = rig_of(p);

	return r->n_out < 2 * BATCH ? &r->out[r->n_out] : NULL;
}

static void rig_send(struct port *p, struct tcp_frame *f, uint64_t now_ns)
{
	rig_of(p)->n_out++;
}

static void rig_flush(struct port *p, uint64_t now_ns) {}
static uint64_t rig_next_ns(const struct port *p) { return UINT64_MAX; }

/* The peers are a port: what the stack sends stays in out[] until they have read it. */
static const struct port_ops rig_ops = {
	.recv = rig_recv,
	.is_short = rig_is_short,
	.room = rig_room,
	.send = rig_send,
	.flush = rig_flush,
	.next_ns = rig_next_ns,
};

static void stack_sends(struct rig *r)
{
	r->n_out = 0;
	drive_out(r->stack, &r->port, r->now_ns);
}

static void frames_done(struct rig *r)
{
	for (uint32_t i = 0; i < r->n_out; i++)
		tcp_frame_done(&r->out[i]);
}

static void stack_receives(struct rig *r)
{
	drive_in(r->stack, &r->port, r->now_ns);
}

static void programs_read(struct rig *r)
{
	const uint8_t *data;
	struct tcp_conn *c;
	ssize_t n;

	while ((c = tcp_next_ready(r->stack)))
		while ((n = tcp_peek(c, &data)) > 0)
			tcp_consume(c, (uint32_t)n, r->now_ns);
}

static uint32_t shuffle_next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*seed >> 33);
}

/* Half of the connections have had a segment more. */
static void shift_phase(struct rig *r, uint32_t i)
{
	r->fars[i].n_unacked = !r->is_recv;
	if (!r->is_recv)
		return;
	far_sends(r, i, TCP_ACK, SEGMENT);
	stack_receives(r);
	programs_read(r);
	stack_sends(r);
	fars_take(r);
}

static void open_one(struct rig *r, uint32_t i)
{
	uint32_t l = i / PORTS;

	if (i % PORTS == 0 && tcp_listen(r->stack, NULL, near_port(i),
					 UINT32_MAX, &r->listeners[l]) < 0)
		peer_die("tcp_listen");
	far_sends(r, i, TCP_SYN, 0);
	stack_receives(r);
	stack_sends(r);
	fars_take(r);
	far_sends(r, i, TCP_ACK, 0);
	stack_receives(r);
	r->conns[i] = tcp_accept(r->listeners[l]);
	if (!r->conns[i])
		peer_die("tcp_accept");
	r->order[i] = i;
	r->now_ns += 1000;
	/* Or all of them would be acknowledged in the same turns. */
	if (i % ACK_EVERY)
		shift_phase(r, i);
}

static void open_all(struct rig *r)
{
	uint64_t seed = 1;

	r->port.ops = &rig_ops;
	for (uint32_t i = 0; i < r->n_conns; i++)
		open_one(r, i);
	for (uint32_t i = r->n_conns - 1; i > 0; i--) {
		uint32_t k = shuffle_next(&seed) % (i + 1), was = r->order[i];
		struct tcp_conn *c = r->conns[i];

		r->order[i] = r->order[k];
		r->order[k] = was;
		r->conns[i] = r->conns[k];
		r->conns[k] = c;
	}
	while (tcp_next_ready(r->stack))
		;
}

/* --- the turns --- */

static struct tcp_conn *in_turn(const struct rig *r, uint32_t at)
{
	return r->conns[at % r->n_conns];
}

/* A young connection takes less than it is offered. */
static void program_sends(struct rig *r, struct tcp_conn *c)
{
	static const uint8_t bytes[SEGMENT];

	if (!r->is_lent) {
		tcp_send(c, bytes, SEGMENT, r->now_ns);
		return;
	}
	struct tcp_lent *z = pool_get(&r->lents);

	if (tcp_send_lent(c, z, bytes, SEGMENT, r->now_ns) < 0)
		pool_put(&r->lents, z);
}

static void programs_get_back(struct rig *r)
{
	struct tcp_lent *z;

	while (tcp_next_ready(r->stack))
		;
	while ((z = tcp_next_returned(r->stack)))
		pool_put(&r->lents, z);
}

/* A segment from each of the next peers, or all from the one. */
static void turn_recv(struct rig *r, uint32_t at)
{
	for (uint32_t i = 0; i < BATCH; i++)
		far_sends(r, r->order[(at + i) % r->n_conns], TCP_ACK, SEGMENT);
	uint64_t t = tick_now();

	stack_receives(r);
	programs_read(r);
	stack_sends(r);
	r->ticks += tick_now() - t;
	r->n_sampled += BATCH;
	fars_take(r);
}

/* A segment on each of the next connections, or all on the one. */
static void turn_send(struct rig *r, uint32_t at)
{
	uint64_t t = tick_now();

	for (uint32_t i = 0; i < SOON; i++)
		tcp_send_soon(r->stack, in_turn(r, at + i));
	for (uint32_t i = 0; i < BATCH; i++) {
		tcp_send_soon(r->stack, in_turn(r, at + i + SOON));
		program_sends(r, in_turn(r, at + i));
	}
	stack_sends(r);
	r->ticks += tick_now() - t;
	r->n_sampled += r->n_out;
	fars_take(r);
	t = tick_now();
	frames_done(r);
	stack_receives(r);
	programs_get_back(r);
	r->ticks += tick_now() - t;
}

/* Long enough for what only some turns do, as timers that expire. */
static void sample(struct rig *r)
{
	times_add(&r->times, r->ticks * 16 / r->n_sampled);
	r->n_segments += r->n_sampled;
	r->ticks = r->n_sampled = 0;
}

/* CONNECTIONS recv|copied|lent; prints what a segment costs. */
int peer_engine(int argc, char **args)
{
	static struct rig r;
	uint32_t at = 0, n_turns, n_warm;

	r.n_conns = (uint32_t)atoi(args[0]);
	r.n_conns += !r.n_conns;
	r.is_recv = strcmp(args[1], "recv") == 0;
	r.is_lent = strcmp(args[1], "lent") == 0;
	rig_init(&r);
	open_all(&r);
	n_warm = WARM_ROUNDS * (r.n_conns / BATCH) + 4 * SAMPLE_TURNS;
	n_turns = n_warm - n_warm % SAMPLE_TURNS + MEASURE_TURNS;
	for (uint32_t i = 1; i <= n_turns; i++) {
		r.now_ns += TURN_NS;
		if (r.is_recv)
			turn_recv(&r, at);
		else
			turn_send(&r, at);
		at = (at + BATCH) % r.n_conns;
		if (i % SAMPLE_TURNS == 0)
			sample(&r);
		if (i == n_turns - MEASURE_TURNS)
			r.n_segments = r.times.n = 0;
	}
	printf("segments %llu\nsegment_ns %.1f\n",
	       (unsigned long long)r.n_segments,
	       times_median_ns(&r.times) / 16);
	return 0;
}
