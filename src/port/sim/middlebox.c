/* SPDX-License-Identifier: MIT */
/* port/sim/middlebox.c - what middleboxes on a path do to packets; see middlebox.h */
#include "port/sim/middlebox.h"

#include <assert.h>

#include "ip/checksum.h"
#include "ip/tcp_head.h"

#define OPT_END 0
#define OPT_NOP 1
#define OPT_MSS 2
#define OPT_WSCALE 3
#define OPT_SACK_OK 4
#define OPT_TS 8
#define ICMP_HEAD 8

/* A segment where it lies. */
struct view {
	struct ip_packet ip;
	uint8_t *tcp;
	uint32_t head, payload; /* bytes */
};

static bool view_of(const uint8_t *p, uint32_t len, struct view *v)
{
	if (ip_parse(p, len, &v->ip) || v->ip.protocol != IP_PROTO_TCP ||
	    v->ip.l4_len < TCP_HEAD)
		return false;
	v->tcp = (uint8_t *)p + v->ip.l4_off;
	v->head = (v->tcp[12] >> 4) * 4u;
	if (v->head < TCP_HEAD || v->head > v->ip.l4_len)
		return false;
	v->payload = v->ip.l4_len - v->head;
	return true;
}

static void repair_v4(uint8_t *p, uint32_t head)
{
	struct cksum sum = { 0 };

	store_be16(p + 10, 0);
	cksum_add(&sum, p, head);
	store_be16(p + 10, cksum_end(&sum));
}

/* Writes checksums that fit. */
static void repair(const struct view *v)
{
	store_be16(v->tcp + 16, 0);
	struct cksum sum =
	    ip_pseudo_sum(&v->ip.src, &v->ip.dst, IP_PROTO_TCP, v->ip.l4_len);
	cksum_add(&sum, v->tcp, v->ip.l4_len);
	store_be16(v->tcp + 16, cksum_end(&sum));
}

/* Gives the segment @payload bytes.  Return: the packet's bytes */
static uint32_t resize(uint8_t *p, struct view *v, uint32_t payload)
{
	v->payload = payload;
	v->ip.l4_len = v->head + payload;
	uint32_t whole = v->ip.l4_off + v->ip.l4_len;
	if (v->ip.is_v6) {
		store_be16(p + 4, (uint16_t)v->ip.l4_len);
	} else {
		store_be16(p + 2, (uint16_t)whole);
		repair_v4(p, v->ip.l4_off);
	}
	repair(v);
	return whole;
}

/* Finds the next option at *@at or behind it.  Return: its length, or 0 at the end */
static uint32_t option_at(const struct view *v, uint32_t *at)
{
	while (*at < v->head && v->tcp[*at] == OPT_NOP)
		++*at;
	if (*at + 1 >= v->head || v->tcp[*at] == OPT_END)
		return 0;
	uint32_t n = v->tcp[*at + 1];
	return n >= 2 && *at + n <= v->head ? n : 0;
}

static bool is_stripped(uint8_t kind, uint32_t what)
{
	return (kind == OPT_TS && what & STRIP_TS) ||
	       (kind == OPT_SACK_OK && what & STRIP_SACK) ||
	       (kind == OPT_WSCALE && what & STRIP_WSCALE) ||
	       (kind == OPT_MSS && what & STRIP_MSS);
}

void middlebox_strip(uint8_t *p, uint32_t len, uint32_t what)
{
	struct view v;
	uint32_t n;

	if (!view_of(p, len, &v))
		return;
	for (uint32_t at = TCP_HEAD; (n = option_at(&v, &at)); at += n)
		if (is_stripped(v.tcp[at], what))
			memset(v.tcp + at, OPT_NOP, n);
	repair(&v);
}

void middlebox_clamp_mss(uint8_t *p, uint32_t len, uint16_t mss)
{
	struct view v;
	uint32_t n;

	if (!view_of(p, len, &v) || !(v.tcp[13] & TCP_SYN))
		return;
	for (uint32_t at = TCP_HEAD; (n = option_at(&v, &at)); at += n)
		if (v.tcp[at] == OPT_MSS && n == 4 &&
		    load_be16(v.tcp + at + 2) > mss)
			store_be16(v.tcp + at + 2, mss);
	repair(&v);
}

