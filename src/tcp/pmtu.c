/* SPDX-License-Identifier: MIT */
/*
 * tcp/pmtu.c - the largest packet that fits the path
 *
 *     an ICMP error says so (icmp.c)        -> pmtu_too_big()  -+
 *     time-outs of large segments (timer.c) -> pmtu_timeout()  -+-> a smaller MSS
 *     a probe arrives, or is lost (ack.c)   -> pmtu_probe_...() -> a larger one
 *
 * The MTU of the path lies between path_mtu, which we use, and mtu_high: we know that
 * nothing larger fits.  While the two differ, tx.c sends an occasional larger segment,
 * a probe.  If the probe arrives, its size becomes path_mtu.  If it alone is lost,
 * mtu_high falls below its size, and the congestion window stays.  When the search has
 * ended it begins again after a while, because paths change.
 *
 * Segments in flight that are too large are lost; send_again() cuts them.  On a path of
 * IPv4 that carries less than 552 bytes we send packets without "do not fragment".
 *
 * The stack remembers what routers have said about a peer's address until the next
 * search.  Connections that open meanwhile begin with that value (RFC 9040).  The table
 * is small; a new entry replaces an old one.
 *
 * Spec: RFC 1191, RFC 8201, RFC 4821, RFC 5927 section 7.2
 */
#include "tcp/pmtu.h"
#include "tcp/snd.h"
#include "tcp/stack.h"

#define MTU_MIN_V4                                                             \
	552 /* Linux's; below it routers are to cut, or nothing is sent */
#define MTU_MIN_V6 1280   /* RFC 8201 section 4 */
#define ANEW_S 600        /* RFC 1191 section 6.3 */
#define PROBE_NEAR 16     /* bytes: a smaller gain needs no probe */
#define BLACK_HOLE_RTOS 2 /* time-outs until we suspect the size */

static uint32_t mtu_min(const struct tcp_conn *c)
{
	return ip_addr_is_v4(&c->flow.raddr) ? MTU_MIN_V4 : MTU_MIN_V6;
}

static uint32_t link_mtu(const struct tcp_conn *c)
{
	return stack_mtu(c->stack, &c->flow.raddr);
}

static uint32_t head_len(const struct tcp_conn *c)
{
	return ip_head_len(&c->flow.raddr) + TCP_HEAD +
	       (c->flags & CONN_TS ? 12 : 0);
}

/* The payload of a packet of @mtu bytes, limited by what the peer takes. */
static uint16_t mss_of(const struct tcp_conn *c, uint32_t mtu)
{
	uint32_t head = head_len(c);

	assert(mtu >= head + MSS_MIN);
	return (uint16_t)MIN(mtu - head, (uint32_t)c->mss_max);
}

static struct path_known *path_of(const struct tcp_conn *c)
{
	struct tcp_stack *s = c->stack;

	return &s->paths[path_hash(s, &c->flow.raddr) & (PATHS_KNOWN - 1)];
}

/* A router has told this connection, and other connections to the peer take the same
 * path. */
static void path_keep(const struct tcp_conn *c)
{
	*path_of(c) =
	    (struct path_known){ .raddr = c->flow.raddr,
				 .until_s = c->mtu_probe_s,
				 .mtu = c->path_mtu,
				 .may_fragment = c->rec.may_fragment };
}

void pmtu_init(struct tcp_conn *c)
{
	const struct path_known *p = path_of(c);

	c->path_mtu = c->mtu_high = (uint16_t)link_mtu(c);
	if (!p->mtu || p->mtu >= c->path_mtu ||
	    p->until_s <= now_sec(c->stack) ||
	    !ip_addr_eq(&p->raddr, &c->flow.raddr))
		return;
	c->path_mtu = c->mtu_high = p->mtu;
	c->mtu_probe_s = p->until_s;
	c->rec.may_fragment = p->may_fragment;
}

/* The path's MTU, or something else that limits the MSS, has changed. */
void pmtu_sync(struct tcp_conn *c)
{
	c->mss = mss_of(c, c->path_mtu);
	c->flags &= ~(uint32_t)CONN_MTU_LOW;
	if (c->path_mtu > mtu_min(c))
		c->rec.may_fragment = false;
	if (c->path_mtu < link_mtu(c) && mss_of(c, link_mtu(c)) > c->mss)
		c->flags |= CONN_MTU_LOW;
}

static void search_anew_later(struct tcp_conn *c)
{
	c->mtu_high = c->path_mtu;
	c->mtu_probe = 0;
	c->mtu_probe_s = now_sec(c->stack) + ANEW_S;
}

/* The path of a connection that is imported carries @mtu; 0: unknown. */
void pmtu_resume(struct tcp_conn *c, uint32_t mtu)
{
	uint32_t min = mtu_min(c);

	if (!mtu || mtu >= c->path_mtu)
		return;
	c->path_mtu = (uint16_t)(mtu > min ? mtu : min);
	search_anew_later(c);
	pmtu_sync(c);
}

/* Ranges that no longer fit the path have not arrived.  That is no congestion, so cwnd
 * stays.  Of many such ranges we mark the first ones; when they arrive, RACK finds the
 * others. */
