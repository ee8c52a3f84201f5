/* SPDX-License-Identifier: MIT */
/*
 * tcp/ctl.c - the stack's life, and the program's calls (tcp.h)
 *
 * All memory of a stack is one block, laid out once: the stack, the buckets, and the
 * pools behind each other.  A connection lives until it is CLOSED and the program has
 * given it back, whichever comes last.
 *
 * Spec: RFC 9293 section 3.10.1 to 3.10.5; active opens are in connect.c
 */
#include "tcp/conn.h"

#define ALIGN(n) (((size_t)(n) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE)
#define MTU_MIN 576
#define MSS_DEFAULT_V4 536 /* RFC 9293 section 3.7.1 */
#define MSS_DEFAULT_V6 1220

/* --- the stack --- */

static uint32_t bucket_count(const struct tcp_config *cfg)
{
	uint64_t n = 16, most = (uint64_t)cfg->n_conns + cfg->n_minis;

	most += (uint64_t)cfg->n_blocks *
		pool_block_elements(sizeof(struct tcp_conn));
	while (n * FLOWS_EACH < most)
		n *= 2;
	return (uint32_t)n;
}

/* Where the parts lie in the block; the last number is its size. */
enum part {
	AT_BUCKETS,
	AT_CONNS,
	AT_DELACKS,
	AT_SYNS,
	AT_WAITS,
	AT_NODES,
	AT_EXTENTS,
	AT_TABLES,
	AT_END
};

static void layout(const struct tcp_config *cfg, size_t at[AT_END + 1])
{
	const size_t sizes[AT_END] = {
		[AT_BUCKETS] = bucket_count(cfg) * sizeof(struct flow_bucket),
		[AT_CONNS] = cfg->n_conns * sizeof(struct tcp_conn),
		[AT_DELACKS] =
		    delack_slots(cfg->n_conns) * sizeof(struct delack),
		[AT_SYNS] = cfg->n_minis * (size_t)CACHE_LINE,
		[AT_WAITS] = cfg->n_minis * (size_t)CACHE_LINE,
		[AT_NODES] = cfg->n_nodes * sizeof(struct node),
		[AT_EXTENTS] =
		    cfg->n_extents * (size_t)extent_size(cfg->extent_bytes),
		[AT_TABLES] =
		    (size_t)TCP_POOLS * cfg->n_blocks * sizeof(void *),
	};

	at[0] = ALIGN(sizeof(struct tcp_stack));
	for (unsigned i = 0; i < AT_END; i++)
		at[i + 1] = ALIGN(at[i] + sizes[i]);
}

size_t tcp_stack_bytes(const struct tcp_config *cfg)
{
	size_t at[AT_END + 1];

	layout(cfg, at);
	return at[AT_END];
}

struct tcp_stack *tcp_stack_init(void *mem, const struct tcp_config *cfg,
				 uint64_t now_ns)
{
	struct tcp_stack *s = mem;
	uint8_t *base = mem;
	size_t at[AT_END + 1];

	assert((uintptr_t)mem % CACHE_LINE == 0);
	assert(cfg->n_addrs && cfg->n_addrs <= TCP_ADDRS_MAX);
	assert(cfg->n_conns && cfg->n_minis && cfg->n_nodes >= 64);
	assert(cfg->mtu >= MTU_MIN && cfg->mtu <= IP_MAX);
	assert(cfg->gso_max <= IP_MAX - TCP_FRAME_HEAD);
	assert(cfg->rcv_buf >= RCV_BUF_MIN && cfg->rcv_buf <= 1u << 30);
	assert(cfg->rcv_buf_max <= 1u << 30);
	assert(cfg->snd_buf <= 1u << 30 && cfg->snd_buf_max <= 1u << 30);
	assert(cfg->ports.first <= cfg->ports.last);
	layout(cfg, at);
	memset(s, 0, sizeof(*s));
	s->cfg = *cfg;
	stack_at(s, now_ns);
	s->port_hint = (uint32_t)cfg->key.k[1];
	wheel_init(&s->wheel, now_ns);
	list_init(&s->due);
	list_init(&s->ready);
	list_init(&s->conns);
	list_init(&s->returned);
	s->n_buckets = bucket_count(cfg);
	s->buckets = (struct flow_bucket *)(base + at[AT_BUCKETS]);
	memset(s->buckets, 0, s->n_buckets * sizeof(*s->buckets));
	pool_init(&s->pool_conns, base + at[AT_CONNS], sizeof(struct tcp_conn),
		  cfg->n_conns);
	s->delacks.ring = (struct delack *)(base + at[AT_DELACKS]);
	s->delacks.n_slots = delack_slots(cfg->n_conns);
	pool_init(&s->pool_syns, base + at[AT_SYNS], CACHE_LINE, cfg->n_minis);
	pool_init(&s->pool_waits, base + at[AT_WAITS], CACHE_LINE,
		  cfg->n_minis);
	pool_init(&s->pool_nodes, base + at[AT_NODES], sizeof(struct node),
		  cfg->n_nodes);
	pool_init(&s->pool_extents, base + at[AT_EXTENTS],
		  extent_size(cfg->extent_bytes), cfg->n_extents);
	grow_init(s, (struct pool_block **)(base + at[AT_TABLES]));
	return s;
}

