/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/tcp_kit.h - a stack, and a peer that is written out by hand
 *
 *     kit_in(): a segment of the peer -> the stack -> kit_out(): its next frame
 *
 * The clock is a variable.  kit_fini() looks whether all memory is free again.
 */
#pragma once

#include "ip/checksum.h"
#include "ip/gso.h"
#include "ip/icmp.h"
#include "tcp/calls.h"
#include "tcp/opt.h"
#include "tcp/stack.h"
#include "unit.h"

#define KIT_PORT 80
#define KIT_PEER_PORT 5000
#define KIT_RX_CAP 2048
#define KIT_N_RX 4096
#define KIT_PEER_ISS 1000000u

struct kit {
	struct tcp_stack *s;
	void *mem, *rx_mem;
	struct pool rx;
	uint64_t now;
	bool is_v6;
	struct ip_addr me, peer;
	struct tcp_listener *listener;
	seq32 seq, ack; /* the peer's next number, and what it acknowledges */
	uint32_t tsval; /* 0: the peer has no timestamps */
	uint32_t tsecr;
	uint16_t lport, rport;
};

/* A frame of the stack's. */
struct kit_frame {
	struct ip_packet ip;
	struct tcp_seg seg;
	uint8_t head[TCP_FRAME_HEAD];
	uint16_t ip_len, head_len, gso_size;
	uint32_t len; /* payload */
	uint8_t payload[IP_MAX];
};

static inline struct tcp_config kit_config(bool is_v6)
{
	static const struct ip_addr me6 = { { 0x20, 1, 0x0d, 0xb8, [15] = 1 } };

	return (struct tcp_config){
		.key = { { 1, 2 } },
		.addrs = { is_v6 ? me6 : ip_addr_v4(0x0a000001) },
		.n_addrs = 1,
		.mtu = 1500,
		.offers = TCP_OFFER_ALL,
		.snd_buf = 1 << 18,
		.rcv_buf = 1 << 16,
		.cc = &tcp_newreno,
		.n_conns = 8,
		.n_reqsks = 8,
		.n_ranges = 4096,
		.n_extents = 64,
		.extent_bytes = 16384,
	};
}

static inline void kit_init(struct kit *k, const struct tcp_config *cfg)
{
	*k = (struct kit){ .now = NS_PER_S,
			   .is_v6 = !ip_addr_is_v4(&cfg->addrs[0]),
			   .me = cfg->addrs[0],
			   .seq = { KIT_PEER_ISS },
			   .lport = KIT_PORT,
			   .rport = KIT_PEER_PORT };
	k->peer = k->me;
	k->peer.b[15]++;
	k->mem = aligned_alloc(64, tcp_stack_bytes(cfg));
	k->rx_mem =
	    aligned_alloc(64, (size_t)extent_size(KIT_RX_CAP) * KIT_N_RX);
	assert_non_null(k->mem);
	assert_non_null(k->rx_mem);
	k->s = tcp_stack_init(k->mem, cfg, k->now);
	pool_init(&k->rx, k->rx_mem, extent_size(KIT_RX_CAP), KIT_N_RX);
}

/* As most tests want it. */
static inline void kit_begin(struct kit *k)
{
	struct tcp_config cfg = kit_config(false);

	kit_init(k, &cfg);
}

static inline void kit_fini(struct kit *k)
{
	tcp_stack_fini(k->s);
	assert_int_equal(k->s->pool_extents.n_free, k->s->pool_extents.n);
	assert_int_equal(k->rx.n_free, k->rx.n);
	free(k->mem);
	free(k->rx_mem);
}

static inline void kit_check(struct kit *k)
{
	struct list *head = &k->s->conns;

	for (struct list *l = head->next; l != head; l = l->next)
		conn_check(container_of(l, struct tcp_conn, all_link));
}

/* An IP packet of the peer's with @n bytes behind its header. */
static inline void kit_packet(struct kit *k, uint8_t protocol,
			      const uint8_t *l4, uint32_t n)
{
	struct extent *e = extent_new(&k->rx);
	uint32_t ip_len;

	assert_non_null(e);
	ip_len = ip_build(e->data, &k->peer, &k->me, protocol, 0, n);
	memcpy(e->data + ip_len, l4, n);
	tcp_rx(k->s, e, 0, ip_len + n, TCP_RX_SUM_GOOD, k->now);
	extent_put(e);
	kit_check(k);
}

