/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/peer_engine.c - what a segment costs our own TCP, without a wire
 *
 *     sender's stack: send(), tx -> copied, as a port would -> receiver's stack: rx,
 *     read, tx -> ACKs -> sender's stack: rx
 *
 * Two stacks in this process, whose parts are measured apart: of the sender all that a
 * segment costs, its share of the ACK and the copy of the program's bytes included; of
 * the receiver all up to the program's having read it, and the ACK.  Connections take
 * turns in an order that no cache expects, but the sending program names those whose turn
 * comes next.  The clock of the stacks is a variable that runs about as fast as a real one
 * would, so timers expire as they should; checksums of TCP are a port's to make and to check.
 */
#include "osf.h"
#include "peer.h"
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
#define TURN_NS 10000
#define MEASURE_TURNS 20000u

enum side { SENDER, RECEIVER };

struct rig {
	struct tcp_stack *stack[2];
	struct pool frames[2]; /* that come to a side */
	struct tcp_listener *listeners[TCP_LISTENERS_MAX];
	struct tcp_conn **conns; /* of the sender, shuffled */
	uint32_t n_conns, n_listeners;
	uint64_t now_ns;
	struct tcp_frame out[4 * BATCH];
	struct tcp_rx_frame in[4 * BATCH];
	struct times times[2]; /* of a turn's segments, one each */
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

static void rig_init(struct rig *r, uint32_t n_conns)
{
	memset(r, 0, sizeof(*r));
	r->now_ns = 1000000000;
	r->n_conns = n_conns;
	r->conns = memory(n_conns * sizeof(*r->conns));
	for (unsigned i = 0; i < 2; i++) {
		struct tcp_config cfg = {
			.key = { { 7 + i, 11 } },
			.addrs = { ip_addr_v4(0x0a000001 + i) },
			.n_addrs = 1,
			.mtu = 1500,
			.offers = TCP_OFFER_ALL,
			.snd_buf = 65536,
			.rcv_buf = 65536,
			.cc = &tcp_cubic,
			.has_port_sums = true,
			.n_conns = n_conns + 1,
			.n_minis = n_conns + 1,
			.n_nodes = 8 * n_conns + 8192,
			.n_extents = 3 * n_conns + 1024,
			.extent_bytes = FRAME_BYTES,
		};

		r->stack[i] = tcp_stack_init(memory(tcp_stack_bytes(&cfg)),
					     &cfg, r->now_ns);
		pool_init(&r->frames[i],
			  memory((size_t)extent_size(FRAME_BYTES) * 8 * BATCH),
			  extent_size(FRAME_BYTES), 8 * BATCH);
	}
}

/* --- the way from one side to the other --- */

/* What @side has to send, up to a batch.  Return: how many frames. */
static uint32_t frames_take(struct rig *r, enum side side)
{
	uint32_t n = 0;

	while (n < 4 * BATCH && tcp_tx(r->stack[side], &r->out[n], r->now_ns))
		n++;
	return n;
}

/* What a device does: frames become bytes of the other side's memory. */
static void frames_move(struct rig *r, enum side to, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct tcp_frame *f = &r->out[i];
		struct extent *e = extent_new(&r->frames[to]);
		uint32_t len = f->head_len;

		memcpy(e->data, f->head, len);
		for (uint32_t k = 0; k < f->n_pieces; k++) {
			memcpy(e->data + len, f->pieces[k].data,
			       f->pieces[k].len);
			len += f->pieces[k].len;
		}
		r->in[i] = (struct tcp_rx_frame){ .ext = e,
						  .len = len,
						  .flags = TCP_RX_SUM_GOOD };
	}
}

static void frames_done(struct rig *r, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		tcp_frame_done(&r->out[i]);
}

static void frames_give(struct rig *r, enum side side, uint32_t n)
{
	tcp_rx_batch(r->stack[side], r->in, n, r->now_ns);
	for (uint32_t i = 0; i < n; i++)
		extent_put(r->in[i].ext);
}

static uint32_t cross(struct rig *r, enum side from)
{
	uint32_t n = frames_take(r, from);

	frames_move(r, !from, n);
	frames_done(r, n);
	frames_give(r, !from, n);
	return n;
}

/* --- connections --- */

static uint32_t shuffle_next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*seed >> 33);
}

