/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/world_net.c - ports: frames become packets on wires, and packets become frames
 *
 * A port sends a frame at once, or has a ring of slots in which frames wait.  It reads
 * the bytes of a frame when the frame leaves, and they must not have changed.
 */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>

void world_ports_init(struct world *w)
{
	for (uint32_t i = 0; w->cfg.port_frames && i < w->n_stacks; i++) {
		w->port[i].ring =
		    calloc(w->cfg.port_frames, sizeof(struct port_slot));
		assert(w->port[i].ring);
	}
}

/* Drops the frames that wait. */
void world_port_forget(struct world *w, uint32_t i)
{
	struct port *p = &w->port[i];

	for (; p->tail != p->head; p->tail++)
		tcp_frame_done(&p->ring[p->tail % w->cfg.port_frames].f);
}

void world_ports_fini(struct world *w)
{
	for (uint32_t i = 0; i < w->n_stacks; i++) {
		world_port_forget(w, i);
		free(w->port[i].ring);
	}
}

/* --- out --- */

/* SIM_TRACE=1 prints each packet as it is sent. */
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
	uint64_t h = w->trace ^ w->now_ns, word;
	uint32_t i = 0;

	if (w->is_loud)
		print(w, p, len);
	for (; i + 8 <= len; i += 8) {
		memcpy(&word, p + i, 8);
		h = (h ^ word) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 29;
	}
	for (; i < len; i++)
		h = (h ^ p[i]) * 0x100000001b3ull;
	w->trace = h;
	w->n_frames++;
}

static void put(struct world *w, uint32_t side, const uint8_t *p, uint32_t len,
		bool is_sum_good)
{
	note(w, p, len);
	if (w->pcap)
		pcapng_packet(w->pcap, 2 * side, w->now_ns, p, len, NULL);
	if (w->on_sent)
		w->on_sent(w, (int)side, p, len);
	if (w->before_send)
		w->before_send(w, w->mask);
	wire_send(&w->wire[side], p, len, is_sum_good, w->now_ns);
}

static void frame_send(struct world *w, uint32_t stack,
		       const struct tcp_frame *f)
{
	uint32_t side = world_host_of(w, stack);
	static uint8_t out[TCP_PACKET_MAX];
	uint32_t n;

	if (f->gso_size && w->cfg.carries_gso) {
		put(w, side, out, frame_whole(f, out), true);
		return;
	}
	for (uint32_t i = 0; (n = frame_packet(f, i, out)); i++) {
		assert(n <= w->cfg.stack[side].mtu);
		put(w, side, out, n, false);
	}
}

/* The reference keeps the bytes unchanged, even if they were acknowledged since. */
static void slot_leave(struct world *w, uint32_t side, struct port_slot *slot)
{
	uint32_t off = slot->off;
	bool is_known = slot->end && slot->end->round == slot->round;

	for (uint32_t i = 0; is_known && i < slot->f.n_pieces; i++) {
		const struct tcp_piece *p = &slot->f.pieces[i];

		assert(!memcmp(p->data, world_bytes(slot->end, off), p->len));
		off += p->len;
	}
	frame_send(w, side, &slot->f);
	tcp_frame_done(&slot->f);
}

static void ring_leave(struct world *w, uint32_t side)
{
	struct port *p = &w->port[side];

	while (p->tail != p->head) {
		struct port_slot *slot = &p->ring[p->tail % w->cfg.port_frames];

		if (slot->leaves_ns > w->now_ns)
			return;
		slot_leave(w, side, slot);
		p->tail++;
	}
}

static bool ring_fill(struct world *w, uint32_t side)
{
	struct port *p = &w->port[side];
	uint32_t n = w->cfg.port_frames;

	while (p->head - p->tail < n) {
		struct port_slot *slot = &p->ring[p->head % n];
		uint64_t at = w->now_ns;

		if (!tcp_tx(w->stack[side], &slot->f, world_clock(w)))
			return false;
		world_check_frame(w, (int)side, &slot->f, slot);
		if (w->cfg.port_hold_ns)
			at += world_random(w) % w->cfg.port_hold_ns;
		if (p->head != p->tail &&
		    at < p->ring[(p->head - 1) % n].leaves_ns)
			at = p->ring[(p->head - 1) % n].leaves_ns;
		slot->leaves_ns = at;
		p->head++;
	}
	return true;
}

void world_frames_out(struct world *w)
{
	struct port_slot slot;

	for (uint32_t i = 0; i < w->n_stacks; i++) {
		if (w->cfg.port_frames) {
			do {
				ring_leave(w, i);
			} while (
			    ring_fill(w, i) &&
			    w->port[i]
				    .ring[w->port[i].tail % w->cfg.port_frames]
				    .leaves_ns <= w->now_ns);
			ring_leave(w, i);
			continue;
		}
		while (tcp_tx(w->stack[i], &slot.f, world_clock(w))) {
			world_check_frame(w, (int)i, &slot.f, &slot);
			slot_leave(w, i, &slot);
		}
	}
}

