/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/world_net.c - ports: frames become packets on wires, and packets become frames
 *
 * Each stack has a port (port/port.h).  It sends a frame at once, or has a ring of slots
 * in which frames wait.  It reads the bytes of a frame when the frame leaves, and they
 * must not have changed.
 */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/tcp/drive.h"

static const struct port_ops ops;

static struct world_port *of(const struct port *p)
{
	return container_of((struct port *)(uintptr_t)p, struct world_port,
			    port);
}

void world_ports_init(struct world *w)
{
	for (uint32_t i = 0; i < w->n_stacks; i++) {
		struct world_port *p = &w->port[i];

		*p =
		    (struct world_port){ .port = { &ops }, .w = w, .stack = i };
		p->in_tail = &p->in;
		if (!w->cfg.port_frames)
			continue;
		p->ring = calloc(w->cfg.port_frames, sizeof(struct port_slot));
		assert(p->ring);
	}
}

/* Drops the frames that wait. */
void world_port_forget(struct world *w, uint32_t i)
{
	struct world_port *p = &w->port[i];

	for (; p->tail != p->head; p->tail++)
		tcp_frame_done(&p->ring[p->tail % w->cfg.port_frames].f);
	p->was_reset = false;
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

/* @interface: see capture_open() */
static void capture(struct world *w, uint32_t interface, const uint8_t *p,
		    uint32_t len, const char *comment)
{
	if (!w->pcap)
		return;
	pcapng_write(w->pcap,
		     &(struct pcapng_frame){
			 .interface = interface,
			 .direction = interface % 2 ? PCAPNG_IN : PCAPNG_OUT,
			 .at_ns = w->now_ns,
			 .data = p,
			 .len = len,
			 .comment = comment });
}

static void put(struct world *w, uint32_t side, const uint8_t *p, uint32_t len,
		bool is_sum_good)
{
	note(w, p, len);
	capture(w, 2 * side, p, len, NULL);
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

static struct port_slot *slot_at(const struct world_port *p, uint32_t at)
{
	return &p->ring[at % p->w->cfg.port_frames];
}

static void ring_leave(struct world_port *p)
{
	for (; p->tail != p->head; p->tail++) {
		struct port_slot *slot = slot_at(p, p->tail);

		if (slot->leaves_ns > p->w->now_ns)
			return;
		slot_leave(p->w, p->stack, slot);
	}
}

static struct tcp_frame *port_room(struct port *port, uint64_t now_ns)
{
	struct world_port *p = of(port);

	if (!p->ring)
		return &p->slot.f;
	ring_leave(p);
	return p->head - p->tail < p->w->cfg.port_frames
		   ? &slot_at(p, p->head)->f
		   : NULL;
}

static void port_send(struct port *port, struct tcp_frame *f, uint64_t now_ns)
{
	struct world_port *p = of(port);
	struct world *w = p->w;
	struct port_slot *slot = container_of(f, struct port_slot, f);

	world_check_frame(w, (int)p->stack, f, slot);
	if (!p->ring) {
		slot_leave(w, p->stack, slot);
		return;
	}
	slot->leaves_ns = w->now_ns;
	if (w->cfg.port_hold_ns)
		slot->leaves_ns += world_random(w) % w->cfg.port_hold_ns;
	if (p->head != p->tail) {
		uint64_t before = slot_at(p, p->head - 1)->leaves_ns;

		if (slot->leaves_ns < before)
			slot->leaves_ns = before;
	}
	p->head++;
}

static void port_flush(struct port *port, uint64_t now_ns)
{
	ring_leave(of(port));
}

static uint64_t port_next_ns(const struct port *port)
{
	const struct world_port *p = of(port);

	return p->head != p->tail ? slot_at(p, p->tail)->leaves_ns : UINT64_MAX;
}

void world_frames_out(struct world *w)
{
	for (uint32_t i = 0; i < w->n_stacks; i++)
		drive_out(w->stack[i], &w->port[i].port, world_clock(w));
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
static void check_replies(struct world_port *p)
{
	const struct tcp_stack *s = p->w->stack[p->stack];

	for (; p->was_reset && p->replies != s->reply_head; p->replies++)
		assert(
		    !(s->replies[p->replies % TX_REPLIES].seg.flags & TCP_RST));
	p->was_reset = false;
}

static void push(struct world_port *p, struct wire_packet *packet)
{
	packet->next = NULL;
	*p->in_tail = packet;
	p->in_tail = &packet->next;
}

static struct wire_packet *pop(struct world_port *p)
{
	struct wire_packet *first = p->in;

	if (!first)
		return NULL;
	p->in = first->next;
	if (!p->in)
		p->in_tail = &p->in;
	return first;
}

/* The next packet for this stack.  All packets of a host come to its first stack's port,
 * and go on to the other one if that stack has the connection. */
static struct wire_packet *next_packet(struct world_port *p)
{
	struct world *w = p->w;
	uint32_t host = world_host_of(w, p->stack);
	struct wire_packet *packet;

	while ((packet = pop(p))) {
		uint32_t to = world_steer(w, host, packet->data, packet->len);

		if (to == p->stack)
			break;
		push(&w->port[to], packet);
	}
	return packet;
}

static bool port_is_short(const struct port *port)
{
	const struct world_port *p = of(port);

	return p->w->rx_pool[p->stack].n_free <= SIM_PORT_RESERVE;
}

/* One packet at a time, because what is checked depends on those before. */
static uint32_t port_recv(struct port *port, struct tcp_rx_frame *f,
			  uint32_t max, uint64_t now_ns)
{
	struct world_port *p = of(port);
	struct tcp_stack *s = p->w->stack[p->stack];
	struct pool *rx = &p->w->rx_pool[p->stack];
	struct wire_packet *packet;
	struct ip_packet ip;
	struct tcp_seg seg;

	check_replies(p);
	assert(rx->n_free >= SIM_PORT_RESERVE);
	while ((packet = next_packet(p))) {
		bool is_dropped = !packet->may_hit && is_lucky(s, packet);

		p->was_reset = !is_dropped && read_segment(packet, &ip, &seg) &&
			       seg.flags & TCP_RST;
		p->replies = s->reply_head;
		if (!is_dropped)
			*f = sim_frame(rx, packet);
		free(packet);
		if (!is_dropped)
			return 1;
	}
	return 0;
}

static const struct port_ops ops = {
	.recv = port_recv,
	.is_short = port_is_short,
	.room = port_room,
	.send = port_send,
	.flush = port_flush,
	.next_ns = port_next_ns,
};

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

static bool has_arrivals(const struct world *w)
{
	for (uint32_t i = 0; i < w->n_stacks; i++)
		if (w->port[i].in)
			return true;
	return false;
}

/* Runs the timers, too. */
void world_frames_in(struct world *w)
{
	struct wire_packet *p;

	for (uint32_t i = 0; i < w->cfg.n_stacks; i++)
		while ((p = wire_take(&w->wire[i], w->now_ns))) {
			uint32_t to = route(w, i, p);

			capture(w, 2 * to + 1, p->data, p->len,
				p->is_forged ? "forged" : NULL);
			p->may_hit = w->wire[i].model.kill;
			push(&w->port[to], p);
		}
	do {
		for (uint32_t i = 0; i < w->n_stacks; i++)
			drive_in(w->stack[i], &w->port[i].port, world_clock(w));
	} while (has_arrivals(w));
}
