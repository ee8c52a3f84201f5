/* SPDX-License-Identifier: MIT */
/*
 * tests/script/packet.c - converts packets between a script's numbers and bytes
 *
 * It does not use the header code of src/ip, so it cannot repeat a mistake of that
 * code.  Only the checksum and the IP header are shared.  Options keep their order and
 * their lengths.
 */
#include "icmp_names.h"
#include "ip/checksum.h"
#include "script.h"

#define L4_MAX (60 + 65535)

/* The byte of the payload at @offset behind its sender's SYN. */
uint8_t payload_byte(uint32_t offset)
{
	return (uint8_t)(offset * 7 + (offset >> 8) * 13 + 'a');
}

/* --- to the wire --- */

static uint32_t put_ts(const struct tcp_option *o, const struct flow_map *f,
		       uint8_t *p)
{
	store_be32(p, o->v[0]);
	store_be32(p + 4, o->v[1] ? o->v[1] + f->ts_base : 0);
	return 8;
}

static uint32_t put_option(const struct tcp_option *o, const struct flow_map *f,
			   uint8_t *p)
{
	p[0] = o->kind;
	if (o->kind <= OPT_NOP)
		return 1;
	p[1] = o->len;
	if (o->any == UINT8_MAX) {
		memset(p + 2, 0, o->n);
		return 2u + o->n;
	}
	switch (o->kind) {
	case OPT_MSS:
		store_be16(p + 2, (uint16_t)o->v[0]);
		return 4;
	case OPT_WSCALE:
		p[2] = (uint8_t)o->v[0];
		return 3;
	case OPT_TS:
		return 2 + put_ts(o, f, p + 2);
	case OPT_SACK:
		for (unsigned i = 0; i < o->n; i++)
			store_be32(p + 2 + 4 * (size_t)i, o->v[i] + f->isn);
		return 2 + 4u * o->n;
	default:
		return 2;
	}
}

static uint32_t build_tcp(const struct packet *p, const struct flow_map *f,
			  uint8_t *l4)
{
	uint32_t head = 20;

	memset(l4, 0, 60);
	for (uint32_t i = 0; i < p->n_options && head <= 48; i++)
		head += put_option(&p->options[i], f, l4 + head);
	head = (head + 3) / 4 * 4;
	store_be16(l4, f->rport);
	store_be16(l4 + 2, f->lport);
	store_be32(l4 + 4, p->seq);
	store_be32(l4 + 8, p->flags & TCP_ACK ? p->ack + f->isn : p->ack);
	l4[12] = (uint8_t)(head / 4 << 4);
	l4[13] = p->flags;
	store_be16(l4 + 14, p->win < 0 ? 65535 : (uint16_t)p->win);
	store_be16(l4 + 18, p->urg < 0 ? 0 : (uint16_t)p->urg);
	uint32_t from = p->seq + !!(p->flags & TCP_SYN) - f->peer_isn - 1;
	for (uint32_t i = 0; i < p->len; i++)
		l4[head + i] = payload_byte(from + i);
	return head + p->len;
}

/* Builds the error with the first 20 bytes of the segment that it is about. */
static uint32_t build_icmp(const struct packet *p, const struct flow_map *f,
			   bool is_v6, uint8_t *l4)
{
	const struct icmp_name *n = &icmp_names[p->icmp_kind];
	struct ip_addr us = backend_local(is_v6), them = backend_remote(is_v6);

	memset(l4, 0, 8);
	l4[0] = is_v6 ? n->type6 : n->type;
	l4[1] = is_v6 ? n->code6 : n->code;
	/* An IPv6 header is 20 bytes longer, so the MTU is as well. */
	if (p->icmp_mtu && is_v6)
		store_be32(l4 + 4, p->icmp_mtu + 20);
	else
		store_be16(l4 + 6, (uint16_t)p->icmp_mtu);
	uint32_t ip = ip_build(l4 + 8, &us, &them, IP_PROTO_TCP, 0, 20);
	uint8_t *tcp = l4 + 8 + ip;
	memset(tcp, 0, 20);
	store_be16(tcp, f->lport);
	store_be16(tcp + 2, f->rport);
	store_be32(tcp + 4, p->seq + f->isn);
	tcp[12] = 5 << 4;
	tcp[13] = TCP_ACK;
	return 8 + ip + 20;
}

