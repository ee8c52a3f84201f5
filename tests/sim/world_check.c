/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/world_check.c - what must hold after every step, and for every frame
 *
 *   I1  bytes received are the bytes sent, once and in order (world_app.c)
 *   I2  the bytes of a frame do not change until the port gives it back (world_net.c)
 *   I3  at the end all buffers of all pools are free (world.c)
 *   I4  no data lies beyond what the peer has advertised
 *   I5  snd_una, rcv_nxt and the window's right edge never move back, nor does the edge in
 *       the segments on the wire
 *   I6  conn_check() of each connection: queues, counters, timers, states
 *   I7  the retransmission time-out and the number of retries are within their bounds
 *   I8  new data stays within the congestion window
 *   I9  no reset answers a reset (world_net.c)
 *   I10 a program is told once of the end of its connection (world_app.c)
 *   I11 every armed timer belongs to a living connection
 *   I12 a program is told when there is something new for it
 *   I13 what TCP_INFO counts agrees with what programs have sent and read
 *   I14 nothing stays unanswered for longer than the user time-out
 *   I15 lent bytes come back once, after they were acknowledged (world_send.c)
 *   I16 nothing is left of connections that are over
 *   I17 the memory that received segments use is the sum over the connections
 *   I18 no call touches more ranges than TCP_WORK_MAX, besides those that it frees
 *   I19 our timestamps never step back, whichever stack sends them
 */
#include "world.h"

#include <stdio.h>

#include "tcp/info.h"
#include "tcp/snd.h"
#include "tcp/timer.h"

/* How many connections, and ranges of queues, one step checks.  If there are more, the
 * steps check them in rotation. */
#define CONNS_PER_STEP 4
#define RANGES_PER_STEP 256
#define INFO_EVERY 64 /* steps */

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
	/* Tuning only makes a buffer larger. */
	if (e->is_seen && !(c->flags & CONN_RCV_BUF_SET))
		assert(e->buf_seen <= c->rcv_buf);
	e->buf_seen = c->rcv_buf;
	e->is_seen = true;
	e->una_seen = c->snd_una;
	e->rcv_seen = c->rcv_nxt;
	e->adv_seen = c->rcv_adv;
}

/* Whether @c talks to @d, and not to an earlier connection: one from before its host
 * lost its power, or one whose cookie's ACK came again and made another connection with
 * the same numbers, which has not sent what @c has received. */
static bool are_partners(const struct tcp_conn *c, const struct tcp_conn *d)
{
	return seq_eq(d->irs, c->iss) && seq_le(c->rcv_nxt, d->snd_nxt);
}

/* I4: the window that the sender believes in is not larger than the real one. */
static void check_window(const struct world *w, const struct end *e,
			 const struct end *peer)
{
	const struct tcp_conn *c = e->conn, *d = peer->conn;

	if (!c || !d || c->state < TCP_ESTABLISHED ||
	    d->state < TCP_ESTABLISHED || e->round != peer->round ||
	    w->cfg.is_mutated || !are_partners(c, d))
		return;
	assert(seq_le(seq_add(c->snd_una, c->snd_wnd), d->rcv_adv));
}

/* A timer of the wheel may fire one tick late. */
#define TICK_NS (2 * NS_PER_MS)

static void check_times(const struct tcp_conn *c, uint64_t now_ns)
{
	assert(conn_rto_base_ns(c) >= RTO_MIN_NS &&
	       conn_rto_base_ns(c) <= RTO_MAX_NS);
	assert(c->n_rtx <= DATA_RETRIES);
	/* With a user time-out, the number of keepalive probes has no limit. */
	assert(c->n_probes <= DATA_RETRIES ||
	       (c->keep_idle_s && c->user_timeout_ms));
	if (c->rtx_at_ns != WHEEL_NEVER)
		assert(c->rtx_at_ns <= now_ns + RTO_MAX_NS);
	/* Use the time until which the timers have run.  The clock may have slipped
	 * back for them, and have been ahead for other calls. */
	uint64_t ran_ns = c->stack->wheel.tick << WHEEL_TICK_SHIFT;
	if (c->user_timeout_ms && c->rtx_since_ns &&
	    c->state >= TCP_ESTABLISHED)
		assert(ran_ns <= c->rtx_since_ns + TICK_NS +
				     c->user_timeout_ms * NS_PER_MS);
}