static void open_all(struct rig *r)
{
	const struct ip_addr from = ip_addr_v4(0x0a000001);
	const struct ip_addr to = ip_addr_v4(0x0a000002);
	struct tcp_conn *c;
	uint64_t seed = 1;

	for (uint32_t i = 0; i < r->n_conns; i++) {
		uint16_t port = (uint16_t)(80 + i / PORTS);

		if (i % PORTS == 0 &&
		    tcp_listen(r->stack[RECEIVER], NULL, port, UINT32_MAX,
			       &r->listeners[r->n_listeners++]) < 0)
			peer_die("tcp_listen");
		if (tcp_connect(r->stack[SENDER], &from,
				(uint16_t)(PORT_FIRST + i % PORTS), &to, port,
				r->now_ns, &r->conns[i]) < 0)
			peer_die("tcp_connect");
		while (cross(r, SENDER) + cross(r, RECEIVER))
			;
		r->now_ns += 1000;
	}
	for (uint32_t i = 0; i < r->n_listeners; i++)
		while ((c = tcp_accept(r->listeners[i])))
			;
	for (uint32_t i = r->n_conns - 1; i > 0; i--) {
		uint32_t k = shuffle_next(&seed) % (i + 1);

		c = r->conns[i];
		r->conns[i] = r->conns[k];
		r->conns[k] = c;
	}
	for (unsigned i = 0; i < 2; i++)
		while (tcp_next_ready(r->stack[i]))
			;
}

/* --- the turns --- */

static void programs_read(struct rig *r)
{
	const uint8_t *data;
	struct tcp_conn *c;
	ssize_t n;

	while ((c = tcp_next_ready(r->stack[RECEIVER])))
		while ((n = tcp_peek(c, &data)) > 0)
			tcp_consume(c, (uint32_t)n, r->now_ns);
}

/* A segment on each of the next connections, or all on the one. */
static void turn(struct rig *r, uint32_t at)
{
	static uint8_t bytes[SEGMENT];
	uint32_t n, n_segments;

	r->now_ns += TURN_NS;
	uint64_t t0 = tick_now();
	for (uint32_t i = 0; i < SOON; i++)
		tcp_send_soon(r->conns[(at + i) % r->n_conns]);
	/* A young connection takes less than it is offered. */
	for (uint32_t i = 0; i < BATCH; i++) {
		tcp_send_soon(r->conns[(at + i + SOON) % r->n_conns]);
		tcp_send(r->conns[(at + i) % r->n_conns], bytes, SEGMENT,
			 r->now_ns);
	}
	n = frames_take(r, SENDER);
	uint64_t t1 = tick_now();
	frames_move(r, RECEIVER, n);
	uint64_t t2 = tick_now();
	frames_done(r, n);
	tcp_timers(r->stack[SENDER], r->now_ns);
	uint64_t t3 = tick_now();
	n_segments = n;
	frames_give(r, RECEIVER, n);
	programs_read(r);
	tcp_timers(r->stack[RECEIVER], r->now_ns);
	n = frames_take(r, RECEIVER);
	uint64_t t4 = tick_now();
	frames_move(r, SENDER, n);
	frames_done(r, n);
	uint64_t t5 = tick_now();
	frames_give(r, SENDER, n);
	while (tcp_next_ready(r->stack[SENDER]))
		;
	uint64_t t6 = tick_now();
	if (!n_segments)
		return;
	r->n_segments += n_segments;
	times_add(&r->times[SENDER],
		  (t1 - t0 + (t3 - t2) + (t6 - t5)) * 16 / n_segments);
	times_add(&r->times[RECEIVER], (t4 - t3) * 16 / n_segments);
}

/* CONNECTIONS; prints what a segment costs each side. */
int peer_engine(int argc, char **args)
{
	static struct rig r;
	uint32_t n_conns = (uint32_t)atoi(args[0]), at = 0;
	uint32_t n_warm = 2 * n_conns / BATCH + 1000;

	rig_init(&r, n_conns ? n_conns : 1);
	times_init(&r.times[SENDER]);
	times_init(&r.times[RECEIVER]);
	open_all(&r);
	for (uint32_t i = 0; i < n_warm + MEASURE_TURNS; i++) {
		if (i == n_warm) {
			r.times[SENDER].n = r.times[RECEIVER].n = 0;
			r.n_segments = 0;
		}
		turn(&r, at);
		at = (at + BATCH) % r.n_conns;
	}
	printf("segments %llu\ntx_ns %.1f\nrx_ns %.1f\n",
	       (unsigned long long)r.n_segments,
	       times_median_ns(&r.times[SENDER]) / 16,
	       times_median_ns(&r.times[RECEIVER]) / 16);
	return 0;
}
