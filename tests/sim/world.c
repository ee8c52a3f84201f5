/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/world.c - two stacks, two wires, programs; see world.h
 *
 * Checked after every step:
 *   I1  bytes received are the bytes sent, once and in order
 *   I2  no data frame goes beyond what the peer has advertised
 *   I3  snd_una, rcv_nxt and the window's right edge never move back
 *   I4  conn_check() of each connection: queues, counters, timers, states
 *   I5  at the end all buffers of all pools are free
 */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>

#include "ip/gso.h"

#define PORT 80
#define ACTIVE_PORT 5000
#define RX_CAP_GSO 66000
#define RX_CAP 9100
#define RX_RESERVE 1 /* lent only, so that it is always there */

static uint64_t random_next(struct world *w)
{
	uint64_t z = w->seed += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static uint8_t byte_at(const struct end *e, uint32_t off)
{
	return (uint8_t)(off * 131 + (off >> 8) * 17 + (off >> 16) * 3 +
			 e->pair * 29 + e->side * 101);
}

static struct ip_addr addr_of(enum side side, bool is_v6)
{
	struct ip_addr a = { { 0x20, 1, 0x0d,
			       0xb8, [15] = (uint8_t)(1 + side) } };

	return is_v6 ? a : ip_addr_v4(0x0a000001u + side);
}

struct tcp_config world_stack(enum side side, bool is_v6)
{
	return (struct tcp_config){
		.key = { { 0x1234 + side, 0x5678 } },
		.addrs = { addr_of(side, is_v6) },
		.n_addrs = 1,
		.mtu = 1500,
		.offers = TCP_OFFER_ALL,
		.snd_buf = 1 << 18,
		.rcv_buf = 1 << 18,
		.cc = &tcp_newreno,
		.n_conns = 16,
		.n_minis = 16,
		.n_nodes = 8192,
		.n_extents = 1024,
		.extent_bytes = 4000,
	};
}

static void connect_end(struct world *w, struct end *e, uint16_t lport,
			uint16_t rport)
{
	struct tcp_stack *s = w->stack[e->side];
	const struct tcp_stack *peer = w->stack[!e->side];
	int err = tcp_connect(s, &s->cfg.addrs[0], lport, &peer->cfg.addrs[0],
			      rport, w->now_ns, &e->conn);

	assert(!err);
	tcp_set_user(e->conn, e);
	tcp_set_nodelay(e->conn, w->cfg.plan[e->side][e->pair].has_nodelay,
			w->now_ns);
}

static uint32_t rx_cap(const struct world_config *cfg)
{
	return cfg->carries_gso ? RX_CAP_GSO : RX_CAP;
}

void world_init(struct world *w, const struct world_config *cfg)
{
	*w =
	    (struct world){ .cfg = *cfg, .seed = cfg->seed, .now_ns = 1000000 };
	for (int i = 0; i < 2; i++) {
		uint32_t n_rx = cfg->rx_extents + RX_RESERVE;
		size_t rx = (size_t)extent_size(rx_cap(cfg)) * n_rx;

		w->stack_mem[i] =
		    aligned_alloc(64, tcp_stack_bytes(&cfg->stack[i]));
		w->rx_mem[i] = aligned_alloc(64, rx);
		assert(w->stack_mem[i]);
		assert(w->rx_mem[i]);
		w->stack[i] =
		    tcp_stack_init(w->stack_mem[i], &cfg->stack[i], w->now_ns);
		pool_init(&w->rx_pool[i], w->rx_mem[i],
			  extent_size(rx_cap(cfg)), n_rx);
		wire_init(&w->wire[i], &cfg->wire[i],
			  cfg->seed * 2 + (unsigned)i);
		for (uint32_t p = 0; p < cfg->n_pairs; p++)
			w->ends[i][p] =
			    (struct end){ .side = (enum side)i, .pair = p };
	}
	w->is_loud = getenv("SIM_TRACE");
	if (w->is_loud)
		setvbuf(stdout, NULL, _IOLBF, 0);
	int err =
	    tcp_listen(w->stack[SERVER], NULL, PORT, WORLD_PAIRS, &w->listener);
	assert(!err);
	for (uint32_t p = 0; p < cfg->n_pairs; p++) {
		uint16_t port = (uint16_t)(ACTIVE_PORT + p);

		if (cfg->is_simultaneous) {
			connect_end(w, &w->ends[CLIENT][p], port, port);
			connect_end(w, &w->ends[SERVER][p], port, port);
		} else {
			connect_end(w, &w->ends[CLIENT][p], port, PORT);
		}
	}
}

void world_fini(struct world *w)
{
	for (int i = 0; i < 2; i++) {
		tcp_stack_fini(w->stack[i]);
		assert(w->stack[i]->pool_extents.n_free ==
		       w->stack[i]->pool_extents.n);
		assert(w->rx_pool[i].n_free == w->rx_pool[i].n);
		wire_fini(&w->wire[i]);
		free(w->stack_mem[i]);
		free(w->rx_mem[i]);
	}
}

/* --- programs --- */

static void end_over(struct end *e, int err)
{
	e->conn = NULL;
	e->is_done = true;
	e->err = err;
}

static void end_write(struct world *w, struct end *e, const struct end_plan *p)
{
	uint8_t buf[4096];

	while (e->n_sent < p->n_bytes) {
		uint32_t n = MIN(p->n_bytes - e->n_sent, (uint32_t)sizeof(buf));

		n = p->write_max ? MIN(n, p->write_max) : n;
		for (uint32_t i = 0; i < n; i++)
			buf[i] = byte_at(e, e->n_sent + i);
		ssize_t took = tcp_send(e->conn, buf, n, w->now_ns);
		if (took == -EAGAIN)
			return;
		if (took < 0) {
			tcp_close(e->conn, w->now_ns);
			end_over(e, (int)took);
			return;
		}
		e->n_sent += (uint32_t)took;
	}
	if (!e->is_shut && e->conn->state >= TCP_ESTABLISHED) {
		e->is_shut = true;
		if (p->closes_early) {
			tcp_close(e->conn, w->now_ns);
			end_over(e, 0);
		} else {
			int err = tcp_shutdown(e->conn, w->now_ns);
			assert(!err);
		}
	}
}

static void end_read(struct world *w, struct end *e, const struct end_plan *p)
{
	struct end *from = &w->ends[!e->side][e->pair];
	uint32_t left = p->read_max ? p->read_max : UINT32_MAX;
	const uint8_t *data;
	ssize_t n;

	if (w->now_ns < p->read_from_ns || w->now_ns < e->read_at_ns)
		return;
	while (left && (n = tcp_peek(e->conn, &data)) > 0) {
		uint32_t take = MIN((uint32_t)n, left);

		for (uint32_t i = 0; i < take && !w->cfg.is_mutated; i++)
			assert(data[i] == byte_at(from, e->n_got + i));
		e->n_got += take;
		left -= take;
		tcp_consume(e->conn, take, w->now_ns);
		if (!left || !e->conn->rcvq_bytes)
			e->read_at_ns = w->now_ns + p->read_every_ns;
		n = -EAGAIN;
	}
	if (!left || n == -EAGAIN)
		return;
	if (n < 0) {
		tcp_close(e->conn, w->now_ns);
		end_over(e, (int)n);
		return;
	}
	e->got_eof = true;
	if (e->is_shut) {
		tcp_close(e->conn, w->now_ns);
		end_over(e, 0);
	}
}

static void end_act(struct world *w, struct end *e)
{
	const struct end_plan *p = &w->cfg.plan[e->side][e->pair];

	if (!e->conn)
		return;
	if (p->abort_at_ns && w->now_ns >= p->abort_at_ns) {
		tcp_abort(e->conn, w->now_ns);
		end_over(e, -ECONNABORTED);
		return;
	}
	if (e->conn->state >= TCP_ESTABLISHED)
		e->was_open = true;
	end_write(w, e, p);
	if (e->conn)
		end_read(w, e, p);
}

static void accept_all(struct world *w)
{
	struct tcp_conn *c;

	while ((c = tcp_accept(w->listener))) {
		uint32_t pair = c->flow.rport - (uint32_t)ACTIVE_PORT;

		/* A mutated wire makes connections that nobody opened. */
		if (pair >= w->cfg.n_pairs || w->ends[SERVER][pair].conn ||
		    w->ends[SERVER][pair].is_done) {
			assert(w->cfg.is_mutated);
			tcp_abort(c, w->now_ns);
			continue;
		}
		w->ends[SERVER][pair].conn = c;
		tcp_set_user(c, &w->ends[SERVER][pair]);
		tcp_set_nodelay(c, w->cfg.plan[SERVER][pair].has_nodelay,
				w->now_ns);
	}
}

/* --- frames --- */

/* SIM_TRACE=1 prints each frame as it is sent. */
static void print(const struct world *w, const uint8_t *p, uint32_t len)
{
	struct ip_packet ip;
	struct tcp_seg s;

	if (ip_parse(p, len, &ip) ||
	    tcp_head_parse(p + ip.l4_off, ip.l4_len, &s))
		return;
	printf("%12.6f %5u > %5u %s%s%s%s seq %u len %u ack %u wnd %u",
	       (double)w->now_ns / 1e9, s.sport, s.dport,
	       s.flags & TCP_SYN ? "S" : "", s.flags & TCP_FIN ? "F" : "",
	       s.flags & TCP_RST ? "R" : "", s.flags & TCP_ACK ? "." : "",
	       s.seq.v, s.len, s.ack.v, s.wnd);
	for (unsigned i = 0; i < s.n_sacks; i++)
		printf(" sack %u-%u", s.sacks[i].from.v, s.sacks[i].to.v);
	printf("\n");
}

static void note(struct world *w, const uint8_t *p, uint32_t len)
{
	if (w->is_loud)
		print(w, p, len);
	uint64_t h = w->trace ^ w->now_ns;

	for (uint32_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 0x100000001b3ull;
	w->trace = h;
	w->n_frames++;
}

/* I2: the other stack knows what it has advertised. */
static void check_window(struct world *w, int side, const struct tcp_frame *f)
{
	struct tcp_stack *peer = w->stack[!side];
	struct tcp_seg seg;
	int err = tcp_head_parse(f->head + f->ip_len,
				 (uint32_t)(f->head_len - f->ip_len), &seg);

	assert(!err);
	if (!f->len || w->cfg.is_mutated)
		return;
	struct flow *flow = flow_find(peer, 0, seg.dport,
				      &w->stack[side]->cfg.addrs[0], seg.sport);
	if (!flow || flow->kind != FLOW_CONN)
		return;
	struct tcp_conn *c = container_of(flow, struct tcp_conn, flow);
	if (c->state >= TCP_ESTABLISHED)
		assert(seq_le(seq_add(seg.seq, f->len), c->rcv_adv));
}

static void put(struct world *w, int side, const uint8_t *p, uint32_t len,
		bool is_sum_good)
{
	note(w, p, len);
	if (w->before_send)
		w->before_send(w, w->mask);
	wire_send(&w->wire[side], p, len, is_sum_good, w->now_ns);
}

static void frame_send(struct world *w, int side, const struct tcp_frame *f)
{
	static uint8_t payload[IP_MAX], out[IP_MAX + TCP_FRAME_HEAD];
	uint32_t len = 0;

	check_window(w, side, f);
	for (uint32_t i = 0; i < f->n_pieces; i++) {
		memcpy(payload + len, f->pieces[i].data, f->pieces[i].len);
		len += f->pieces[i].len;
	}
	assert(len == f->len);
	if (!f->gso_size || w->cfg.carries_gso) {
		memcpy(out, f->head, f->head_len);
		memcpy(out + f->head_len, payload, len);
		assert(f->gso_size ||
		       f->head_len + len <= w->cfg.stack[side].mtu);
		put(w, side, out, f->head_len + len, f->gso_size != 0);
		return;
	}
	for (uint32_t i = 0; i * f->gso_size < len; i++) {
		uint32_t n = gso_segment(f->head, f->ip_len, f->head_len,
					 payload, len, f->gso_size, i, out);

		assert(n <= w->cfg.stack[side].mtu);
		put(w, side, out, n, false);
	}
}

static void frames_out(struct world *w)
{
	struct tcp_frame f;

	for (int i = 0; i < 2; i++)
		while (tcp_tx(w->stack[i], &f, w->now_ns)) {
			frame_send(w, i, &f);
			tcp_frame_done(&f);
		}
}

static void frame_in(struct world *w, int side, const struct wire_packet *p)
{
	struct pool *pool = &w->rx_pool[side];
	unsigned flags = p->is_sum_good ? TCP_RX_SUM_GOOD : 0;

	if (pool->n_free <= RX_RESERVE)
		tcp_reclaim(w->stack[side]);
	if (pool->n_free <= RX_RESERVE)
		flags |= TCP_RX_LENT;
	struct extent *e = extent_new(pool);
	assert(e);
	memcpy(e->data, p->data, p->len);
	tcp_rx(w->stack[side], e, 0, p->len, flags, w->now_ns);
	extent_put(e);
	assert(pool->n_free >= RX_RESERVE);
}

static void frames_in(struct world *w)
{
	struct wire_packet *p;

	for (int i = 0; i < 2; i++)
		while ((p = wire_take(&w->wire[i], w->now_ns))) {
			frame_in(w, !i, p);
			free(p);
		}
}

/* --- invariants --- */

static void check_end(struct end *e)
{
	const struct tcp_conn *c = e->conn;

	if (!c || c->state < TCP_ESTABLISHED)
		return;
	if (e->is_seen) {
		assert(seq_le(e->una_seen, c->snd_una));
		assert(seq_le(e->rcv_seen, c->rcv_nxt));
		assert(seq_le(e->adv_seen, c->rcv_adv));
	}
	e->is_seen = true;
	e->una_seen = c->snd_una;
	e->rcv_seen = c->rcv_nxt;
	e->adv_seen = c->rcv_adv;
}

static void check(struct world *w)
{
	for (int i = 0; i < 2; i++) {
		struct list *head = &w->stack[i]->conns;

		for (struct list *l = head->next; l != head; l = l->next)
			conn_check(container_of(l, struct tcp_conn, all_link));
		for (uint32_t p = 0; p < w->cfg.n_pairs; p++)
			check_end(&w->ends[i][p]);
	}
}

/* --- time --- */

static uint64_t next_ns(const struct world *w)
{
	uint64_t at = UINT64_MAX;

	for (int i = 0; i < 2; i++) {
		at = MIN(at, wire_next_ns(&w->wire[i]));
		at = MIN(at, tcp_next_ns(w->stack[i]));
		for (uint32_t p = 0; p < w->cfg.n_pairs; p++) {
			const struct end *e = &w->ends[i][p];
			const struct end_plan *plan = &w->cfg.plan[i][p];
			const uint64_t wakes[] = { plan->read_from_ns,
						   e->read_at_ns,
						   plan->abort_at_ns };

			for (unsigned k = 0; e->conn && k < 3; k++)
				if (wakes[k] > w->now_ns)
					at = MIN(at, wakes[k]);
		}
	}
	return at;
}

static void heal(struct world *w)
{
	for (int i = 0; i < 2; i++) {
		struct wire_model *m = &w->wire[i].model;

		m->loss = m->duplicate = m->reorder = m->corrupt = 0;
		m->mutate = 0;
	}
	w->cfg.heals_at_ns = 0;
}

bool world_step(struct world *w)
{
	uint64_t at = next_ns(w);

	if (at == UINT64_MAX && w->n_steps)
		return false;
	/* What the calls before the first step made due goes at once. */
	if (w->n_steps && at > w->now_ns)
		w->now_ns = at;
	if (w->cfg.stall_ns && random_next(w) % 64 == 0)
		w->now_ns += random_next(w) % w->cfg.stall_ns;
	if (w->cfg.heals_at_ns && w->now_ns >= w->cfg.heals_at_ns)
		heal(w);
	frames_in(w);
	for (int i = 0; i < 2; i++)
		tcp_timers(w->stack[i], w->now_ns);
	accept_all(w);
	for (int i = 0; i < 2; i++) {
		for (uint32_t p = 0; p < w->cfg.n_pairs; p++)
			end_act(w, &w->ends[i][p]);
		while (tcp_next_ready(w->stack[i]))
			;
	}
	frames_out(w);
	check(w);
	w->n_steps++;
	return true;
}

static bool all_done(const struct world *w)
{
	for (int i = 0; i < 2; i++)
		for (uint32_t p = 0; p < w->cfg.n_pairs; p++)
			if (!w->ends[i][p].is_done)
				return false;
	return true;
}

bool world_run(struct world *w, uint64_t until_ns)
{
	while (w->now_ns < until_ns && world_step(w))
		;
	return all_done(w);
}
