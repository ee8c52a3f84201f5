/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/world_move.c - connections that leave their stack and go on in another one
 *
 *     the first stack of a host: opens, closes  <- tcp_export(), tcp_import() ->  the second
 *
 * The first stack stands for a kernel, which opens and closes connections.  In between
 * they go to the second stack and come back, at any moment, whatever is in their queues.
 * The host gives a segment to the stack that has its connection.
 *
 * The old stack forgets a connection when the new one has it.  If the new one has no
 * memory for it, it stays where it is.
 */
#include "world.h"

#include <stdlib.h>

#include "ip/icmp.h"
#include "tcp/export.h"

#define MOVES_MAX                                                              \
	2000 /* of an end: or a dead connection would move for hours */
#define AGAIN_NS NS_PER_MS

/* Bytes that move along. */
struct image {
	struct extent ext;
	struct world *w;
	uint8_t data[];
};

static void image_done(struct extent *e)
{
	struct image *m = container_of(e, struct image, ext);

	m->w->n_images--;
	free(m);
}

/* Return: NULL if there are no bytes. */
static struct image *image_new(struct world *w, uint32_t n)
{
	struct image *m = n ? malloc(sizeof(*m) + n) : NULL;

	if (!n)
		return NULL;
	assert(m);
	m->w = w;
	extent_lend(&m->ext, m->data, n, image_done);
	w->n_images++;
	return m;
}

static struct extent *image_ext(struct image *m) { return m ? &m->ext : NULL; }

static void image_put(struct image *m)
{
	if (m)
		extent_put(&m->ext);
}

static uint32_t stack_of(const struct world *w, const struct tcp_conn *c)
{
	uint32_t i = 0;

	while (w->stack[i] != c->stack)
		i++;
	return i;
}

static bool is_home(const struct world *w, const struct tcp_conn *c)
{
	return stack_of(w, c) < w->cfg.n_stacks;
}

/* Return: 0, or as tcp_export() or tcp_import(). */
static int move(struct world *w, struct end *e)
{
	uint32_t n = w->cfg.n_stacks, from = stack_of(w, e->conn);
	uint32_t to = from < n ? from + n : from - n;
	struct tcp_conn *was = e->conn, *is;
	struct tcp_image x;
	int err = tcp_export(was, &x, world_clock(w));

	if (err)
		return err;
	uint32_t n_queued = seq_len(x.snd_una, x.snd_end);
	struct image *queued = image_new(w, n_queued);
	struct image *unread = image_new(w, x.n_unread);
	if (queued && tcp_export_queued(was, queued->data, n_queued) < n_queued)
		assert(false);
	if (unread &&
	    tcp_export_unread(was, unread->data, x.n_unread) < x.n_unread)
		assert(false);
	/* The kernel may count microseconds. */
	if (!e->n_moves)
		x.is_ts_us = world_random(w) % 4 == 0;
	tcp_image_set_timestamp(&x, tcp_image_timestamp(&x));
	err = tcp_import(w->stack[to], &x, image_ext(queued), image_ext(unread),
			 world_clock(w), &is);
	image_put(queued);
	image_put(unread);
	if (err)
		return err;
	tcp_forget(was, world_clock(w));
	tcp_set_user(is, e);
	tcp_hold_end(is, w->cfg.holds_ends && to >= n, world_clock(w));
	e->conn = is;
	e->n_moves++;
	w->n_moves++;
	return 0;
}

/* A connection whose FIN may have left stays at home, for its TIME-WAIT. */
static bool is_settled(const struct world *w, const struct end *e)
{
	return e->n_moves >= MOVES_MAX || e->conn->state == TCP_CLOSED ||
	       (e->is_shut && is_home(w, e->conn));
}

static void end_move(struct world *w, struct end *e)
{
	if (!e->conn || w->now_ns < e->move_at_ns || is_settled(w, e))
		return;
	bool was_set = e->move_at_ns;
	e->move_at_ns = w->now_ns + 1 + world_random(w) % w->cfg.move_every_ns;
	if (!was_set || e->conn->state < TCP_ESTABLISHED)
		return;
	int err = move(w, e);
	assert(!err || err == -ENOBUFS || err == -EBUSY ||
	       (err == -EINVAL && e->conn->state == TCP_FIN_WAIT_2));
}