static inline void kit_segment(struct kit *k, const struct tcp_seg *seg,
			       const void *payload)
{
	uint8_t buf[KIT_RX_CAP];
	uint32_t head = tcp_head_build(buf, seg);

	if (payload)
		memcpy(buf + head, payload, seg->len);
	kit_packet(k, IP_PROTO_TCP, buf, head + seg->len);
}

/* A segment of the peer's, to be changed and given to kit_segment(). */
static inline struct tcp_seg kit_seg(const struct kit *k, unsigned flags)
{
	return (struct tcp_seg){ .sport = k->rport,
				 .dport = k->lport,
				 .seq = k->seq,
				 .ack = k->ack,
				 .flags = (uint8_t)flags,
				 .wnd = 65535,
				 .wscale = TCP_NO_WSCALE,
				 .has_ts = k->tsval != 0,
				 .tsval = k->tsval,
				 .tsecr = k->tsecr };
}

/* A segment that has the peer's next number, and takes it. */
static inline void kit_in(struct kit *k, unsigned flags, const void *payload,
			  uint32_t len)
{
	struct tcp_seg seg = kit_seg(k, flags);

	seg.len = len;
	if (flags & TCP_SYN) {
		seg.mss = (uint16_t)(1500 - ip_head_len(&k->me) - TCP_HEAD);
		seg.is_sack_ok = true;
		seg.wscale = 7;
	}
	k->seq = seq_add(k->seq, seg_span(&seg));
	kit_segment(k, &seg, payload);
}

/* An ACK of the peer's with that window. */
static inline void kit_window(struct kit *k, uint16_t wnd)
{
	struct tcp_seg seg = kit_seg(k, TCP_ACK);

	seg.wnd = wnd;
	kit_segment(k, &seg, NULL);
}

/* An ACK of @ack with so many of the two SACK blocks. */
static inline void kit_sacks(struct kit *k, seq32 ack, uint32_t n,
			     struct tcp_sack a, struct tcp_sack b)
{
	struct tcp_seg seg = kit_seg(k, TCP_ACK);

	seg.ack = ack;
	seg.n_sacks = (uint8_t)n;
	seg.sacks[0] = a;
	seg.sacks[1] = b;
	kit_segment(k, &seg, NULL);
}

/* The same with one block. */
static inline void kit_sack(struct kit *k, seq32 ack, seq32 from, seq32 to)
{
	struct tcp_sack a = { from, to };

	kit_sacks(k, ack, 1, a, a);
}

/* The stack's next frame.  The peer acknowledges what comes in order. */
static inline bool kit_out(struct kit *k, struct kit_frame *f)
{
	struct tcp_frame t;
	uint32_t len = 0;

	if (!tcp_tx(k->s, &t, k->now))
		return false;
	memset(f, 0, offsetof(struct kit_frame, payload));
	memcpy(f->head, t.head, t.head_len);
	f->ip_len = t.ip_len;
	f->head_len = t.head_len;
	f->gso_size = t.gso_size;
	f->len = t.len;
	for (uint32_t i = 0; i < t.n_pieces; i++) {
		memcpy(f->payload + len, t.pieces[i].data, t.pieces[i].len);
		len += t.pieces[i].len;
	}
	assert_int_equal(len, t.len);
	tcp_frame_done(&t);
	assert_int_equal(tcp_head_parse(f->head + f->ip_len,
					(uint32_t)(f->head_len - f->ip_len),
					&f->seg),
			 0);
	f->seg.len = len;
	if (f->seg.flags & TCP_SYN || seq_eq(f->seg.seq, k->ack))
		k->ack = seq_add(f->seg.seq, seg_span(&f->seg));
	k->tsecr = f->seg.tsval;
	return true;
}

