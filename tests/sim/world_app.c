/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/world_app.c - the programs at the ends of connections
 *
 * Each program does what its plan says, checks every byte that it reads, and must be
 * told once of the end of its connection.
 */
#include "world.h"
#include "tcp/rcv.h"

/* A prime number, so bytes that are off by a power of two or by a segment do not
 * match. */
#define PERIOD 65521

static uint8_t pattern[PERIOD + WORLD_CHUNK];

static const uint8_t *bytes_of(uint32_t side, uint32_t pair, uint32_t round,
			       uint32_t off)
{
	if (!pattern[0]) {
		uint64_t z = 1;

		for (uint32_t i = 0; i < PERIOD; i++) {
			z = z * 6364136223846793005ull + 1442695040888963407ull;
			pattern[i] = (uint8_t)(z >> 56);
		}
		pattern[0] = 1;
		for (uint32_t i = 0; i < WORLD_CHUNK; i++)
			pattern[PERIOD + i] = pattern[i % PERIOD];
	}
	return pattern +
	       ((uint64_t)off + pair * 7919u + side * 31337u + round * 14741u) %
		   PERIOD;
}

const uint8_t *world_bytes(const struct end *e, uint32_t off)
{
	return bytes_of(e->side, e->pair, e->round, off);
}

const uint8_t *world_peers_bytes(const struct end *e, uint32_t off)
{
	return bytes_of(!e->side, e->pair, e->round, off);
}

/* The connection exists: the program sets its options. */
static void end_begin(struct world *w, struct end *e)
{
	const struct end_plan *p = &w->cfg.plan[e->side][e->pair];
	struct tcp_conn *c = e->conn;

	tcp_set_user(c, e);
	tcp_set_nodelay(c, p->has_nodelay, w->now_ns);
	tcp_set_oob_inline(c, p->reads_inline);
	tcp_set_user_timeout(c, p->user_timeout_ms);
	if (p->keep_idle_s)
		tcp_set_keepalive(c, p->keep_idle_s, p->keep_interval_s,
				  p->keep_probes, world_clock(w));
}

int world_connect(struct world *w, struct end *e, uint16_t lport,
		  uint16_t rport)
{
	uint32_t host = (uint32_t)world_host(&w->cfg, e->side, e->pair);
	struct tcp_stack *s = w->stack[host];
	const struct tcp_stack *peer =
	    w->stack[world_host(&w->cfg, (enum side) !e->side, e->pair)];
	if (w->cfg.move_every_ns)
		world_keep_ports(w, host);
	int err = tcp_connect(s, &s->cfg.addrs[0], lport, &peer->cfg.addrs[0],
			      rport, w->now_ns, &e->conn);

	if (err)
		return err;
	e->iss = e->conn->iss;
	e->lport = e->conn->flow.lport;
	end_begin(w, e);
	return 0;
}

static void end_over(struct world *w, struct end *e, int err)
{
	e->conn = NULL;
	e->is_done = true;
	e->done_ns = w->now_ns;
	e->err = err;
	e->n_ended++;
	assert(e->n_ended == 1);
}

/* What the program does after its last byte. */
static void end_shut(struct world *w, struct end *e, const struct end_plan *p)
{
	bool is_first = world_may_shut_abroad(w, e);

	if (!is_first && !world_move_home(w, e))
		return;
	e->is_shut = true;
	e->toggle_at_ns = 0;
	if (p->closes_early) {
		tcp_close(e->conn, world_clock(w));
		end_over(w, e, 0);
		return;
	}
	bool is_over = e->conn->state == TCP_CLOSED;
	int err = tcp_shutdown(e->conn, world_clock(w));
	assert(err == (is_over ? -ENOTCONN : 0));
	if (is_first)
		(void)world_move_home(w, e);
}