void tcp_stack_fini(struct tcp_stack *s)
{
	while (!list_is_empty(&s->conns)) {
		struct tcp_conn *c =
		    container_of(s->conns.next, struct tcp_conn, all_link);

		c->flags |= CONN_ORPHAN;
		if (c->state != TCP_CLOSED)
			tcp_set_state(c, TCP_CLOSED);
		conn_free(c);
	}
	assert(s->pool_conns.n_free == s->pool_conns.n);
	assert(s->pool_nodes.n_free == s->pool_nodes.n);
	assert(!s->rcv_mem);
}

uint64_t tcp_dropped(const struct tcp_stack *s, enum drop_reason why)
{
	return s->drops[why];
}

/* Return: the index of an address of ours, or -EADDRNOTAVAIL. */
int stack_addr(const struct tcp_stack *s, const struct ip_addr *a)
{
	for (uint32_t i = 0; i < s->cfg.n_addrs; i++)
		if (ip_addr_eq(&s->cfg.addrs[i], a))
			return (int)i;
	return -EADDRNOTAVAIL;
}

/* What fits the link, or the route when that says less; never less than we can do. */
uint32_t stack_mtu(const struct tcp_stack *s, const struct ip_addr *raddr)
{
	const struct ip_route *r =
	    s->cfg.hops ? hop_route(s->cfg.hops, raddr) : NULL;

	if (!r || !r->mtu || r->mtu > s->cfg.mtu)
		return s->cfg.mtu;
	return r->mtu > MTU_MIN ? r->mtu : MTU_MIN;
}

/* What we say we take: without options, RFC 6691.  @maxseg 0: all that fits */
uint16_t stack_mss(const struct tcp_stack *s, const struct ip_addr *raddr,
		   uint16_t maxseg)
{
	uint32_t mss = stack_mtu(s, raddr) - ip_head_len(raddr) - TCP_HEAD;

	return (uint16_t)(maxseg ? MIN(mss, (uint32_t)maxseg) : mss);
}

uint8_t stack_wscale(const struct tcp_stack *s)
{
	uint8_t n = 0;

	while (n < TCP_WSCALE_MAX && (65535u << n < s->cfg.rcv_buf ||
				      65535u << n < s->cfg.rcv_buf_max))
		n++;
	return n;
}

/* --- connections --- */

struct tcp_conn *conn_new(struct tcp_stack *s, const struct flow *f)
{
	struct tcp_conn *c = pool_get(&s->pool_conns);

	if (!c)
		return NULL;
	memset(c, 0, sizeof(*c));
	c->stack = s;
	c->flow = *f;
	timer_init(&c->timer);
	list_init(&c->flight);
	list_init(&c->lost);
	list_init(&c->due_link);
	list_init(&c->ready_link);
	list_add_tail(&s->conns, &c->all_link);
	c->rtx_at_ns = c->life_at_ns = WHEEL_NEVER;
	c->armed_ns = WHEEL_NEVER;
	c->rto_ns = RTO_INITIAL_NS;
	c->ts_off = flow_ts_off(s, &c->flow);
	c->last_rx_ms = now_ms(s);
	c->cc = s->cfg.cc;
	pmtu_init(c);
	c->n_quick = QUICK_ACKS;
	c->syn_retries = SYN_RETRIES;
	c->flags = CONN_IN_TABLE | (s->cfg.is_paced ? CONN_PACED : 0u);
	flow_add(s, &c->flow);
	return c;
}

