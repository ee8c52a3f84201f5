/* SPDX-License-Identifier: MIT */
/*
 * tcp/demux.c - arriving frames, and the connection that each belongs to
 *
 *     tcp_rx(), tcp_rx_batch() -> ip_parse(), tcp_head_parse() -> the flow
 *                                                                    |
 *             open_rx(): none    reqsk_rx(), tw_rx()    conn_rx() <--+
 *
 * With many connections, the connection of a frame is in no cache.  So a batch passes
 * through a pipeline, each step a few frames ahead of the next one: read the headers
 * and fetch the flow's bucket; fetch the connection's lines; for an ACK without text,
 * fetch the first range that was sent; fetch what that links to; judge the segment.
 *
 * Input: frames from the port, which may contain any bytes.
 */
#include "tcp/ctl.h"
#include "tcp/pmtu.h"
#include "tcp/rcv.h"
#include "tcp/stack.h"

#define AHEAD 16       /* frames in the pipeline; a power of two */
#define AHEAD_FETCH 12 /* from here on connections are fetched */
#define AHEAD_QUEUES 8 /* from here on sent ranges are fetched */
#define AHEAD_CHAINS 4

/* A frame whose headers are parsed. */
struct coming {
	struct ip_packet ip;
	struct arrival a;
	uint64_t hash;
	struct flow *likely; /* whose lines are fetched, or NULL */
	uint32_t l4;         /* offset in the extent */
	uint8_t kind;        /* enum coming_kind */
};

enum coming_kind {
	COMING_NOTHING, /* the frame was dropped */
	COMING_ICMP,
	COMING_SEGMENT,
};

static void flow_rx(struct tcp_stack *s, struct flow *f, struct arrival *a)
{
	struct tcp_conn *c;

	switch (f->kind) {
	case FLOW_CONN:
		c = container_of(f, struct tcp_conn, flow);
		conn_rx(c, a);
		if (c->state == TCP_CLOSED && c->flags & CONN_ORPHAN)
			conn_free(c);
		break;
	case FLOW_SYN_RCVD:
		reqsk_rx(s, container_of(f, struct tcp_reqsk, flow), a);
		break;
	default:
		dassert(f->kind == FLOW_TIME_WAIT);
		tw_rx(s, container_of(f, struct tcp_tw, flow), a);
		break;
	}
}

/* Return: 0, or the reason for dropping it */
static int segment_read(const struct tcp_rx_frame *f, struct coming *in)
{
	const uint8_t *l4 = f->ext->data + in->l4;
	int err = tcp_head_parse(l4, in->ip.l4_len, &in->a.seg);

	if (err)
		return err;
	if (!(f->flags & TCP_RX_SUM_GOOD) && !tcp_sum_is_good(&in->ip, l4))
		return DROP(TCP_CHECKSUM);
	in->a.ext = f->ext;
	in->a.off = in->l4 + in->a.seg.head_len;
	in->a.raddr = &in->ip.src;
	in->a.ecn = in->ip.ecn;
	in->a.is_lent = f->flags & TCP_RX_LENT;
	return 0;
}

static int packet_read(struct tcp_stack *s, const struct tcp_rx_frame *f,
		       struct coming *in)
{
	const struct ip_packet *ip = &in->ip;
	int err, laddr;

	assert(f->off <= f->ext->cap && f->len <= f->ext->cap - f->off);
	err = ip_parse(f->ext->data + f->off, f->len, &in->ip);
	if (err)
		return err;
	laddr = stack_addr(s, &ip->dst);
	if (laddr < 0)
		return DROP(NOT_OURS);
	in->l4 = f->off + ip->l4_off;
	if (ip->protocol == (ip->is_v6 ? IP_PROTO_ICMPV6 : IP_PROTO_ICMP)) {
		in->kind = COMING_ICMP;
		return 0;
	}
	if (ip->protocol != IP_PROTO_TCP)
		return DROP(IP_PROTOCOL);
	in->a.laddr = (uint8_t)laddr;
	err = segment_read(f, in);
	if (err)
		return err;
	in->hash = flow_hash(s, in->a.laddr, in->a.seg.dport, &ip->src,
			     in->a.seg.sport);
	in->kind = COMING_SEGMENT;
	return 0;
}

/* A segment that ip_parse() leaves to the kernel.  If its connection was moved here, it has to
 * go back.  The sequence number keeps strangers from asking for that. */