static void end_write(struct world *w, struct end *e, const struct end_plan *p)
{
	while (e->n_sent < p->n_bytes) {
		uint32_t n = MIN(p->n_bytes - e->n_sent, (uint32_t)WORLD_CHUNK);

		n = p->write_max ? MIN(n, p->write_max) : n;
		ssize_t took = world_send(w, e, n);
		if (took == -EAGAIN)
			return;
		if (took < 0) {
			tcp_close(e->conn, w->now_ns);
			end_over(w, e, (int)took);
			return;
		}
		assert(took && took <= (ssize_t)n);
		e->n_sent += (uint32_t)took;
	}
	/* A connection that was reset behind its FIN can be closed when it is accepted.
	 * A program without bytes to send need not wait until both ends have opened. */
	if (!e->is_shut &&
	    (e->conn->state >= TCP_ESTABLISHED || e->got_eof ||
	     (e->conn->state == TCP_SYN_RCVD && p->closes_early)))
		end_shut(w, e, p);
}

/* Programs give the frames that they keep back, oldest first. */
void world_release(struct world *w, uint64_t until_ns)
{
	uint32_t n = 0;

	while (n < w->n_held && w->held[n].until_ns <= until_ns)
		extent_put(w->held[n++].e);
	w->n_held -= n;
	memmove(w->held, w->held + n, w->n_held * sizeof(w->held[0]));
}

static void hold(struct world *w, struct tcp_conn *c, uint64_t hold_ns)
{
	if (!hold_ns || w->n_held == WORLD_HELD)
		return;
	uint64_t until = w->now_ns + hold_ns;
	if (w->n_held && until < w->held[w->n_held - 1].until_ns)
		until = w->held[w->n_held - 1].until_ns;
	w->held[w->n_held].e = extent_get(c->rcvq.head->ext);
	w->held[w->n_held++].until_ns = until;
}

static uint32_t offset_of(const struct tcp_conn *c, seq32 seq)
{
	return seq_len(seq_add(c->irs, 1), seq);
}

/* A read skips urgent bytes, and nothing else. */
static void pass_urgent(struct world *w, struct end *e)
{
	const struct end *from = &w->ends[!e->side][e->pair];
	uint32_t at = offset_of(e->conn, conn_copied(e->conn));

	for (; e->n_got != at && !w->cfg.is_mutated; e->n_got++)
		assert(!w->cfg.plan[e->side][e->pair].reads_inline &&
		       (from->round != e->round ||
			world_is_urgent(from, e->n_got)));
}

static void take_urgent(struct world *w, struct end *e)
{
	const struct end *from = &w->ends[!e->side][e->pair];
	uint8_t byte;

	if (!(tcp_poll(e->conn) & TCP_URGENT) ||
	    w->cfg.plan[e->side][e->pair].reads_inline)
		return;
	uint32_t off = offset_of(e->conn, e->conn->urg_seq);
	ssize_t n = tcp_recv_urgent(e->conn, &byte, false);
	assert(n == 1);
	if (!w->cfg.is_mutated) {
		assert(from->round != e->round || world_is_urgent(from, off));
		assert(byte == *world_peers_bytes(e, off));
	}
	assert(!(tcp_poll(e->conn) & TCP_URGENT));
}

static void take(struct world *w, struct end *e, const uint8_t *data,
		 uint32_t n, const struct end_plan *p)
{
	const struct end *from = &w->ends[!e->side][e->pair];

	assert(n <= WORLD_CHUNK);
	pass_urgent(w, e);
	if (!w->cfg.is_mutated) {
		assert(!memcmp(data, world_peers_bytes(e, e->n_got), n));
		assert(e->n_got + n <= from->n_sent || from->round != e->round);
	}
	e->n_got += n;
	hold(w, e->conn, p->hold_ns);
	tcp_consume(e->conn, n, world_clock(w));
}

/* The stream has ended, with an error or without. */
static void end_eof(struct world *w, struct end *e, int err)
{
	e->got_eof = e->got_eof || !err;
	if (!err && !e->is_shut)
		return;
	tcp_close(e->conn, w->now_ns);
	end_over(w, e, err);
}

