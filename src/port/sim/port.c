/* SPDX-License-Identifier: MIT */
/* port/sim/port.c - a port between two wires in virtual time; see port.h */
#include "port/sim/port.h"

#include <stdlib.h>

static struct sim_port *of(const struct port *p)
{
	return container_of((struct port *)(uintptr_t)p, struct sim_port, port);
}

struct tcp_rx_frame sim_frame(struct pool *rx, const struct wire_packet *w)
{
	bool is_last = rx->n_free <= SIM_PORT_RESERVE;
	struct tcp_rx_frame f = { .ext = extent_new(rx),
				  .len = w->len,
				  .flags =
				      (w->is_sum_good ? TCP_RX_SUM_GOOD : 0u) |
				      (is_last ? TCP_RX_LENT : 0u) };

	assert(f.ext && f.ext->cap >= w->len);
	memcpy(f.ext->data, w->data, w->len);
	return f;
}

static bool sim_is_short(const struct port *port)
{
	return of(port)->rx.n_free <= SIM_PORT_RESERVE;
}

static uint32_t sim_recv(struct port *port, struct tcp_rx_frame *f,
			 uint32_t max, uint64_t now_ns)
{
	struct sim_port *p = of(port);
	struct wire_packet *w;
	uint32_t n = 0;

	while (n < max && !(n && sim_is_short(port)) &&
	       (w = wire_take(p->in, now_ns))) {
		f[n++] = sim_frame(&p->rx, w);
		free(w);
	}
	return n;
}

static struct tcp_frame *sim_room(struct port *port, uint64_t now_ns)
{
	return &of(port)->frame;
}

static void sim_send(struct port *port, struct tcp_frame *f, uint64_t now_ns)
{
	static uint8_t out[TCP_PACKET_MAX];
	struct sim_port *p = of(port);
	uint32_t n;

	for (uint32_t i = 0; (n = frame_packet(f, i, out)); i++) {
		if (!p->is_there || p->is_there(out))
			wire_send(p->out, out, n, true, now_ns);
	}
	tcp_frame_done(f);
}

static void sim_flush(struct port *port, uint64_t now_ns) {}

static uint64_t sim_next_ns(const struct port *port)
{
	return wire_next_ns(of(port)->in);
}

static const struct port_ops sim_ops = {
	.recv = sim_recv,
	.is_short = sim_is_short,
	.room = sim_room,
	.send = sim_send,
	.flush = sim_flush,
	.next_ns = sim_next_ns,
};

size_t sim_port_bytes(uint32_t cap, uint32_t n_frames)
{
	return (size_t)extent_size(cap) * n_frames;
}

void sim_port_init(struct sim_port *p, struct wire *out, struct wire *in,
		   void *mem, uint32_t cap, uint32_t n_frames)
{
	*p = (struct sim_port){ .port = { &sim_ops }, .out = out, .in = in };
	pool_init(&p->rx, mem, extent_size(cap), n_frames);
}