void conn_free(struct tcp_conn *c)
{
	assert(c->state == TCP_CLOSED);
	rcvq_free(c);
	list_del(&c->ready_link);
	list_del(&c->all_link);
	pool_put(&c->stack->pool_conns, c);
}

void conn_news(struct tcp_conn *c)
{
	if (!(c->flags & CONN_ORPHAN) && !c->listener &&
	    list_is_empty(&c->ready_link))
		list_add_tail(&c->stack->ready, &c->ready_link);
}

void conn_fail(struct tcp_conn *c, int err)
{
	c->err = (int16_t)err;
	tcp_set_state(c, TCP_CLOSED);
}

/* What both ends have agreed on by their SYNs. */
void conn_set_options(struct tcp_conn *c, uint32_t offers, uint16_t peer_mss,
		      uint8_t wscale)
{
	struct tcp_stack *s = c->stack;
	uint16_t ours = stack_mss(s, &c->flow.raddr, c->maxseg);
	uint32_t mss =
	    ip_addr_is_v4(&c->flow.raddr) ? MSS_DEFAULT_V4 : MSS_DEFAULT_V6;

	offers &= s->cfg.offers;
	c->flags |= (offers & TCP_OFFER_TS ? CONN_TS : 0u) |
		    (offers & TCP_OFFER_SACK ? CONN_SACK : 0u) |
		    (offers & TCP_OFFER_WSCALE ? CONN_WSCALE : 0u);
	if (offers & TCP_OFFER_WSCALE) {
		c->snd_wscale = wscale;
		c->rcv_wscale = stack_wscale(s);
	}
	if (peer_mss)
		mss = peer_mss;
	mss = MIN(mss, (uint32_t)ours);
	if (offers & TCP_OFFER_TS)
		mss = mss > 12 ? mss - 12 : 0;
	c->rcv_mss = MIN(ours, (uint16_t)MSS_DEFAULT_V4);
	c->mss_max = (uint16_t)(mss > MSS_MIN ? mss : MSS_MIN);
	pmtu_sync(c);
	c->cwnd = INITIAL_WINDOW * (uint32_t)c->mss;
	c->ssthresh = SSTHRESH_MAX;
	c->cc->init(c);
}

static void shutdown_now(struct tcp_conn *c)
{
	c->flags |= CONN_SHUT_WR;
	tcp_set_state(c, c->state == TCP_ESTABLISHED ? TCP_FIN_WAIT_1
						     : TCP_LAST_ACK);
	conn_due(c, TX_DATA);
}

/* Our SYN was acknowledged, by @seg. */
void conn_established(struct tcp_conn *c, const struct tcp_seg *seg)
{
	bool is_closed = c->flags & CONN_SHUT_WR;
	uint64_t rtt_ns = 0;

	if (c->flags & CONN_SYN_RETX) {
		/* RFC 6298 (5.7); RFC 6928 section 2: one SYN that was sent again may have
		 * been slow, two were lost. */
		c->rto_ns = RTO_AFTER_SYN_NS;
		if (c->n_rtx > 1)
			c->cwnd = c->mss;
		/* A timestamp tells which of them it was. */
		rtt_ns = timestamp_rtt(c, seg);
	} else if (c->last_tx_ns) {
		rtt_ns = c->stack->now_ns - c->last_tx_ns;
		rtt_ns = rtt_ns ? rtt_ns : 1;
	}
	if (rtt_ns)
		rtt_sample(c, rtt_ns, rtt_ns);
	c->n_rtx = 0;
	conn_late_since(c, 0);
	c->rtx_kind = RTX_NONE;
	c->rtx_at_ns = WHEEL_NEVER;
	c->snd_sml = c->snd_up = c->snd_una;
	c->recover = c->iss;
	c->sack_high = c->snd_una;
	if (c->listener) {
		list_add_tail(&c->listener->accept, &c->ready_link);
		c->listener->n_accept++;
	}
	rcv_tune_init(c);
	c->last_rx_ms = now_ms(c->stack); /* before it, nothing is silence */
	tcp_set_state(c, TCP_ESTABLISHED);
	if (is_closed)
		shutdown_now(c);
}