static void end_read(struct world *w, struct end *e, const struct end_plan *p)
{
	uint32_t left = p->read_max ? p->read_max : UINT32_MAX;
	const uint8_t *data;
	ssize_t n;

	if (w->now_ns < p->read_from_ns || w->now_ns < e->read_at_ns)
		return;
	take_urgent(w, e);
	while (left && (n = tcp_peek(e->conn, &data)) > 0) {
		uint32_t part = MIN((uint32_t)n, (uint32_t)WORLD_CHUNK);

		part = MIN(part, left);
		take(w, e, data, part, p);
		left -= part;
		if (!left || !e->conn->rcvq_bytes)
			e->read_at_ns = w->now_ns + p->read_every_ns;
		n = -EAGAIN;
	}
	if (left && !n)
		pass_urgent(w, e);
	if (left && n != -EAGAIN)
		end_eof(w, e, (int)n);
}

/* Stops before the last byte, which a cork would delay. */
static void end_toggle(struct world *w, struct end *e, const struct end_plan *p)
{
	if (!p->toggle_every_ns || e->is_shut || w->now_ns < e->toggle_at_ns)
		return;
	uint64_t r = world_random(w), now = world_clock(w);
	uint32_t bytes = TOGGLE_BUF_MIN + (uint32_t)(r >> 40) % 200000;
	bool is_on = r >> 8 & 1;
	struct tcp_conn *c = e->conn;

	e->toggle_at_ns = w->now_ns + 1 + (r >> 16) % p->toggle_every_ns;
	switch (r % 6) {
	case 0:
		tcp_set_nodelay(c, is_on, now);
		break;
	case 1:
		tcp_set_cork(c, is_on, now);
		break;
	case 2:
		tcp_set_quickack(c, is_on, now);
		break;
	case 3:
		tcp_set_pacing(c, is_on, now);
		break;
	case 4:
		/* If the buffer was set on the listener, the first window has to hold
		 * some segments.  A cookie of an earlier listener does not know the
		 * buffer of this one. */
		if (is_on && w->listener && !w->cfg.unlisten_every_ns)
			tcp_set_listen_rcv_buf(w->listener,
					       10 * TOGGLE_BUF_MIN + bytes);
		else
			tcp_set_rcv_buf(c, bytes);
		break;
	case 5:
		tcp_set_notsent_lowat(c, is_on ? 5000 : 0);
		break;
	}
}

static void end_go_on(struct world *w, struct end *e, const struct end_plan *p)
{
	end_write(w, e, p);
	if (e->conn)
		end_read(w, e, p);
}

static void end_act(struct world *w, struct end *e)
{
	const struct end_plan *p = &w->cfg.plan[e->side][e->pair];

	if (!e->conn)
		return;
	if (p->abort_at_ns && w->now_ns >= p->abort_at_ns) {
		tcp_abort(e->conn, world_clock(w));
		end_over(w, e, -ECONNABORTED);
		return;
	}
	if (e->conn->state >= TCP_ESTABLISHED)
		e->was_open = true;
	end_toggle(w, e, p);
	end_go_on(w, e, p);
	/* A connection that is over never has news again. */
	if (e->conn && e->got_eof && e->conn->state == TCP_CLOSED)
		end_go_on(w, e, p);
	if (e->conn)
		e->events_seen = tcp_poll(e->conn);
	e->was_told = false;
}

/* Whether the client's end has opened this connection since its host began again, if it
 * did. */
static bool is_current(const struct world *w, const struct tcp_conn *c,
		       uint32_t pair)
{
	const struct end *e = &w->ends[CLIENT][pair];

	return !e->round || seq_eq(c->irs, e->iss);
}

/* The pair that has the connection's addresses and ports.  If two had them, it is the
 * pair that opened this connection.  Return: WORLD_PAIRS if none */
static uint32_t pair_of(const struct world *w, const struct tcp_conn *c)
{
	uint32_t found = WORLD_PAIRS;

	for (uint32_t p = 0; p < w->cfg.n_pairs; p++) {
		const struct end *e = &w->ends[CLIENT][p];
		int host = world_host(&w->cfg, CLIENT, p);

		if (e->lport != c->flow.rport ||
		    !ip_addr_eq(&w->cfg.stack[host].addrs[0], &c->flow.raddr))
			continue;
		if (seq_eq(e->iss, c->irs))
			return p;
		found = p;
	}
	return found;
}