static void check_info(const struct world *w, const struct tcp_conn *c)
{
	const struct end *e = c->user;
	struct tcp_conn_info i;

	tcp_get_info(c, &i, c->stack->now_ns);
	assert(i.tcpi_total_retrans <= i.tcpi_data_segs_out);
	assert(i.tcpi_data_segs_out <= i.tcpi_segs_out);
	assert(i.tcpi_data_segs_in <= i.tcpi_segs_in);
	assert(i.tcpi_rwnd_limited + i.tcpi_sndbuf_limited <= i.tcpi_busy_time);
	assert(i.tcpi_busy_time <= w->now_ns / NS_PER_US);
	if (c->state < TCP_ESTABLISHED || !e || e->conn != c ||
	    w->cfg.is_mutated)
		return;
	assert(i.tcpi_bytes_acked + tcp_unacked_bytes(c) == e->n_sent);
	assert(i.tcpi_notsent_bytes <= tcp_unacked_bytes(c));
	assert(i.tcpi_sacked <= i.tcpi_unacked);
	/* Reads skip urgent bytes. */
	uint64_t got = (uint64_t)e->n_got + c->rcvq_bytes;
	const struct end *from = &w->ends[!e->side][e->pair];
	bool has_urgent = from->n_urgent || from->round != e->round;
	assert(has_urgent ? got <= i.tcpi_bytes_received
			  : got == i.tcpi_bytes_received);
}

static void check_stack(struct world *w, struct tcp_stack *s)
{
	uint32_t work = tcp_most_work(s);

	if (work > TCP_WORK_MAX)
		fprintf(stderr, "a call has touched %u ranges\n", work);
	assert(work <= TCP_WORK_MAX);
	w->most_work = work > w->most_work ? work : w->most_work;
	const struct list *head = &s->conns;
	uint32_t n = s->pool_conns.n - s->pool_conns.n_free;
	uint32_t n_ranges = s->pool_ranges.n - s->pool_ranges.n_free,
		 n_lying = 0;
	uint32_t every = 1 + n / CONNS_PER_STEP + n_ranges / RANGES_PER_STEP;
	uint64_t i = w->n_steps, rcv_mem = 0;

	for (struct list *l = head->next; l != head; l = l->next, i++) {
		const struct tcp_conn *c =
		    container_of(l, struct tcp_conn, all_link);

		n_lying += timer_is_lying(&c->timer);
		rcv_mem += c->rcv_mem;
		if (i % every)
			continue;
		conn_check(c);
		check_times(c, w->now_ns);
		if (w->n_steps % INFO_EVERY == 0)
			check_info(w, c);
	}
	assert(n_lying == s->wheel.n_lying);
	assert(rcv_mem == s->rcv_mem);
}

void world_check(struct world *w)
{
	for (uint32_t i = 0; i < w->n_stacks; i++)
		check_stack(w, w->stack[i]);
	for (int i = 0; i < 2; i++)
		for (uint32_t p = 0; p < w->cfg.n_pairs; p++) {
			check_end(&w->ends[i][p]);
			check_window(w, &w->ends[i][p], &w->ends[!i][p]);
		}
}

/* A window that has grown, or a frame that has left, makes room without news: the next
 * ACK brings them. */
static bool may_room_wait(const struct tcp_conn *c)
{
	return tcp_unacked_bytes(c) &&
	       (c->stack->cfg.snd_buf_max || c->notsent_lowat);
}

/* I12: programs that have looked at a connection sleep until the stack names it. */
void world_check_news(struct world *w)
{
	struct tcp_conn *c;

	for (uint32_t i = 0; i < w->n_stacks; i++)
		while ((c = tcp_next_ready(w->stack[i])))
			((struct end *)c->user)->was_told = true;
	for (int i = 0; i < 2; i++)
		for (uint32_t p = 0; p < w->cfg.n_pairs; p++) {
			const struct end *e = &w->ends[i][p];
			unsigned events = e->conn ? tcp_poll(e->conn) : 0;

			if (e->conn && may_room_wait(e->conn))
				events &= ~(unsigned)TCP_WRITABLE;
			assert(!(events & ~e->events_seen) || e->was_told);
		}
}

static const uint32_t none[FLOW_WAYS];

static bool has_end(const struct world *w, const struct tcp_conn *c)
{
	const struct end *e = c->user;

	return !(c->flags & CONN_ORPHAN) && e && e->conn == c;
}

/* I16, for a world in which nothing more can happen. */
const char *world_leftover(const struct world *w)
{
	for (uint32_t i = 0; i < w->n_stacks; i++) {
		const struct tcp_stack *s = w->stack[i];
		uint32_t n = 0;

		for (struct list *l = s->conns.next; l != &s->conns;
		     l = l->next, n++)
			if (!has_end(
				w, container_of(l, struct tcp_conn, all_link)))
				return "a connection that nobody has";
		if (n != s->pool_conns.n - s->pool_conns.n_free)
			return "a connection's memory";
		if (s->pool_reqsks.n_free != s->pool_reqsks.n ||
		    s->pool_tws.n_free != s->pool_tws.n)
			return "a half-open connection, or one in TIME-WAIT";
		for (unsigned k = 0; k < TCP_LISTENERS_MAX; k++)
			if (s->listeners[k].n_reqsks ||
			    s->listeners[k].n_accept)
				return "a listener's count";
		for (uint32_t b = 0; !n && b < s->n_buckets; b++)
			if (memcmp(&s->buckets[b].id, &none, sizeof(none)) ||
			    s->buckets[b].more)
				return "a flow";
	}
	return NULL;
}