struct tcp_conn *tcp_next_ready(struct tcp_stack *s)
{
	if (list_is_empty(&s->ready))
		return NULL;
	struct list *first = s->ready.next;
	list_del(first);
	return container_of(first, struct tcp_conn, ready_link);
}

/* --- listening --- */

static int listen_as(struct tcp_stack *s, const struct ip_addr *addr,
		     uint16_t port, uint32_t backlog, bool is_shared,
		     struct tcp_listener **out)
{
	struct tcp_listener *free = NULL;
	int laddr = addr ? stack_addr(s, addr) : -1;

	assert(port);
	if (addr && laddr < 0)
		return laddr;
	for (unsigned i = 0; i < TCP_LISTENERS_MAX; i++) {
		struct tcp_listener *l = &s->listeners[i];

		if (!l->port)
			free = free ? free : l;
		else if (l->port == port && l->laddr == laddr &&
			 !(is_shared && l->is_shared))
			return -EADDRINUSE;
	}
	if (!free)
		return -ENFILE;
	*free = (struct tcp_listener){ .stack = s,
				       .backlog = backlog ? backlog : 1,
				       .laddr = (int16_t)laddr,
				       .port = port,
				       .is_shared = is_shared };
	list_init(&free->accept);
	*out = free;
	return 0;
}

int tcp_listen(struct tcp_stack *s, const struct ip_addr *addr, uint16_t port,
	       uint32_t backlog, struct tcp_listener **out)
{
	return listen_as(s, addr, port, backlog, false, out);
}

int tcp_listen_shared(struct tcp_stack *s, const struct ip_addr *addr,
		      uint16_t port, uint32_t backlog,
		      struct tcp_listener **out)
{
	return listen_as(s, addr, port, backlog, true, out);
}

void tcp_unlisten(struct tcp_listener *l, uint64_t now_ns)
{
	struct tcp_stack *s = l->stack;
	struct tcp_conn *c;
	uint8_t index = (uint8_t)(l - s->listeners);

	while ((c = tcp_accept(l)))
		tcp_abort(c, now_ns);
	for (unsigned i = 0; i <= SYNACK_RETRIES; i++) {
		uint32_t at = s->syns[i].head;

		while (at) {
			struct mini_syn *m = pool_at(&s->pool_syns, at - 1);

			at = m->next;
			if (m->listener == index)
				mini_syn_free(s, m);
		}
	}
	l->port = 0;
}

struct tcp_conn *tcp_accept(struct tcp_listener *l)
{
	if (list_is_empty(&l->accept))
		return NULL;
	struct tcp_conn *c =
	    container_of(l->accept.next, struct tcp_conn, ready_link);

	list_del(&c->ready_link);
	l->n_accept--;
	c->listener = NULL;
	conn_news(c);
	return c;
}

/* --- bytes --- */

uint32_t snd_space(const struct tcp_conn *c)
{
	const struct tcp_config *cfg = &c->stack->cfg;
	uint32_t used = seq_len(c->snd_una, c->snd_end);
	bool is_set = c->flags & CONN_SND_BUF_SET;
	uint32_t limit = is_set ? c->snd_buf : cfg->snd_buf;

	/* Two windows: one under way, and one that is ready when it is not. */
	if (!is_set && limit < cfg->snd_buf_max && limit / 2 < c->cwnd)
		limit = MIN(2 * c->cwnd, cfg->snd_buf_max);
	return used < limit ? limit - used : 0;
}

/* Bytes that wait must leave nodes for ranges, or none is ever sent. */
bool sndq_has_nodes(const struct tcp_stack *s)
{
	return s->pool_nodes.n_free &&
	       s->pool_nodes.n_free >= s->pool_nodes.n / 4;
}

void sndq_append(struct tcp_conn *c, struct node *n)
{
	if (c->sndq.tail)
		c->sndq.tail->next = n;
	else
		c->sndq.head = n;
	c->sndq.tail = n;
}