/* Connections that no client has opened come from packets that the wire made. */
static bool is_stray(const struct world *w, uint32_t pair)
{
	const struct end *e;

	if (pair >= w->cfg.n_pairs)
		return true;
	e = &w->ends[SERVER][pair];
	return e->conn || e->is_done;
}

/* A SYN cookie is valid for a minute.  So a late or repeated segment can open its
 * connection once more when the first one is gone (RFC 4987 section 3.6). */
static bool may_be_stray(const struct world *w, const struct tcp_conn *c,
			 uint32_t pair)
{
	const struct end *e = &w->ends[SERVER][pair];

	if (w->cfg.is_mutated)
		return true;
	if (pair == WORLD_PAIRS)
		return w->cfg.has_cookies && w->cfg.n_again;
	if (!is_current(w, c, pair))
		return true;
	return w->cfg.has_cookies && pair < w->cfg.n_pairs &&
	       (e->is_done || e->conn->state == TCP_CLOSED);
}

static void accept_all(struct world *w)
{
	struct tcp_conn *c;

	while ((c = tcp_accept(w->listener))) {
		uint32_t pair = pair_of(w, c);

		if (pair < w->cfg.n_pairs && is_current(w, c, pair))
			world_end_anew(w, &w->ends[SERVER][pair]);
		if (is_stray(w, pair)) {
			assert(may_be_stray(w, c, pair));
			tcp_abort(c, w->now_ns);
			continue;
		}
		w->ends[SERVER][pair].conn = c;
		end_begin(w, &w->ends[SERVER][pair]);
	}
}

void world_listen(struct world *w)
{
	int err = tcp_listen(w->stack[SERVER], NULL, WORLD_PORT, WORLD_PAIRS,
			     &w->listener);
	assert(!err);
}

/* Closing the listener ends connections that are half open or not accepted. */
static void unlisten(struct world *w)
{
	const struct tcp_listener *l = w->listener;
	uint32_t n = l->n_reqsks;

	tcp_unlisten(w->listener, world_clock(w));
	w->listener = NULL;
	/* Of many, a call ends the first ones only. */
	assert(l->n_reqsks == (n > WORK_REQSKS ? n - WORK_REQSKS : 0));
}

static void server(struct world *w)
{
	uint64_t accepts = w->cfg.accept_every_ns,
		 closes = w->cfg.unlisten_every_ns;
	bool is_closed = closes && w->now_ns % closes < closes / 2;

	if (is_closed && w->listener)
		unlisten(w);
	else if (!is_closed && !w->listener)
		world_listen(w);
	if (w->listener && (!accepts || w->now_ns >= w->accept_at_ns)) {
		accept_all(w);
		w->accept_at_ns = w->now_ns + accepts;
	}
}

void world_programs(struct world *w)
{
	world_release(w, w->now_ns);
	server(w);
	world_check_news(w);
	world_again(w);
	world_moves(w);
	for (int i = 0; i < 2; i++)
		for (uint32_t p = 0; p < w->cfg.n_pairs; p++)
			end_act(w, &w->ends[i][p]);
}

uint64_t world_programs_next(const struct world *w)
{
	uint64_t at = w->n_held ? w->held[0].until_ns : UINT64_MAX;

	if (w->listener && w->listener->n_accept)
		at = MIN(at, w->accept_at_ns);
	if (w->cfg.reboot_at_ns)
		at = MIN(at, w->cfg.reboot_at_ns);
	at = MIN(at, world_again_next(w));
	for (int i = 0; i < 2; i++)
		for (uint32_t p = 0; p < w->cfg.n_pairs; p++) {
			const struct end *e = &w->ends[i][p];
			const struct end_plan *plan = &w->cfg.plan[i][p];
			const uint64_t wakes[] = { plan->read_from_ns,
						   e->read_at_ns,
						   plan->abort_at_ns,
						   e->toggle_at_ns,
						   e->move_at_ns };

			for (unsigned k = 0; e->conn && k < ARRAY_LEN(wakes);
			     k++)
				if (wakes[k] > w->now_ns)
					at = MIN(at, wakes[k]);
		}
	return at;
}