uint64_t world_ports_next(const struct world *w)
{
	uint64_t at = UINT64_MAX;

	for (uint32_t i = 0; w->cfg.port_frames && i < w->n_stacks; i++) {
		const struct port *p = &w->port[i];

		if (p->head != p->tail)
			at = MIN(
			    at,
			    p->ring[p->tail % w->cfg.port_frames].leaves_ns);
	}
	return at;
}

/* --- in --- */

static bool read_segment(const struct wire_packet *p, struct ip_packet *ip,
			 struct tcp_seg *seg)
{
	return !ip_parse(p->data, p->len, ip) && ip->protocol == IP_PROTO_TCP &&
	       !tcp_head_parse(p->data + ip->l4_off, ip->l4_len, seg);
}

static bool is_behind_all(const struct tcp_conn *c, seq32 seq)
{
	const struct range *r = c->oooq;

	while (r && r->next)
		r = r->next;
	return r && seq_eq(seq, range_end(r));
}

/* A forger's guess that hits exactly is as good as the truth, so the test ignores it. */
static bool is_lucky(struct tcp_stack *s, const struct wire_packet *p)
{
	struct ip_packet ip;
	struct tcp_seg seg;

	if (!p->is_forged || !read_segment(p, &ip, &seg) ||
	    !(seg.flags & TCP_RST))
		return false;
	struct flow *f = flow_find(s, 0, seg.dport, &ip.src, seg.sport);
	if (!f)
		return false;
	const struct tcp_conn *c = container_of(f, struct tcp_conn, flow);
	switch (f->kind) {
	case FLOW_SYN_RCVD:
		return seq_eq(
		    seg.seq,
		    seq_add(container_of(f, struct tcp_reqsk, flow)->irs, 1));
	case FLOW_TIME_WAIT:
		return seq_eq(seg.seq,
			      container_of(f, struct tcp_tw, flow)->rcv_nxt);
	default:
		return c->state == TCP_SYN_SENT ? seq_eq(seg.ack, c->snd_nxt)
						: seq_eq(seg.seq, c->rcv_nxt) ||
						      is_behind_all(c, seg.seq);
	}
}

/* RFC 9293 section 3.5.2: a reset is never answered by a reset. */
static void check_replies(const struct tcp_stack *s, uint32_t from)
{
	for (; from != s->reply_head; from++)
		assert(!(s->replies[from % TX_REPLIES].seg.flags & TCP_RST));
}

static void packet_in(struct world *w, uint32_t side,
		      const struct wire_packet *p)
{
	struct tcp_stack *s = w->stack[side];
	struct pool *pool = &w->rx_pool[side];
	unsigned flags = p->is_sum_good ? TCP_RX_SUM_GOOD : 0;
	uint32_t replies = s->reply_head;
	struct ip_packet ip;
	struct tcp_seg seg;

	if (pool->n_free <= WORLD_RX_RESERVE)
		tcp_reclaim(s);
	if (pool->n_free <= WORLD_RX_RESERVE)
		flags |= TCP_RX_LENT;
	struct extent *e = extent_new(pool);
	assert(e);
	memcpy(e->data, p->data, p->len);
	tcp_rx(s, e, 0, p->len, flags, world_clock(w));
	extent_put(e);
	assert(pool->n_free >= WORLD_RX_RESERVE);
	if (read_segment(p, &ip, &seg) && seg.flags & TCP_RST)
		check_replies(s, replies);
}

/* The last byte of the address names the stack; packets for unknown addresses go to the
 * other one. */
static uint32_t route(const struct world *w, uint32_t from,
		      const struct wire_packet *p)
{
	uint32_t at = p->data[0] >> 4 == 6 ? 39 : 19;
	uint32_t host = p->len > at ? p->data[at] - 1u : UINT32_MAX;

	if (host < w->cfg.n_stacks)
		return host;
	return from == SERVER ? CLIENT : SERVER;
}

void world_frames_in(struct world *w)
{
	struct wire_packet *p;

	for (uint32_t i = 0; i < w->cfg.n_stacks; i++)
		while ((p = wire_take(&w->wire[i], w->now_ns))) {
			uint32_t to = route(w, i, p);

			if (w->pcap)
				pcapng_packet(w->pcap, 2 * to + 1, w->now_ns,
					      p->data, p->len,
					      p->is_forged ? "forged" : NULL);
			to = world_steer(w, to, p->data, p->len);
			if (w->wire[i].model.kill || !is_lucky(w->stack[to], p))
				packet_in(w, to, p);
			free(p);
		}
}
