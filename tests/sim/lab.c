/* SPDX-License-Identifier: MIT */
/* tests/sim/lab.c - flows over one bottleneck, for measurements; see lab.h */
#include "lab.h"

#include <stdlib.h>

#include "proto/tcp/drive.h"

#define PORT 80
#define FIRST_PORT 5000
#define FRAME_BYTES 1536

enum side { SENDERS, RECEIVERS };

static struct tcp_config stack_config(const struct lab_config *cfg,
				      enum side side)
{
	uint64_t all = (uint64_t)cfg->buf_bytes * cfg->n_flows;

	return (struct tcp_config){
		.key = { { cfg->seed + side, 0x5678 } },
		.addrs = { ip_addr_v4(0x0a000001u + side) },
		.n_addrs = 1,
		.mtu = 1500,
		.offers = TCP_OFFER_ALL,
		.snd_buf = cfg->buf_bytes,
		.rcv_buf = cfg->buf_bytes,
		.cc = cfg->cc,
		.ecn = cfg->ecn,
		.is_paced = cfg->is_paced,
		.n_conns = cfg->n_flows + 1,
		.n_reqsks = cfg->n_flows + 1,
		.n_ranges = (uint32_t)(all / 512) + 4096,
		.n_extents = (uint32_t)(all / 16384) + 2 * cfg->n_flows,
		.extent_bytes = 16384,
	};
}

void lab_init(struct lab *l, const struct lab_config *cfg)
{
	uint64_t all = (uint64_t)cfg->buf_bytes * cfg->n_flows;
	uint32_t n_rx = (uint32_t)(all / 1024) + 1024;

	*l = (struct lab){ .cfg = *cfg, .now_ns = 1000000 };
	wire_init(&l->wire[SENDERS], &cfg->to, cfg->seed * 2);
	wire_init(&l->wire[RECEIVERS], &cfg->back, cfg->seed * 2 + 1);
	for (int i = 0; i < 2; i++) {
		struct tcp_config c = stack_config(cfg, (enum side)i);
		size_t rx = sim_port_bytes(FRAME_BYTES, n_rx);

		l->stack_mem[i] = aligned_alloc(64, tcp_stack_bytes(&c));
		l->rx_mem[i] = aligned_alloc(64, rx);
		assert(l->stack_mem[i]);
		assert(l->rx_mem[i]);
		l->stack[i] = tcp_stack_init(l->stack_mem[i], &c, l->now_ns);
		sim_port_init(&l->port[i], &l->wire[i], &l->wire[!i],
			      l->rx_mem[i], FRAME_BYTES, n_rx);
	}
	int err = tcp_listen(l->stack[RECEIVERS], NULL, PORT, LAB_FLOWS,
			     &l->listener);
	assert(!err);
}

void lab_fini(struct lab *l)
{
	for (int i = 0; i < 2; i++) {
		tcp_stack_fini(l->stack[i]);
		wire_fini(&l->wire[i]);
		free(l->stack_mem[i]);
		free(l->rx_mem[i]);
	}
}

static void flow_open(struct lab *l)
{
	struct tcp_stack *s = l->stack[SENDERS];
	struct lab_flow *f = &l->flows[l->n_open];
	int err = tcp_connect(
	    s, &s->cfg.addrs[0], (uint16_t)(FIRST_PORT + l->n_open),
	    &l->stack[RECEIVERS]->cfg.addrs[0], PORT, l->now_ns, &f->from);

	assert(!err);
	l->n_open++;
}

static void flow_write(struct lab *l, struct lab_flow *f)
{
	static const uint8_t zeros[65536];

	while (f->from && f->n_sent < l->cfg.n_bytes) {
		uint64_t left = l->cfg.n_bytes - f->n_sent;
		ssize_t n = tcp_send(f->from, zeros,
				     (size_t)MIN(left, (uint64_t)sizeof(zeros)),
				     l->now_ns);

		if (n == -EAGAIN)
			return;
		assert(n > 0);
		f->n_sent += (uint64_t)n;
	}
}

static void flow_read(struct lab *l, struct lab_flow *f)
{
	const uint8_t *data;
	ssize_t n;

	while (f->to && (n = tcp_peek(f->to, &data)) > 0) {
		tcp_consume(f->to, (uint32_t)n, l->now_ns);
		f->n_got += (uint64_t)n;
	}
	if (f->to && !f->done_ns && f->n_got == l->cfg.n_bytes) {
		f->done_ns = l->now_ns;
		l->n_done++;
	}
}

static void programs(struct lab *l)
{
	struct tcp_conn *c;

	while ((c = tcp_accept(l->listener)))
		l->flows[c->flow.rport - FIRST_PORT].to = c;
	/* Connections with news read and write; there are few. */
	while ((c = tcp_next_ready(l->stack[SENDERS])))
		flow_write(l, &l->flows[c->flow.lport - FIRST_PORT]);
	while ((c = tcp_next_ready(l->stack[RECEIVERS])))
		flow_read(l, &l->flows[c->flow.rport - FIRST_PORT]);
}

void lab_run(struct lab *l, uint64_t until_ns)
{
	uint64_t next_open = l->now_ns;

	while (l->n_done < l->cfg.n_flows && l->now_ns < until_ns) {
		uint64_t at = UINT64_MAX;

		if (l->n_open < l->cfg.n_flows && l->now_ns >= next_open) {
			flow_open(l);
			next_open += l->cfg.start_every_ns;
		}
		programs(l);
		for (int i = 0; i < 2; i++)
			drive_out(l->stack[i], &l->port[i].port, l->now_ns);
		for (int i = 0; i < 2; i++) {
			uint64_t next =
			    drive_next_ns(l->stack[i], &l->port[i].port);

			at = MIN(at, next);
		}
		if (l->n_open < l->cfg.n_flows)
			at = MIN(at, next_open);
		l->now_ns = at > l->now_ns ? at : l->now_ns;
		for (int i = 0; i < 2; i++)
			drive_in(l->stack[i], &l->port[i].port, l->now_ns);
	}
}