static struct flow *flow_of(struct world *w, int from, bool is_peer,
			    const struct ip_packet *ip,
			    const struct tcp_seg *seg)
{
	struct flow *found = NULL;

	if (!is_peer)
		return flow_find(w->stack[from], 0, seg->sport, &ip->dst,
				 seg->dport);
	for (uint32_t i = 0; !found && i < w->n_stacks; i++)
		if (ip_addr_eq(&w->stack[i]->cfg.addrs[0], &ip->dst))
			found = flow_find(w->stack[i], 0, seg->dport, &ip->src,
					  seg->sport);
	return found;
}

static struct tcp_conn *conn_find(struct world *w, int from, bool is_peer,
				  const struct ip_packet *ip,
				  const struct tcp_seg *seg)
{
	struct flow *f = flow_of(w, from, is_peer, ip, seg);

	return f && f->kind == FLOW_CONN
		   ? container_of(f, struct tcp_conn, flow)
		   : NULL;
}

/* I5, on the wire: the scale rounds the edge down. */
static void check_edge(struct end *e, const struct tcp_conn *c,
		       const struct tcp_seg *seg)
{
	seq32 edge = seq_add(seg->ack, (uint32_t)seg->wnd << c->rcv_wscale);

	/* Skip a connection that its program closed before it began again. */
	if (e->round && e->conn != c)
		return;
	if (!(seg->flags & TCP_ACK) || seg->flags & (TCP_SYN | TCP_RST) ||
	    c->state < TCP_ESTABLISHED || c->flags & CONN_FIN_RCVD)
		return;
	if (e->is_edge_seen)
		assert(
		    seq_lt(e->edge_seen, seq_add(edge, 1u << c->rcv_wscale)));
	if (!e->is_edge_seen || seq_lt(e->edge_seen, edge))
		e->edge_seen = edge;
	e->is_edge_seen = true;
}

/* I19. */
static void check_tsval(struct end *e, const struct tcp_conn *c,
			const struct tcp_seg *seg)
{
	if (!seg->has_ts || e->conn != c)
		return;
	if (e->is_tsval_seen)
		assert((int32_t)(seg->tsval - e->tsval_seen) >= 0);
	e->tsval_seen = seg->tsval;
	e->is_tsval_seen = true;
}

/* I8: segments in flight count whole, so the last one may exceed cwnd.  A tail loss
 * probe needs no room in cwnd. */
static void check_cwnd(const struct tcp_conn *c, const struct tcp_seg *seg,
		       uint32_t len)
{
	bool is_new = seq_eq(seq_add(seg->seq, len + !!(seg->flags & TCP_FIN)),
			     c->snd_nxt);

	if (len && is_new && c->ca_state == CA_OPEN && !c->rec.is_tlp_out)
		assert(conn_pipe(c) <= c->cwnd + 2u * c->mss);
}

/* Sets in @known what the payload has to be. */
void world_check_frame(struct world *w, int from, const struct tcp_frame *f,
		       struct port_slot *known)
{
	struct ip_packet ip = { 0 };
	struct tcp_seg seg;
	int err = tcp_head_parse(f->head + f->ip_len,
				 (uint32_t)(f->head_len - f->ip_len), &seg);

	assert(!err);
	known->end = NULL;
	if (w->cfg.is_mutated)
		return;
	bool is_v6 = f->head[0] >> 4 == 6;
	ip.src = w->stack[from]->cfg.addrs[0];
	ip.dst = ip.src;
	memcpy(ip.dst.b + (is_v6 ? 0 : 12), f->head + (is_v6 ? 24 : 16),
	       is_v6 ? 16 : 4);
	const struct flow *to = flow_of(w, from, true, &ip, &seg);
	/* A connection in TIME-WAIT may be gone when the second ACK of its FIN arrives;
	 * that reset harms nobody. */
	w->n_resets +=
	    seg.flags & TCP_RST && !(to && to->kind == FLOW_TIME_WAIT);
	const struct tcp_conn *c = conn_find(w, from, false, &ip, &seg);
	const struct tcp_conn *peer = conn_find(w, from, true, &ip, &seg);
	if (c && c->user) {
		struct end *e = c->user;

		known->end = e->round && e->conn != c ? NULL : e;
		known->round = e->round;
		known->off = seq_len(seq_add(c->iss, 1), seg.seq);
		check_edge(e, c, &seg);
		check_tsval(e, c, &seg);
		check_cwnd(c, &seg, f->len);
	}
	/* I4: the other stack knows what it has advertised. */
	if (f->len && c && peer && peer->state >= TCP_ESTABLISHED &&
	    are_partners(c, peer))
		assert(seq_le(seq_add(seg.seq, f->len), peer->rcv_adv));
}
