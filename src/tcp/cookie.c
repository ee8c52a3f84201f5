/* SPDX-License-Identifier: MIT */
/*
 * tcp/cookie.c - SYN cookies: opens that need no memory until the ACK arrives
 *
 *     a SYN, and no struct tcp_reqsk is free -> cookie_make(): an ISN that encodes the SYN
 *     the ACK of that ISN -> cookie_read(): the struct tcp_reqsk that the SYN would have made
 *
 * The ISN is a sum: a hash of the 4-tuple, the peer's ISN, a count of 64 seconds in the
 * upper eight bits, and in the others an index into a table of MSS values.  A hash of
 * the count and the peer's ISN hides the index.  One guess in two million hits a valid
 * ISN.  The lower six bits of our timestamp encode the other options of the SYN.
 * Without timestamps the connection has neither window scale nor SACK.
 *
 * Spec: RFC 4987 section 3.6, as Linux does it
 */
#include "tcp/stack.h"

#define COUNT_NS (64 * NS_PER_S)
#define COUNTS 2 /* a cookie is valid in its count and the next */
#define HASH_BITS 24
#define HASH_MASK ((1u << HASH_BITS) - 1)
#define TS_BITS 6
#define TS_NO_WSCALE 15u
#define TS_SACK 16u
#define TS_ECN 32u

static const uint16_t sizes_v4[] = { 536, 1300, 1440, 1460 };
static const uint16_t sizes_v6[] = { 1220, 1420, 1440, 8940 };

static const uint16_t *sizes_of(const struct flow *f)
{
	return ip_addr_is_v4(&f->raddr) ? sizes_v4 : sizes_v6;
}

static uint32_t count_now(const struct tcp_stack *s)
{
	return (uint32_t)(s->now_ns / COUNT_NS);
}

/* The hash that hides the MSS; @count 0: the hash that hides everything.  It depends on
 * the peer's ISN, so an ISN that is wrong by one does not decode to the next MSS. */
static uint32_t hash_at(struct tcp_stack *s, const struct tcp_reqsk *req,
			uint32_t count)
{
	return flow_cookie(s, &req->flow,
			   (uint64_t)req->irs.v << 32 | (count + 1));
}

/* @req holds what the SYN said.  The call sets its ISN and the options that the cookie
 * can encode.  Return: the timestamp of the SYN-ACK. */
uint32_t cookie_make(struct tcp_stack *s, struct tcp_reqsk *req)
{
	uint32_t count = count_now(s), i = ARRAY_LEN(sizes_v4) - 1;
	const uint16_t *sizes = sizes_of(&req->flow);

	while (i && sizes[i] > req->mss)
		i--;
	req->iss.v = flow_cookie(s, &req->flow, 0) + req->irs.v +
		     (count << HASH_BITS) +
		     ((hash_at(s, req, count) + i) & HASH_MASK);
	if (!(req->offers & TCP_OFFER_TS)) {
		req->offers = 0;
		return 0;
	}
	uint32_t said =
	    req->offers & TCP_OFFER_WSCALE ? req->wscale : TS_NO_WSCALE;
	said |= req->offers & TCP_OFFER_SACK ? TS_SACK : 0;
	said |= req->offers & TCP_OFFER_ECN ? TS_ECN : 0;
	uint32_t now = now_ms(s), ts = (now >> TS_BITS << TS_BITS) + said;
	/* A timestamp ahead of the clock would make the next segment look old. */
	if ((int32_t)(ts - now) > 0)
		ts -= 1u << TS_BITS;
	return ts;
}

static void read_timestamp(struct tcp_stack *s, const struct tcp_seg *seg,
			   struct tcp_reqsk *req)
{
	/* As in Linux, an echo of 0 encodes nothing.  Then we assume that the peer offered
	 * no SACK and a window scale of 0, which is right for every peer. */
	uint32_t said =
	    seg->tsecr ? seg->tsecr - flow_ts_off(s, &req->flow) : 0;
	uint32_t wscale = said & 15;

	req->offers = TCP_OFFER_TS | (said & TS_SACK ? TCP_OFFER_SACK : 0);
	if (wscale <= TCP_WSCALE_MAX) {
		req->offers |= TCP_OFFER_WSCALE;
		req->wscale = wscale & 15;
	}
	req->offers &= (uint8_t)s->cfg.offers;
	if (said & TS_ECN && s->cfg.ecn != TCP_ECN_OFF)
		req->offers |= TCP_OFFER_ECN;
	req->ts_recent = seg->tsval;
}

/* Return: whether the ACK answers a cookie.  If so, @req, whose flow the caller has
 * filled in, holds what the SYN said. */
bool cookie_read(struct tcp_stack *s, const struct tcp_seg *seg,
		 struct tcp_reqsk *req)
{
	req->irs = seq_sub(seg->seq, 1);
	req->iss = seq_sub(seg->ack, 1);
	uint32_t rest = req->iss.v - flow_cookie(s, &req->flow, 0) - req->irs.v;
	uint32_t age = (count_now(s) - (rest >> HASH_BITS)) & 0xff;
	if (age >= COUNTS)
		return false;
	uint32_t i = (rest - hash_at(s, req, count_now(s) - age)) & HASH_MASK;
	if (i >= ARRAY_LEN(sizes_v4))
		return false;
	req->mss = sizes_of(&req->flow)[i];
	if (seg->has_ts)
		read_timestamp(s, seg, req);
	return true;
}

/* Whether the listener has given cookies lately; otherwise an ACK cannot answer one. */
bool cookie_is_likely(const struct tcp_listener *l)
{
	return l->cookie_ns &&
	       l->stack->now_ns - l->cookie_ns < COUNTS * COUNT_NS;
}