/* The last piece of the send queue, when there is room behind it; else a new one. */
static struct node *sndq_room(struct tcp_conn *c, uint32_t want, uint32_t *room)
{
	struct tcp_stack *s = c->stack;
	struct node *n = c->sndq.tail;

	*room = n ? n->ext->cap - n->off - n->len : 0;
	if (*room && !(n->flags & NODE_EOR))
		return n;
	if (!sndq_has_nodes(s))
		return NULL;
	uint32_t off = *room ? n->off + n->len : 0;
	struct extent *e =
	    *room ? extent_get(n->ext) : extent_new(&s->pool_extents);
	if (!e)
		return NULL;
	n = pool_get(&s->pool_nodes);
	*n = (struct node){ .ext = e, .off = off, .seq = c->snd_end };
	*room = e->cap - off;
	if (!off)
		extent_fetch_next(&s->pool_extents, want);
	sndq_append(c, n);
	return n;
}

int take_error(struct tcp_conn *c)
{
	int err = c->err;

	c->err = 0;
	return err;
}

/* Why nothing can be sent, or 0. */
ssize_t send_refusal(struct tcp_conn *c)
{
	if (c->err)
		return take_error(c);
	if (c->state == TCP_SYN_SENT || c->state == TCP_SYN_RCVD)
		return c->flags & CONN_SHUT_WR ? -EPIPE : -EAGAIN;
	return conn_may_send(c) ? 0 : -EPIPE;
}

void tcp_send_soon(const struct tcp_conn *c) { conn_fetch(c, CONN_LINES_TX); }

ssize_t tcp_send(struct tcp_conn *c, const void *buf, size_t len,
		 uint64_t now_ns)
{
	return tcp_send_as(c, buf, len, 0, now_ns);
}

ssize_t tcp_send_as(struct tcp_conn *c, const void *buf, size_t len,
		    unsigned how, uint64_t now_ns)
{
	uint32_t done = 0, room;

	tcp_send_soon(c);
	ssize_t refusal = send_refusal(c);

	stack_at(c->stack, now_ns);
	if (refusal)
		return refusal;
	uint32_t want = (uint32_t)MIN(len, (size_t)snd_space(c));
	while (done < want) {
		struct node *n = sndq_room(c, want - done, &room);
		if (!n)
			break;
		uint32_t part = MIN(room, want - done);

		memcpy(n->ext->data + n->off + n->len,
		       (const uint8_t *)buf + done, part);
		n->len += part;
		c->snd_end = seq_add(c->snd_end, part);
		done += part;
	}
	if (!done)
		return len ? -EAGAIN : 0;
	c->flags &= ~(uint32_t)(CONN_MORE | CONN_PUSH_ALL);
	c->flags |= how & TCP_SEND_MORE ? CONN_MORE : 0u;
	if (how & TCP_SEND_EOR && done == len) {
		c->sndq.tail->flags |= NODE_EOR;
		c->rec.has_eor = true;
	}
	if (how & TCP_SEND_URGENT) {
		c->snd_up = c->snd_end;
		c->flags |= CONN_URG_OUT;
	}
	conn_due(c, TX_DATA);
	return done;
}

/* What a read tells that finds no bytes. */
static ssize_t nothing_there(struct tcp_conn *c)
{
	/* The stream has ended well, whatever came of the connection. */
	if (c->flags & CONN_FIN_RCVD)
		return 0;
	if (c->err)
		return take_error(c);
	return c->state == TCP_CLOSED ? 0 : -EAGAIN;
}

ssize_t tcp_peek(struct tcp_conn *c, const uint8_t **data)
{
	struct node *n = c->rcvq.head;
	uint32_t len = n ? n->len : 0;

	if (len && c->flags & CONN_URG_IN && !(len = urg_limit(c, len))) {
		n = c->rcvq.head;
		len = n ? n->len : 0;
	}
	/* A FIN that came with nothing new. */
	if (len) {
		*data = n->ext->data + n->off;
		return len;
	}
	return nothing_there(c);
}