void middlebox_ecn(uint8_t *p, uint32_t len, uint8_t bits)
{
	struct ip_packet ip;

	if (ip_parse(p, len, &ip))
		return;
	if (ip.is_v6) {
		p[1] = (uint8_t)((p[1] & ~0x30) | bits << 4);
		return;
	}
	p[1] = (uint8_t)((p[1] & ~3) | bits);
	repair_v4(p, ip.l4_off);
}

void middlebox_mutate(uint8_t *p, uint32_t len, uint64_t random)
{
	struct view v;

	if (!view_of(p, len, &v))
		return;
	v.tcp[4 + random % (v.head - 4)] = (uint8_t)(random >> 32);
	repair(&v);
}

bool middlebox_is_ack(const uint8_t *p, uint32_t len)
{
	struct view v;

	return view_of(p, len, &v) && !v.payload &&
	       (v.tcp[13] & (TCP_SYN | TCP_FIN | TCP_RST | TCP_ACK)) == TCP_ACK;
}

uint32_t middlebox_split(uint8_t *p, uint32_t *len, uint8_t *rest,
			 uint64_t random)
{
	struct view v, w;

	if (!view_of(p, *len, &v) || v.payload < 2 ||
	    v.tcp[13] & (TCP_SYN | TCP_RST | TCP_URG))
		return 0;
	uint32_t first = 1 + (uint32_t)(random % (v.payload - 1));
	uint32_t second = v.payload - first;
	memcpy(rest, p, v.ip.l4_off + v.head);
	memcpy(rest + v.ip.l4_off + v.head, v.tcp + v.head + first, second);
	w = v;
	w.tcp = rest + v.ip.l4_off;
	store_be32(w.tcp + 4, load_be32(v.tcp + 4) + first);
	v.tcp[13] &= (uint8_t) ~(TCP_FIN | TCP_PSH);
	*len = resize(p, &v, first);
	return resize(rest, &w, second);
}

static bool may_merge(const struct view *a, const struct view *b)
{
	return a->payload && b->payload && a->ip.is_v6 == b->ip.is_v6 &&
	       a->ip.ecn == b->ip.ecn && ip_addr_eq(&a->ip.src, &b->ip.src) &&
	       ip_addr_eq(&a->ip.dst, &b->ip.dst) && a->head == b->head &&
	       load_be32(a->tcp) == load_be32(b->tcp) &&
	       load_be32(a->tcp + 4) + a->payload == load_be32(b->tcp + 4) &&
	       load_be32(a->tcp + 8) == load_be32(b->tcp + 8) &&
	       a->tcp[13] == TCP_ACK && (b->tcp[13] & ~TCP_PSH) == TCP_ACK &&
	       !memcmp(a->tcp + TCP_HEAD, b->tcp + TCP_HEAD,
		       a->head - TCP_HEAD);
}

uint32_t middlebox_merge(uint8_t *p, uint32_t len, uint32_t room,
			 const uint8_t *next, uint32_t next_len)
{
	struct view a, b;

	if (!view_of(p, len, &a) || !view_of(next, next_len, &b) ||
	    !may_merge(&a, &b) ||
	    a.ip.l4_off + a.head + a.payload + b.payload >
		MIN(room, (uint32_t)IP_MAX))
		return 0;
	memcpy(a.tcp + a.head + a.payload, b.tcp + b.head, b.payload);
	a.tcp[13] = b.tcp[13];
	memcpy(a.tcp + 14, b.tcp + 14, 2); /* the later window */
	return resize(p, &a, a.payload + b.payload);
}