static void cut_what_is_under_way(struct tcp_conn *c)
{
	struct range *r = c->sent.head;
	bool is_any = false;

	for (unsigned i = 0; r && i < WORK_CUT; i++, r = r->next) {
		work_add(&c->stack->work, 1);
		r->flags &= (uint8_t)~RANGE_PROBE;
		if (r->flags & RANGE_SACKED || range_is_lost(c, r) ||
		    r->len <= c->mss)
			continue;
		sent_mark_lost(c, r);
		is_any = true;
	}
	if (!is_any)
		return;
	c->rec.may_undo = false;
	if (c->ca_state == CA_OPEN) {
		c->ca_state = CA_LOSS;
		c->recover = c->snd_nxt;
	}
	conn_set_pending(c, TX_DATA | TX_FORCE);
}

/* RFC 1191 section 7.1: the next common MTU, for a router that does not tell its own. */
static uint32_t plateau_below(uint32_t mtu)
{
	static const uint16_t plateaus[] = { 32000, 17914, 8166, 4352,
					     2002,  1492,  1006, 0 };
	unsigned i = 0;

	while (plateaus[i] >= mtu)
		i++;
	return plateaus[i];
}

/* A packet in flight was too large for a router.  @mtu: what fits; 0: unknown */
void pmtu_too_big(struct tcp_conn *c, uint32_t mtu)
{
	uint32_t min = mtu_min(c);

	/* RFC 8201 section 4: every IPv6 link carries 1280 bytes, so a smaller value is
	 * forged. */
	if (mtu < min && !ip_addr_is_v4(&c->flow.raddr))
		return;
	if (!mtu)
		mtu = plateau_below(c->path_mtu);
	/* We do not go below this size: IPv4 routers fragment packets instead. */
	if (mtu < min && c->path_mtu >= min)
		c->rec.may_fragment = true;
	mtu = mtu > min ? mtu : min;
	if (mtu >= c->path_mtu)
		return;
	c->path_mtu = (uint16_t)mtu;
	search_anew_later(c);
	path_keep(c);
	pmtu_sync(c);
	cut_what_is_under_way(c);
}

/* The retransmission timer has fired again.  A path may drop large packets without an
 * ICMP error, so try smaller ones: RFC 4821 section 7.7. */
void pmtu_timeout(struct tcp_conn *c)
{
	static const uint16_t sizes[] = { 1280, 1024, MTU_MIN_V4 };
	const struct range *r = c->sent.head;
	unsigned i = 0;

	if (c->n_rtx < BLACK_HOLE_RTOS)
		return;
	while (i < ARRAY_LEN(sizes) && sizes[i] >= c->path_mtu)
		i++;
	if (i == ARRAY_LEN(sizes) || sizes[i] < mtu_min(c) ||
	    r->len <= mss_of(c, sizes[i]))
		return;
	c->path_mtu = sizes[i];
	c->mtu_probe = 0;
	c->mtu_probe_s = now_sec(c->stack);
	pmtu_sync(c);
}

/* Try the largest size first: most likely the path was broken for a while and is as
 * before.  Then halve the interval. */
static uint32_t next_size(const struct tcp_conn *c)
{
	if (c->mtu_high == link_mtu(c))
		return c->mtu_high;
	return ((uint32_t)c->path_mtu + c->mtu_high + 1) / 2;
}

/* Return: the payload of a probe that may be sent now, or 0.  The program and both
 * windows must have bytes for the probe and for some segments behind it, whose ACKs
 * tell if it is lost.  @bytes: what the windows and the program have */
uint32_t pmtu_probe_size(struct tcp_conn *c, uint32_t bytes)
{
	/* A probe fills the packet, so it has no room for SACK blocks. */
	if (c->oooq || c->flags & CONN_DSACK)
		return 0;
	if (c->mtu_probe || now_sec(c->stack) < c->mtu_probe_s ||
	    c->ca_state != CA_OPEN || c->sacked_bytes)
		return 0;
	if (c->mtu_high <= c->path_mtu)
		c->mtu_high = (uint16_t)link_mtu(c);
	uint32_t size = next_size(c), mss = mss_of(c, size);
	if (size < (uint32_t)c->path_mtu + PROBE_NEAR) {
		search_anew_later(c);
		return 0;
	}
	/* CONN_MTU_LOW says that the path limits the MSS. */
	assert(mss > c->mss);
	if (bytes < mss + (DUP_THRESH + 1u) * c->mss)
		return 0;
	return mss;
}

/* A probe of pmtu_probe_size() bytes is in flight as a range with RANGE_PROBE. */
void pmtu_probe_sent(struct tcp_conn *c)
{
	c->mtu_probe = (uint16_t)next_size(c);
}

void pmtu_probe_arrived(struct tcp_conn *c)
{
	assert(c->mtu_probe);
	c->path_mtu = c->mtu_probe;
	c->mtu_probe = 0;
	pmtu_sync(c);
}

void pmtu_probe_lost(struct tcp_conn *c)
{
	assert(c->mtu_probe);
	c->mtu_high = (uint16_t)(c->mtu_probe - 1);
	c->mtu_probe = 0;
}