/* The next frame, which has these flags. */
static inline void kit_expect(struct kit *k, struct kit_frame *f,
			      unsigned flags)
{
	assert_true(kit_out(k, f));
	assert_int_equal(f->seg.flags, flags);
}

/* There is no next frame. */
static inline void kit_expect_none(struct kit *k)
{
	static struct kit_frame f;

	assert_false(kit_out(k, &f));
}

/* All that the stack has to send; returns how many frames. */
static inline unsigned kit_drain(struct kit *k)
{
	static struct kit_frame f;
	unsigned n = 0;

	while (kit_out(k, &f))
		n++;
	return n;
}

/* Time passes; what falls due is due, and not sent. */
static inline void kit_wait(struct kit *k, uint64_t ns)
{
	uint64_t until = k->now + ns, at;

	while ((at = tcp_next_ns(k->s)) <= until) {
		k->now = at > k->now ? at : k->now;
		tcp_timers(k->s, k->now);
		kit_check(k);
	}
	k->now = until;
	tcp_timers(k->s, k->now);
	kit_check(k);
}

/* An active open up to the stack's SYN. */
static inline struct tcp_conn *kit_connect(struct kit *k)
{
	static struct kit_frame f;
	struct tcp_conn *c;

	assert_int_equal(tcp_connect(k->s, &k->me, KIT_PORT, &k->peer,
				     KIT_PEER_PORT, k->now, &c),
			 0);
	assert_true(kit_out(k, &f));
	assert_int_equal(f.seg.flags, TCP_SYN);
	return c;
}

/* A connection that the stack has opened. */
static inline struct tcp_conn *kit_established(struct kit *k)
{
	struct tcp_conn *c = kit_connect(k);

	kit_in(k, TCP_SYN | TCP_ACK, NULL, 0);
	assert_int_equal(kit_drain(k), 1);
	assert_int_equal(c->state, TCP_ESTABLISHED);
	return c;
}

/* A connection that the peer has opened. */
static inline struct tcp_conn *kit_accepted(struct kit *k)
{
	if (!k->listener)
		assert_int_equal(
		    tcp_listen(k->s, NULL, KIT_PORT, 8, &k->listener), 0);
	kit_in(k, TCP_SYN, NULL, 0);
	assert_int_equal(kit_drain(k), 1);
	kit_in(k, TCP_ACK, NULL, 0);
	struct tcp_conn *c = tcp_accept(k->listener);
	assert_non_null(c);
	return c;
}

/* A world of its own with one connection, and its end. */
static inline struct tcp_conn *kit_open_one(struct kit *k)
{
	kit_begin(k);
	return kit_established(k);
}

static inline void kit_close_one(struct kit *k, struct tcp_conn *c)
{
	tcp_abort(c, k->now);
	kit_drain(k);
	kit_fini(k);
}

/* Puts @n bytes of the stream into the send buffer. */
static inline void kit_write(struct kit *k, struct tcp_conn *c, uint32_t n)
{
	static uint8_t buf[1 << 18];

	stream_fill(buf, 0, n);
	assert_int_equal(tcp_send(c, buf, n, k->now), n);
}

/* An ICMP error that quotes a segment of ours with the number @seq. */
static inline void kit_icmp(struct kit *k, uint8_t type, uint8_t code,
			    uint32_t mtu, seq32 seq)
{
	uint8_t m[128] = { type, code };
	uint32_t ip_len =
	    ip_build(m + 8, &k->me, &k->peer, IP_PROTO_TCP, 0, 1480);
	uint32_t n = 8 + ip_len + 8;
	uint8_t protocol = k->is_v6 ? IP_PROTO_ICMPV6 : IP_PROTO_ICMP;
	struct cksum sum = { 0 };

	store_be32(m + 4, mtu);
	store_be16(m + 8 + ip_len, k->lport);
	store_be16(m + 8 + ip_len + 2, k->rport);
	store_be32(m + 8 + ip_len + 4, seq.v);
	if (k->is_v6)
		sum = ip_pseudo_sum(&k->peer, &k->me, protocol, n);
	cksum_add(&sum, m, n);
	store_be16(m + 2, cksum_end(&sum));
	kit_packet(k, protocol, m, n);
}