static void put_sum(uint8_t *l4, uint32_t len, uint32_t at, bool has_pseudo,
		    uint8_t protocol, bool is_v6)
{
	struct ip_addr us = backend_local(is_v6), them = backend_remote(is_v6);
	struct cksum sum = { 0 };

	if (has_pseudo)
		sum = ip_pseudo_sum(&them, &us, protocol, len);
	cksum_add(&sum, l4, len);
	store_be16(l4 + at, cksum_end(&sum));
}

uint32_t packet_build(const struct packet *p, struct flow_map *f, bool is_v6,
		      uint8_t *out)
{
	static uint8_t l4[L4_MAX];
	struct ip_addr us = backend_local(is_v6), them = backend_remote(is_v6);
	uint8_t protocol = IP_PROTO_TCP;
	uint32_t len, head;

	if (p->is_icmp) {
		protocol = is_v6 ? IP_PROTO_ICMPV6 : IP_PROTO_ICMP;
		len = build_icmp(p, f, is_v6, l4);
		put_sum(l4, len, 2, is_v6, protocol, is_v6);
	} else {
		if (p->flags & TCP_SYN) {
			f->peer_isn = p->seq;
			f->has_peer_isn = true;
		}
		len = build_tcp(p, f, l4);
		put_sum(l4, len, 16, true, protocol, is_v6);
	}
	if (p->has_bad_sum)
		l4[17] ^= 0x55;
	head = ip_build(out, &them, &us, protocol, p->ecn, len);
	memcpy(out + head, l4, len);
	return head + len;
}

/* --- from the wire --- */

static bool get_option(const uint8_t *p, uint32_t left, struct tcp_option *o)
{
	*o = (struct tcp_option){ .kind = p[0] };
	if (p[0] <= OPT_NOP)
		return true;
	if (left < 2 || p[1] < 2 || p[1] > left)
		return false;
	o->len = p[1];
	switch (p[0]) {
	case OPT_MSS:
		o->n = 1;
		o->v[0] = load_be16(p + 2);
		break;
	case OPT_WSCALE:
		o->n = 1;
		o->v[0] = p[2];
		break;
	case OPT_TS:
	case OPT_SACK:
		o->n = (uint8_t)((p[1] - 2) / 4);
		for (unsigned i = 0; i < o->n && i < 8; i++)
			o->v[i] = load_be32(p + 2 + 4 * (size_t)i);
		break;
	}
	return true;
}

static bool get_options(const uint8_t *p, uint32_t len, struct packet *out)
{
	for (uint32_t at = 0; at < len;) {
		struct tcp_option *o = &out->options[out->n_options++];

		if (!get_option(p + at, len - at, o))
			return false;
		at += o->kind <= OPT_NOP ? 1 : o->len;
		if (o->kind == OPT_EOL)
			break;
	}
	return true;
}

/* Whether the payload is the pattern, counted from our SYN. */
static bool is_pattern(const uint8_t *p, uint32_t len, uint32_t offset)
{
	for (uint32_t i = 0; i < len; i++)
		if (p[i] != payload_byte(offset + i))
			return false;
	return true;
}