static COLD void strange_rx(struct tcp_stack *s, const struct tcp_rx_frame *f,
			    const struct ip_packet *ip)
{
	const uint8_t *l4 = f->ext->data + f->off + ip->l4_off;
	int laddr = stack_addr(s, &ip->dst);

	if (laddr < 0 || ip->protocol != IP_PROTO_TCP || ip->l4_len < 8)
		return;
	struct flow *flow = flow_find(s, (uint8_t)laddr, load_be16(l4 + 2),
				      &ip->src, load_be16(l4));
	if (!flow || flow->kind != FLOW_CONN)
		return;
	struct tcp_conn *c = container_of(flow, struct tcp_conn, flow);
	seq32 seq = { load_be32(l4 + 4) }, last = seq_sub(c->rcv_nxt, 1);
	if (seq_len(last, seq) <= seq_len(last, c->rcv_adv))
		(void)conn_is_end_held(c, TCP_END_STRANGE);
}

static void frame_read(struct tcp_stack *s, const struct tcp_rx_frame *f,
		       struct coming *in)
{
	int err = packet_read(s, f, in);

	if (!err)
		return;
	if (err == DROP(IP_OPTIONS) || err == DROP(IP_FRAGMENT))
		strange_rx(s, f, &in->ip);
	in->kind = COMING_NOTHING;
	drop(s, drop_of(err));
}

static void frame_take(struct tcp_stack *s, const struct tcp_rx_frame *f,
		       struct coming *in)
{
	struct arrival *a = &in->a;
	struct flow *flow;

	work_end(&s->work);
	if (in->kind == COMING_ICMP)
		icmp_rx(s, &in->ip, f->ext->data + in->l4);
	if (in->kind != COMING_SEGMENT)
		return;
	flow = flow_find_hashed(s, in->hash, a->laddr, a->seg.dport, a->raddr,
				a->seg.sport);
	if (flow)
		flow_rx(s, flow, a);
	else
		open_rx(s, a, (seq32){ 0 }, false);
}

void tcp_rx(struct tcp_stack *s, struct extent *e, uint32_t off, uint32_t len,
	    unsigned flags, uint64_t now_ns)
{
	const struct tcp_rx_frame f = { e, off, len, flags };
	struct coming in;

	stack_at(s, now_ns);
	frame_read(s, &f, &in);
	frame_take(s, &f, &in);
}

/* The bucket is in the cache by now.  An ACK without text also touches what was sent. */
static void fetch_conn(struct tcp_stack *s, struct coming *in)
{
	in->likely =
	    in->kind == COMING_SEGMENT ? flow_likely(s, in->hash) : NULL;
	if (in->likely)
		conn_fetch(in->likely,
			   in->a.seg.len ? CONN_LINES_RX : CONN_LINES_TX);
}

/* The connection, whose lines are in the cache by now, if the frame is an ACK without
 * text.  It may have been freed meanwhile: then its queues are empty, or belong to
 * another one. */
static const struct tcp_conn *likely_acked(const struct coming *in)
{
	const struct flow *f = in->likely;

	return f && !in->a.seg.len && f->kind == FLOW_CONN
		   ? container_of(f, struct tcp_conn, flow)
		   : NULL;
}

ALWAYS_INLINE void fetch_queues(const struct coming *in)
{
	const struct tcp_conn *c = likely_acked(in);

	if (!c)
		return;
	__builtin_prefetch(c->sent.head, 1);
	__builtin_prefetch(c->sndq.head, 1);
}

ALWAYS_INLINE void fetch_chains(const struct coming *in)
{
	const struct tcp_conn *c = likely_acked(in);

	if (!c || !c->sent.head || !c->sndq.head)
		return;
	__builtin_prefetch(c->sent.head->next, 1);
	__builtin_prefetch(c->sndq.head->next, 1);
	__builtin_prefetch(c->sndq.head->ext, 1);
}

void tcp_rx_batch(struct tcp_stack *s, const struct tcp_rx_frame *f, uint32_t n,
		  uint64_t now_ns)
{
	struct coming in[AHEAD];
	uint32_t n_read = 0, n_fetched = 0, n_queues = 0, n_chains = 0;

	stack_at(s, now_ns);
	for (uint32_t i = 0; i < n; i++) {
		for (; n_read < n && n_read < i + AHEAD; n_read++) {
			struct coming *next = &in[n_read % AHEAD];

			frame_read(s, &f[n_read], next);
			if (next->kind == COMING_SEGMENT)
				flow_fetch_bucket(s, next->hash);
		}
		for (; n_fetched < n_read && n_fetched < i + AHEAD_FETCH;
		     n_fetched++)
			fetch_conn(s, &in[n_fetched % AHEAD]);
		for (; n_queues < n_fetched && n_queues < i + AHEAD_QUEUES;
		     n_queues++)
			fetch_queues(&in[n_queues % AHEAD]);
		for (; n_chains < n_queues && n_chains < i + AHEAD_CHAINS;
		     n_chains++)
			fetch_chains(&in[n_chains % AHEAD]);
		frame_take(s, &f[i], &in[i % AHEAD]);
	}
}
