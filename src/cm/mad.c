/* SPDX-License-Identifier: MIT */
/* cm/mad.c - see cm/mad.h */
#include <infiniband/verbs.h>
#include <string.h>

#include "cm/mad.h"

#define HEAD 24 /* bytes of the common header */
#define CLASS_CM 7
#define VERSION 2
#define METHOD_SEND 3
#define IP_HEAD 36 /* annex A11: the addresses, before the private data */
#define RESPONSE_TIMEOUT 20
#define MAX_RETRIES 15
#define HOPS 64
#define RATE_100_GBPS 16
#define ACK_TIMEOUT 18

static uint32_t get(const uint8_t *p, int n)
{
	uint32_t v = 0;

	while (n--)
		v = v << 8 | *p++;
	return v;
}

static void put(uint8_t *p, uint32_t v, int n)
{
	while (n--) {
		p[n] = (uint8_t)v;
		v >>= 8;
	}
}

/* Where the private data of each kind lies, and how long it is on the wire. */
static const struct {
	uint8_t mad, msg, at, bytes;
} kinds[] = {
	{ MAD_REQ, MSG_REQ, 140, 92 },
	{ MAD_REJ, MSG_REJ, 84, 148 },
	{ MAD_REP, MSG_REP, 36, 196 },
	{ MAD_RTU, MSG_RTU, 8, 0 },
	{ MAD_DREQ, MSG_DREQ, 12, 0 },
	{ MAD_DREP, 0, 8, 0 },
	{ MAD_MRA, 0, 10, 0 },
	{ MAD_SIDR_REQ, MSG_SIDR_REQ, 16, 216 },
	{ MAD_SIDR_REP, MSG_SIDR_REP, 96, 136 },
};

/*
 * From the wire.
 */

static void parse_service(const uint8_t *p, struct msg *m)
{
	m->ps = (uint16_t)get(p + 4, 2);
	m->dst.in.sin_port = htons((uint16_t)get(p + 6, 2));
}

/* The program's bytes follow the addresses, of which the port counts. */
static bool parse_private(const uint8_t *p, size_t bytes, struct msg *m)
{
	bool has_ip = m->kind == MSG_REQ || m->kind == MSG_SIDR_REQ;

	if (has_ip) {
		if (p[1] >> 4 != 4 && p[1] >> 4 != 6)
			return false;
		m->src.in.sin_port = htons((uint16_t)get(p + 2, 2));
		p += IP_HEAD;
		bytes -= IP_HEAD;
	}
	m->p.private_len = (uint8_t)bytes;
	memcpy(m->p.private_data, p, bytes);
	return true;
}

static bool parse_req(const uint8_t *p, struct mad *d)
{
	struct param *q = &d->m.p;
	uint8_t service = p[43] >> 1 & 3;

	parse_service(p + 8, &d->m);
	memcpy(&d->guid, p + 16, sizeof(d->guid));
	q->qkey = get(p + 28, 4);
	q->qp_num = get(p + 32, 3);
	q->responder_resources = p[35];
	q->initiator_depth = p[39];
	q->flow_control = p[43] & 1;
	q->psn = get(p + 44, 3);
	q->retry_count = p[47] & 7;
	d->mtu = p[50] >> 4;
	q->rnr_retry_count = p[50] & 7;
	q->srq = p[51] >> 3 & 1;
	q->qp_type = service == 0 ? IBV_QPT_RC : IBV_QPT_UC;
	memcpy(d->sgid, p + 56, 16);
	memcpy(d->dgid, p + 72, 16);
	return service <= 1 && d->mtu >= IBV_MTU_256 && d->mtu <= IBV_MTU_4096;
}

static void parse_rep(const uint8_t *p, struct mad *d)
{
	struct param *q = &d->m.p;

	q->qkey = get(p + 8, 4);
	q->qp_num = get(p + 12, 3);
	q->psn = get(p + 20, 3);
	q->responder_resources = p[24];
	q->initiator_depth = p[25];
	q->flow_control = p[26] & 1;
	q->rnr_retry_count = p[27] >> 5;
	q->srq = p[27] >> 4 & 1;
}

static bool parse_kind(const uint8_t *p, struct mad *d)
{
	struct msg *m = &d->m;

	m->p.qp_type = IBV_QPT_RC;
	switch (d->kind) {
	case MAD_REQ:
		return parse_req(p, d);
	case MAD_REP:
		parse_rep(p, d);
		return true;
	case MAD_REJ:
		m->reason = (uint8_t)get(p + 10, 2);
		return true;
	case MAD_DREQ:
		d->remote_qpn = get(p + 8, 3);
		return true;
	case MAD_SIDR_REQ:
		m->p.qp_type = IBV_QPT_UD;
		d->remote_id = 0;
		parse_service(p + 8, m);
		return true;
	case MAD_SIDR_REP:
		m->p.qp_type = IBV_QPT_UD;
		d->remote_id = d->local_id;
		m->reason = p[4];
		m->p.qp_num = get(p + 8, 3);
		m->p.qkey = get(p + 20, 4);
		return true;
	default:
		return true;
	}
}