bool packet_decode(const uint8_t *bytes, uint32_t len, struct packet *out)
{
	struct packet p = { .is_out = true };
	struct ip_packet ip;

	if (ip_parse(bytes, len, &ip) || ip.protocol != IP_PROTO_TCP ||
	    ip.l4_len < 20)
		return false;
	const uint8_t *l4 = bytes + ip.l4_off;
	uint32_t head = (l4[12] >> 4) * 4u;
	if (head < 20 || head > ip.l4_len)
		return false;
	p.lport = load_be16(l4);
	p.rport = load_be16(l4 + 2);
	p.seq = load_be32(l4 + 4);
	p.ack = load_be32(l4 + 8);
	p.flags = l4[13];
	p.ecn = ip.ecn;
	p.win = load_be16(l4 + 14);
	p.urg = load_be16(l4 + 18);
	p.len = ip.l4_len - head;
	p.has_bad_sum = !tcp_sum_is_good(&ip, l4);
	if (!get_options(l4 + 20, head - 20, &p))
		return false;
	*out = p;
	return true;
}

bool packet_has_pattern(const uint8_t *bytes, const struct packet *p)
{
	struct ip_packet ip;
	int err = ip_parse(bytes, BACKEND_PACKET_MAX, &ip);
	uint32_t head = (bytes[ip.l4_off + 12] >> 4) * 4u;

	return !err && is_pattern(bytes + ip.l4_off + head, p->len,
				  p->seq + !!(p->flags & TCP_SYN) - 1);
}

void packet_to_script(struct packet *p, const struct flow_map *f)
{
	if (f->has_isn)
		p->seq -= f->isn;
	for (uint32_t i = 0; i < p->n_options; i++)
		if (p->options[i].kind == OPT_TS && f->has_ts_base)
			p->options[i].v[0] -= f->ts_base;
}

/* --- for people --- */

static void print_option(FILE *out, const struct tcp_option *o)
{
	static const char *const names[] = { "eol",    "nop",    "mss",
					     "wscale", "sackOK", "sack" };

	if (o->any == UINT8_MAX || (o->kind > OPT_SACK && o->kind != OPT_TS)) {
		fprintf(out, "opt %u %u %u", o->kind, o->len, o->n);
		return;
	}
	if (o->kind == OPT_TS) {
		fprintf(out, o->any & TS_ANY ? "TS val *" : "TS val %u",
			o->v[0]);
		fprintf(out, o->any & ECR_ANY ? " ecr *" : " ecr %u", o->v[1]);
		return;
	}
	fprintf(out, "%s", names[o->kind]);
	for (unsigned i = 0; i < o->n; i++)
		fprintf(out, o->kind == OPT_SACK && i % 2 ? ":%u" : " %u",
			o->v[i]);
}

void packet_print(FILE *out, const struct packet *p)
{
	static const char *const ecn[] = { "", " [ect1]", " [ect0]", " [ce]" };
	static const char letters[] = "FSRP.UEW";

	fputc(p->is_out ? '>' : '<', out);
	if (p->is_tagged)
		fprintf(out, " :%u", p->rport);
	fprintf(out, "%s ", ecn[p->ecn & 3]);
	if (p->is_icmp) {
		fprintf(out, "icmp %s mtu %u seq %u",
			icmp_names[p->icmp_kind].name, p->icmp_mtu, p->seq);
		return;
	}
	for (unsigned i = 0; i < 8; i++)
		if (p->flags & 1 << i)
			fputc(letters[i], out);
	if (!p->flags)
		fputc(p->has_any_flags ? '*' : '-', out);
	fprintf(out, " %u:%u(%u)", p->seq, p->seq + p->len, p->len);
	if (p->flags & TCP_ACK)
		fprintf(out, " ack %u", p->ack);
	if (p->win >= 0)
		fprintf(out, " win %d", (int)p->win);
	if (p->urg > 0)
		fprintf(out, " urg %d", (int)p->urg);
	for (uint32_t i = 0; i < p->n_options; i++) {
		fputs(i ? "," : " <", out);
		print_option(out, &p->options[i]);
	}
	if (p->n_options || p->has_any_options)
		fputs(p->has_any_options ? " <...>" : ">", out);
}