ssize_t tcp_peek_at(struct tcp_conn *c, uint32_t off, const uint8_t **data)
{
	seq32 at = conn_copied(c), end = seq_add(at, c->rcvq_bytes), from = at;
	const struct node *n = c->rcvq.head;

	/* The urgent byte is passed over when it is next, and not before. */
	if (urg_hides_next(c))
		at = seq_add(at, 1);
	else if (urg_is_ahead(c) && seq_lt(c->urg_seq, end))
		end = c->urg_seq;
	if (off >= seq_len(at, end))
		return off ? 0 : nothing_there(c);
	uint32_t skip = seq_len(from, seq_add(at, off));
	for (; skip >= n->len; n = n->next)
		skip -= n->len;
	*data = n->ext->data + n->off + skip;
	return MIN(n->len - skip, seq_len(seq_add(at, off), end));
}

void rcvq_shift(struct tcp_conn *c, uint32_t n_bytes)
{
	while (n_bytes) {
		struct node *n = c->rcvq.head;
		uint32_t part = MIN(n_bytes, n->len);

		n->off += part;
		n->len -= part;
		c->rcvq_bytes -= part;
		n_bytes -= part;
		if (n->len)
			return;
		c->rcvq.head = n->next;
		if (!n->next)
			c->rcvq.tail = NULL;
		rcv_piece_free(c, n);
	}
}

void tcp_consume(struct tcp_conn *c, uint32_t n, uint64_t now_ns)
{
	stack_at(c->stack, now_ns);
	assert(n <= c->rcvq_bytes);
	rcvq_shift(c, n);
	if (c->flags & CONN_URG_IN)
		urg_passed(c);
	if (c->state < TCP_ESTABLISHED || c->flags & CONN_FIN_RCVD)
		return;
	rcv_tune(c);
	/* The peer is told when the window has grown by as much as matters. */
	if (rcv_window_is_news(c))
		conn_due(c, TX_ACK);
}

/* --- closing --- */

int tcp_shutdown(struct tcp_conn *c, uint64_t now_ns)
{
	stack_at(c->stack, now_ns);
	switch (c->state) {
	case TCP_SYN_RCVD:
		c->flags |= CONN_SHUT_WR;
		return 0;
	case TCP_ESTABLISHED:
	case TCP_CLOSE_WAIT:
		shutdown_now(c);
		return 0;
	case TCP_CLOSED:
	case TCP_SYN_SENT:
		return -ENOTCONN;
	default:
		return 0;
	}
}

static void orphan(struct tcp_conn *c)
{
	c->flags |= CONN_ORPHAN;
	list_del(&c->ready_link);
	rcvq_free(c);
}

/* RFC 9293 section 3.10.5: a SYN_SENT peer knows of nothing to reset, and one that has
 * all, our FIN included, wants nothing more. */
static bool is_abort_told(const struct tcp_conn *c)
{
	switch (c->state) {
	case TCP_CLOSED:
	case TCP_SYN_SENT:
		return false;
	case TCP_CLOSING:
	case TCP_LAST_ACK:
		return !(c->flags & CONN_FIN_SENT);
	default:
		return true;
	}
}

static void conn_abort(struct tcp_conn *c, bool is_told)
{
	orphan(c);
	if (is_told)
		tx_reset_conn(c);
	if (c->state != TCP_CLOSED)
		tcp_set_state(c, TCP_CLOSED);
	conn_free(c);
}

void tcp_abort(struct tcp_conn *c, uint64_t now_ns)
{
	stack_at(c->stack, now_ns);
	conn_abort(c, is_abort_told(c));
}

void tcp_close(struct tcp_conn *c, uint64_t now_ns)
{
	bool is_open = c->state != TCP_CLOSED && c->state != TCP_SYN_SENT;

	stack_at(c->stack, now_ns);
	if (!is_open || c->rcvq_bytes || c->flags & CONN_LINGER_0) {
		/* What is lost unread is told whenever it can be: RFC 2525. */
		conn_abort(c, is_abort_told(c) || (is_open && c->rcvq_bytes));
		return;
	}
	orphan(c);
	if (!(c->flags & CONN_SHUT_WR)) {
		int err = tcp_shutdown(c, now_ns);
		assert(!err);
	}
	conn_life_update(c);
}