uint32_t middlebox_reset(const uint8_t *p, uint32_t len, uint32_t off,
			 uint8_t *out)
{
	struct view v, r;

	if (!view_of(p, len, &v) || v.tcp[13] & TCP_RST)
		return 0;
	bool is_syn = v.tcp[13] & TCP_SYN, is_fin = v.tcp[13] & TCP_FIN;
	memcpy(out, p, v.ip.l4_off + TCP_HEAD);
	r = v;
	r.tcp = out + v.ip.l4_off;
	r.head = TCP_HEAD;
	r.tcp[12] = TCP_HEAD / 4 << 4;
	r.tcp[13] = TCP_RST | (v.tcp[13] & TCP_ACK);
	store_be16(r.tcp + 18, 0);
	store_be32(r.tcp + 4,
		   load_be32(v.tcp + 4) + v.payload + is_syn + is_fin + off);
	return resize(out, &r, 0);
}

static uint32_t router(const struct view *v, struct ip_addr *out)
{
	static const struct ip_addr v6 = { { 0x20, 1, 0x0d,
					     0xb8, [15] = 254 } };

	*out = v->ip.is_v6 ? v6 : ip_addr_v4(0x0a0000fe);
	return v->ip.is_v6 ? IP_PROTO_ICMPV6 : IP_PROTO_ICMP;
}

/* An ICMP error: its type, its code, and its second word. */
struct error {
	uint8_t type, code;
	uint32_t word;
};

static uint32_t make_error(const struct view *v, const uint8_t *p, uint32_t len,
			   struct error e, uint32_t off, uint8_t *out)
{
	struct ip_addr from;
	struct cksum sum = { 0 };
	uint8_t protocol = (uint8_t)router(v, &from);
	uint32_t quoted = MIN(v->ip.l4_off + v->head, len);
	uint32_t n = ICMP_HEAD + quoted;
	uint32_t head = ip_build(out, &from, &v->ip.src, protocol, 0, n);
	uint8_t *icmp = out + head;

	memset(icmp, 0, ICMP_HEAD);
	icmp[0] = e.type;
	icmp[1] = e.code;
	store_be32(icmp + 4, e.word);
	memcpy(icmp + ICMP_HEAD, p, quoted);
	uint8_t *seq = icmp + ICMP_HEAD + v->ip.l4_off + 4;
	store_be32(seq, load_be32(seq) + off);
	if (v->ip.is_v6)
		sum = ip_pseudo_sum(&from, &v->ip.src, protocol, n);
	cksum_add(&sum, icmp, n);
	store_be16(icmp + 2, cksum_end(&sum));
	return head + n;
}

uint32_t middlebox_too_big(const uint8_t *p, uint32_t len, uint32_t mtu,
			   uint32_t off, uint8_t *out)
{
	struct view v;

	if (!view_of(p, len, &v))
		return 0;
	struct error e = { v.ip.is_v6 ? 2 : 3, v.ip.is_v6 ? 0 : 4,
			   v.ip.is_v6 ? mtu : mtu & 0xffff };
	return make_error(&v, p, len, e, off, out);
}

uint32_t middlebox_unreachable(const uint8_t *p, uint32_t len, uint64_t which,
			       uint32_t off, uint8_t *out)
{
	/* Host, network, port, time exceeded, prohibited. */
	static const struct error v4[] = { { 3, 1, 0 },
					   { 3, 0, 0 },
					   { 3, 3, 0 },
					   { 11, 0, 0 },
					   { 3, 13, 0 } };
	static const struct error v6[] = {
		{ 1, 3, 0 }, { 1, 0, 0 }, { 1, 4, 0 }, { 3, 0, 0 }, { 1, 1, 0 }
	};
	struct view v;

	if (!view_of(p, len, &v))
		return 0;
	which %= ARRAY_LEN(v4);
	return make_error(&v, p, len, v.ip.is_v6 ? v6[which] : v4[which], off,
			  out);
}

void middlebox_close_window(uint8_t *p, uint32_t len)
{
	struct view v;

	if (!view_of(p, len, &v) || v.tcp[13] & TCP_SYN)
		return;
	store_be16(v.tcp + 14, 0);
	repair(&v);
}