bool mad_parse(const uint8_t *p, size_t n, struct mad *d)
{
	memset(d, 0, sizeof(*d));
	if (n != MAD_BYTES || p[0] != 1 || p[1] != CLASS_CM ||
	    p[2] != VERSION || p[3] != METHOD_SEND)
		return false;
	memcpy(&d->tid, p + 8, sizeof(d->tid));
	d->kind = p[17];
	d->m.magic = MSG_MAGIC;
	d->m.version = MSG_VERSION;
	p += HEAD;
	d->local_id = get(p, 4);
	d->remote_id = get(p + 4, 4);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (kinds[i].mad == d->kind) {
			d->m.kind = kinds[i].msg;
			return parse_kind(p, d) &&
			       parse_private(p + kinds[i].at, kinds[i].bytes,
					     &d->m);
		}
	return false;
}

/*
 * To the wire.
 */

static void build_service(const struct msg *m, uint8_t *p)
{
	put(p, 0, 4);
	put(p + 4, m->ps, 2);
	put(p + 6, ntohs(m->dst.in.sin_port), 2);
}

static void build_ip(const union addr *a, uint8_t *p)
{
	if (a->sa.sa_family == AF_INET)
		memcpy(p + 12, &a->in.sin_addr, 4);
	else
		memcpy(p, &a->in6.sin6_addr, 16);
}

static uint8_t *build_addresses(const struct msg *m, uint8_t *p)
{
	p[1] = m->src.sa.sa_family == AF_INET ? 0x40 : 0x60;
	put(p + 2, ntohs(m->src.in.sin_port), 2);
	build_ip(&m->src, p + 4);
	build_ip(&m->dst, p + 20);
	return p + IP_HEAD;
}

static void build_req(const struct mad *d, uint8_t *p)
{
	const struct param *q = &d->m.p;

	build_service(&d->m, p + 8);
	memcpy(p + 16, &d->guid, sizeof(d->guid));
	put(p + 32, q->qp_num, 3);
	p[35] = q->responder_resources;
	p[39] = q->initiator_depth;
	p[43] =
	    (uint8_t)(RESPONSE_TIMEOUT << 3 | (q->qp_type == IBV_QPT_UC) << 1 |
		      (q->flow_control & 1));
	put(p + 44, q->psn, 3);
	p[47] = (uint8_t)(RESPONSE_TIMEOUT << 3 | (q->retry_count & 7));
	put(p + 48, 0xffff, 2);
	p[50] = (uint8_t)(d->mtu << 4 | (q->rnr_retry_count & 7));
	p[51] = (uint8_t)(MAX_RETRIES << 4 | (q->srq & 1) << 3);
	put(p + 52, 0xffffffff, 4); /* LIDs: there are none */
	memcpy(p + 56, d->sgid, 16);
	memcpy(p + 72, d->dgid, 16);
	p[91] = RATE_100_GBPS;
	p[93] = HOPS;
	p[94] = 1 << 3;
	p[95] = ACK_TIMEOUT << 3;
}

static void build_rep(const struct mad *d, uint8_t *p)
{
	const struct param *q = &d->m.p;

	put(p + 12, q->qp_num, 3);
	put(p + 20, q->psn, 3);
	p[24] = q->responder_resources;
	p[25] = q->initiator_depth;
	p[26] = (uint8_t)(RESPONSE_TIMEOUT << 3 | (q->flow_control & 1));
	p[27] = (uint8_t)(q->rnr_retry_count << 5 | (q->srq & 1) << 4);
	memcpy(p + 28, &d->guid, sizeof(d->guid));
}

static void build_kind(const struct mad *d, uint8_t *p)
{
	const struct msg *m = &d->m;

	put(p, d->local_id, 4);
	put(p + 4, d->remote_id, 4);
	switch (d->kind) {
	case MAD_REQ:
		build_req(d, p);
		break;
	case MAD_REP:
		build_rep(d, p);
		break;
	case MAD_REJ:
		put(p + 10, m->reason, 2);
		break;
	case MAD_DREQ:
		put(p + 8, d->remote_qpn, 3);
		break;
	case MAD_SIDR_REQ:
		put(p + 4, 0xffff0000u, 4);
		build_service(m, p + 8);
		break;
	case MAD_SIDR_REP:
		put(p, d->remote_id, 4);
		put(p + 4, (uint32_t)m->reason << 24, 4);
		put(p + 8, m->p.qp_num, 3);
		build_service(m, p + 12);
		put(p + 20, m->p.qkey, 4);
		break;
	default:
		break;
	}
}

void mad_build(const struct mad *d, uint8_t p[MAD_BYTES])
{
	memset(p, 0, MAD_BYTES);
	p[0] = 1;
	p[1] = CLASS_CM;
	p[2] = VERSION;
	p[3] = METHOD_SEND;
	memcpy(p + 8, &d->tid, sizeof(d->tid));
	p[17] = d->kind;
	p += HEAD;
	build_kind(d, p);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (kinds[i].mad == d->kind && kinds[i].bytes) {
			uint8_t *at = p + kinds[i].at;

			if (d->kind == MAD_REQ || d->kind == MAD_SIDR_REQ)
				at = build_addresses(&d->m, at);
			memcpy(at, d->m.p.private_data, d->m.p.private_len);
		}
}
