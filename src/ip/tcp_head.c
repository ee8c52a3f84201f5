/* SPDX-License-Identifier: MIT */
/* ip/tcp_head.c - parses and builds the TCP header and its options; see tcp_head.h */
#include "ip/tcp_head.h"

#include "base/drop.h"
#include "ip/checksum.h"

enum {
	OPT_END = 0,
	OPT_NOP = 1,
	OPT_MSS = 2,
	OPT_WSCALE = 3,
	OPT_SACK_OK = 4,
	OPT_SACK = 5,
	OPT_TS = 8,
};
#define NOP_NOP_TS 0x0101080au

static void parse_sack(const uint8_t *p, uint32_t len, struct tcp_seg *s)
{
	s->n_sacks = 0;
	for (; len >= 8 && s->n_sacks < TCP_SACK_MAX; len -= 8, p += 8)
		s->sacks[s->n_sacks++] =
		    (struct tcp_sack){ { load_be32(p) }, { load_be32(p + 4) } };
}

/* Parses one option of @len bytes, kind and length included. */
static void parse_option(const uint8_t *p, uint32_t len, struct tcp_seg *s)
{
	switch (p[0]) {
	case OPT_MSS:
		if (len == 4 && s->flags & TCP_SYN)
			s->mss = load_be16(p + 2);
		break;
	case OPT_WSCALE:
		/* RFC 7323 section 2.3: a scale above 14 counts as 14. */
		if (len == 3 && s->flags & TCP_SYN)
			s->wscale = MIN(p[2], (uint8_t)TCP_WSCALE_MAX);
		break;
	case OPT_SACK_OK:
		if (len == 2 && s->flags & TCP_SYN)
			s->is_sack_ok = true;
		break;
	case OPT_SACK:
		if (len % 8 == 2 && len > 2 && !(s->flags & TCP_SYN))
			parse_sack(p + 2, len - 2, s);
		break;
	case OPT_TS:
		if (len == 10) {
			s->has_ts = true;
			s->tsval = load_be32(p + 2);
			s->tsecr = load_be32(p + 6);
		}
		break;
	}
}

static int parse_options(const uint8_t *p, uint32_t len, struct tcp_seg *s)
{
	while (len && p[0] != OPT_END) {
		if (p[0] == OPT_NOP) {
			p++;
			len--;
			continue;
		}
		if (len < 2 || p[1] < 2 || p[1] > len)
			return DROP(TCP_OPTIONS);
		parse_option(p, p[1], s);
		len -= p[1];
		p += p[1];
	}
	return 0;
}

int tcp_head_parse(const uint8_t *p, uint32_t len, struct tcp_seg *out)
{
	if (len < TCP_HEAD)
		return DROP(SHORT);
	uint32_t head = (p[12] >> 4) * 4u;
	if (head < TCP_HEAD || head > len)
		return DROP(TCP_LENGTH);

	/* Assigns the fields one by one: a copy of a struct that was just built would
	 * stall. */
	out->sport = load_be16(p);
	out->dport = load_be16(p + 2);
	out->seq.v = load_be32(p + 4);
	out->ack.v = load_be32(p + 8);
	out->flags = p[13];
	out->wnd = load_be16(p + 14);
	out->urg = load_be16(p + 18);
	out->head_len = (uint16_t)head;
	out->len = len - head;
	out->mss = 0;
	out->wscale = TCP_NO_WSCALE;
	out->is_sack_ok = out->has_ts = false;
	out->n_sacks = 0;
	out->tsval = out->tsecr = 0;
	/* RFC 7323 appendix A: almost all segments have exactly these options. */
	if (head == TCP_HEAD + 12 && load_be32(p + TCP_HEAD) == NOP_NOP_TS) {
		out->has_ts = true;
		out->tsval = load_be32(p + TCP_HEAD + 4);
		out->tsecr = load_be32(p + TCP_HEAD + 8);
		return 0;
	}
	return parse_options(p + TCP_HEAD, head - TCP_HEAD, out);
}

bool tcp_sum_is_good(const struct ip_packet *ip, const uint8_t *l4)
{
	struct cksum sum =
	    ip_pseudo_sum(&ip->src, &ip->dst, IP_PROTO_TCP, ip->l4_len);

	cksum_add(&sum, l4, ip->l4_len);
	return !cksum_end(&sum);
}

static uint8_t *put_ts(uint8_t *p, const struct tcp_seg *s)
{
	p[0] = OPT_TS;
	p[1] = 10;
	store_be32(p + 2, s->tsval);
	store_be32(p + 6, s->tsecr);
	return p + 10;
}

static uint8_t *put_sack_ok(uint8_t *p)
{
	p[0] = OPT_SACK_OK;
	p[1] = 2;
	return p + 2;
}

static uint8_t *put_nops(uint8_t *p, uint32_t n)
{
	memset(p, OPT_NOP, n);
	return p + n;
}

static uint8_t *put_syn_options(uint8_t *p, const struct tcp_seg *s)
{
	if (s->mss) {
		p[0] = OPT_MSS;
		p[1] = 4;
		store_be16(p + 2, s->mss);
		p += 4;
	}
	if (s->has_ts) {
		p = s->is_sack_ok ? put_sack_ok(p) : put_nops(p, 2);
		p = put_ts(p, s);
	} else if (s->is_sack_ok) {
		p = put_sack_ok(put_nops(p, 2));
	}
	if (s->wscale != TCP_NO_WSCALE) {
		p = put_nops(p, 1);
		p[0] = OPT_WSCALE;
		p[1] = 3;
		p[2] = s->wscale;
		p += 3;
	}
	return p;
}

static uint8_t *put_sacks(uint8_t *p, const struct tcp_seg *s, uint32_t room)
{
	uint32_t n = room < 4 ? 0 : MIN((room - 4) / 8, (uint32_t)s->n_sacks);

	if (!n)
		return p;
	p = put_nops(p, 2);
	p[0] = OPT_SACK;
	p[1] = (uint8_t)(2 + n * 8);
	p += 2;
	for (uint32_t i = 0; i < n; i++, p += 8) {
		store_be32(p, s->sacks[i].from.v);
		store_be32(p + 4, s->sacks[i].to.v);
	}
	return p;
}

uint32_t tcp_head_build(uint8_t *p, const struct tcp_seg *s)
{
	uint8_t *end = p + TCP_HEAD;

	if (s->flags & TCP_SYN) {
		end = put_syn_options(end, s);
	} else {
		if (s->has_ts)
			end = put_ts(put_nops(end, 2), s);
		end = put_sacks(end, s, (uint32_t)(p + TCP_HEAD_MAX - end));
	}
	uint32_t len = (uint32_t)(end - p);
	assert(len % 4 == 0);
	assert(len <= TCP_HEAD_MAX);
	store_be16(p, s->sport);
	store_be16(p + 2, s->dport);
	store_be32(p + 4, s->seq.v);
	store_be32(p + 8, s->ack.v);
	p[12] = (uint8_t)(len / 4 << 4);
	p[13] = s->flags;
	store_be16(p + 14, s->wnd);
	store_be16(p + 16, 0);
	store_be16(p + 18, s->urg);
	return len;
}