/* The peer's segment that was held, as far as it ends the connection, arrives again. */
static void inject(struct world *w, const struct end *e, enum tcp_end what)
{
	const struct tcp_conn *c = e->conn;
	struct extent *x = extent_new(&w->rx_pool[stack_of(w, c)]);
	struct tcp_seg seg = {
		.sport = c->flow.rport,
		.dport = c->flow.lport,
		.seq = c->rcv_nxt,
		.ack = c->snd_una,
		.flags = TCP_ACK | (what == TCP_END_FIN ? TCP_FIN : TCP_RST),
		.wnd = (uint16_t)MIN(c->snd_wnd >> c->snd_wscale, 65535u),
		.wscale = TCP_NO_WSCALE,
	};

	assert(x);
	uint32_t ip_len = ip_head_len(&c->flow.raddr);
	uint32_t n = tcp_head_build(x->data + ip_len, &seg);
	ip_build(x->data, &c->flow.raddr, &c->stack->cfg.addrs[0], IP_PROTO_TCP,
		 0, n);
	tcp_rx(c->stack, x, 0, ip_len + n, TCP_RX_SUM_GOOD, world_clock(w));
	extent_put(x);
}

/* Brings a connection home in front of its end. */
static void end_ends(struct world *w, struct end *e)
{
	enum tcp_end what = e->conn ? tcp_held_end(e->conn) : TCP_END_NONE;

	if (what < TCP_END_FIN || e->conn->state != TCP_ESTABLISHED)
		return;
	int err = move(w, e);
	if (!err)
		inject(w, e, what);
	else if (err == -EBUSY)
		tcp_hold_end(e->conn, false, world_clock(w));
	else
		e->move_at_ns = w->now_ns + AGAIN_NS;
}

void world_moves(struct world *w)
{
	for (int i = 0; w->cfg.move_every_ns && i < 2; i++)
		for (uint32_t p = 0; p < w->cfg.n_pairs; p++) {
			end_ends(w, &w->ends[i][p]);
			end_move(w, &w->ends[i][p]);
		}
}

/* As a kernel keeps the ports of the sockets whose connections it has given away. */
void world_keep_ports(struct world *w, uint32_t host)
{
	const struct tcp_stack *s = w->stack[host + w->cfg.n_stacks];
	uint8_t *bits = w->ports_kept[host];

	memset(bits, 0, sizeof(w->ports_kept[host]));
	for (const struct list *l = s->conns.next; l != &s->conns;
	     l = l->next) {
		const struct tcp_conn *c =
		    container_of(l, struct tcp_conn, all_link);

		bits[c->flow.lport / 8] |= (uint8_t)(1u << c->flow.lport % 8);
	}
}

bool world_move_home(struct world *w, struct end *e)
{
	if (e->conn->state == TCP_CLOSED || is_home(w, e->conn) || !move(w, e))
		return true;
	e->move_at_ns = w->now_ns + AGAIN_NS;
	return false;
}

/* A connection that nobody lets go home ends in the second stack, with its TIME-WAIT.  So
 * its ports must not be used again. */
bool world_may_shut_abroad(struct world *w, const struct end *e)
{
	const struct end_plan *p = &w->cfg.plan[e->side][e->pair];

	return w->cfg.move_every_ns && !p->closes_early && !w->cfg.n_again &&
	       !w->cfg.reboot_at_ns && !e->round &&
	       !w->ends[!e->side][e->pair].round && world_random(w) % 2;
}

/* The flow that a packet belongs to: its own, or that of the packet that an ICMP error
 * quotes. */
static struct flow *flow_of(struct tcp_stack *s, const uint8_t *p, uint32_t len)
{
	struct ip_packet ip;
	struct icmp_error e;

	if (ip_parse(p, len, &ip))
		return NULL;
	const uint8_t *l4 = p + ip.l4_off;
	if (ip.protocol == IP_PROTO_TCP && ip.l4_len >= 4)
		return flow_find(s, 0, load_be16(l4 + 2), &ip.src,
				 load_be16(l4));
	if (ip.protocol != (ip.is_v6 ? IP_PROTO_ICMPV6 : IP_PROTO_ICMP) ||
	    icmp_parse(&ip, l4, &e))
		return NULL;
	return flow_find(s, 0, e.sport, &e.dst, e.dport);
}

uint32_t world_steer(const struct world *w, uint32_t host, const uint8_t *p,
		     uint32_t len)
{
	uint32_t second = host + w->cfg.n_stacks;

	return w->cfg.move_every_ns && flow_of(w->stack[second], p, len)
		   ? second
		   : host;
}
