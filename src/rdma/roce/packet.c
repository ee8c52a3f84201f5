/* SPDX-License-Identifier: MIT */
/* rdma/roce/packet.c - see rdma/roce/packet.h */
#include <endian.h>
#include <string.h>

#include "rdma/roce/packet.h"

#define BTH 12u

/* Headers behind the BTH, in their order on the wire. */
enum {
	H_DETH = 1,
	H_RETH = 2,
	H_ATOMIC = 4,
	H_AETH = 8,
	H_ATOMIC_ACK = 16,
	H_IMM = 32,
	H_IETH = 64,
	H_PAYLOAD = 128,
	H_XRC = 256
};

static const uint8_t rc_headers[OP_END] = {
	[OP_SEND_FIRST] = H_PAYLOAD,
	[OP_SEND_MIDDLE] = H_PAYLOAD,
	[OP_SEND_LAST] = H_PAYLOAD,
	[OP_SEND_LAST_IMM] = H_IMM | H_PAYLOAD,
	[OP_SEND_ONLY] = H_PAYLOAD,
	[OP_SEND_ONLY_IMM] = H_IMM | H_PAYLOAD,
	[OP_WRITE_FIRST] = H_RETH | H_PAYLOAD,
	[OP_WRITE_MIDDLE] = H_PAYLOAD,
	[OP_WRITE_LAST] = H_PAYLOAD,
	[OP_WRITE_LAST_IMM] = H_IMM | H_PAYLOAD,
	[OP_WRITE_ONLY] = H_RETH | H_PAYLOAD,
	[OP_WRITE_ONLY_IMM] = H_RETH | H_IMM | H_PAYLOAD,
	[OP_READ_REQUEST] = H_RETH,
	[OP_READ_FIRST] = H_AETH | H_PAYLOAD,
	[OP_READ_MIDDLE] = H_PAYLOAD,
	[OP_READ_LAST] = H_AETH | H_PAYLOAD,
	[OP_READ_ONLY] = H_AETH | H_PAYLOAD,
	[OP_ACK] = H_AETH,
	[OP_ATOMIC_ACK] = H_AETH | H_ATOMIC_ACK,
	[OP_COMPARE_SWAP] = H_ATOMIC,
	[OP_FETCH_ADD] = H_ATOMIC,
	[OP_SEND_LAST_INV] = H_IETH | H_PAYLOAD,
	[OP_SEND_ONLY_INV] = H_IETH | H_PAYLOAD,
};

static const struct {
	uint16_t bit, bytes;
} sizes[] = {
	{ H_DETH, 8 },       { H_RETH, 16 }, { H_ATOMIC, 28 }, { H_AETH, 4 },
	{ H_ATOMIC_ACK, 8 }, { H_IMM, 4 },   { H_IETH, 4 },    { H_XRC, 4 },
};

bool roce_is_response(uint8_t op)
{
	return op >= OP_READ_FIRST && op <= OP_ATOMIC_ACK;
}

/* 0: the service has no such operation. */
static uint16_t headers_of(uint8_t service, uint8_t op)
{
	if (op >= OP_END)
		return 0;
	switch (service) {
	case ROCE_RC:
		return rc_headers[op];
	case ROCE_UC:
		return op <= OP_WRITE_ONLY_IMM ? rc_headers[op] : 0;
	case ROCE_UD:
		return op == OP_SEND_ONLY || op == OP_SEND_ONLY_IMM
			   ? (uint16_t)(rc_headers[op] | H_DETH)
			   : 0;
	case ROCE_XRC: /* RC's; each request says whose receives it takes */
		return rc_headers[op] && !roce_is_response(op)
			   ? (uint16_t)(rc_headers[op] | H_XRC)
			   : rc_headers[op];
	default:
		return 0;
	}
}

static size_t bytes_of(uint16_t headers)
{
	size_t n = BTH;

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		if (headers & sizes[i].bit)
			n += sizes[i].bytes;
	return n;
}

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return be32toh(v);
}

static uint64_t get64(const uint8_t *p)
{
	return (uint64_t)get32(p) << 32 | get32(p + 4);
}

static uint8_t *put32(uint8_t *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(p, &v, sizeof(v));
	return p + sizeof(v);
}

static uint8_t *put64(uint8_t *p, uint64_t v)
{
	return put32(put32(p, (uint32_t)(v >> 32)), (uint32_t)v);
}

static void parse_bth(const uint8_t *p, struct roce_head *h)
{
	*h = (struct roce_head){ .service = p[0] & 0xe0,
				 .op = p[0] & 0x1f,
				 .is_solicited = p[1] >> 7,
				 .pad = p[1] >> 4 & 3,
				 .pkey = (uint16_t)(p[2] << 8 | p[3]),
				 .dest_qpn = get32(p + 4) & 0xffffff,
				 .wants_ack = p[8] >> 7,
				 .psn = get32(p + 8) & PSN_MASK };
}

static void parse_rest(const uint8_t *p, uint16_t headers, struct roce_head *h)
{
	if (headers & H_XRC) {
		h->xrc_srqn = get32(p) & 0xffffff;
		p += 4;
	}
	if (headers & H_DETH) {
		h->qkey = get32(p);
		h->src_qpn = get32(p + 4) & 0xffffff;
		p += 8;
	}
	if (headers & (H_RETH | H_ATOMIC)) {
		h->addr = get64(p);
		h->rkey = get32(p + 8);
		p += 12;
	}
	if (headers & H_RETH) {
		h->length = get32(p);
		p += 4;
	}
	if (headers & H_ATOMIC) {
		h->swap_add = get64(p);
		h->compare = get64(p + 8);
		p += 16;
	}
	if (headers & H_AETH) {
		h->syndrome = p[0];
		h->msn = get32(p) & 0xffffff;
		p += 4;
	}
	if (headers & H_ATOMIC_ACK) {
		h->original = get64(p);
		p += 8;
	}
	if (headers & H_IMM)
		memcpy(&h->imm, p, sizeof(h->imm));
	if (headers & H_IETH)
		h->inv_rkey = get32(p);
}

bool roce_parse(const uint8_t *p, size_t n, struct roce_head *h)
{
	if (n < BTH + ROCE_ICRC || n > ROCE_MAX || n % 4 || p[1] & 0x0f)
		return false; /* the low bits are the version, 0 */
	parse_bth(p, h);
	uint16_t headers = headers_of(h->service, h->op);
	if (!headers || (h->pkey & 0x7fff) != (ROCE_PKEY & 0x7fff))
		return false;
	size_t n_head = bytes_of(headers);
	if (n < n_head + h->pad + ROCE_ICRC)
		return false;
	parse_rest(p + BTH, headers, h);
	h->payload = p + n_head;
	h->n_payload = (uint32_t)(n - n_head - h->pad - ROCE_ICRC);
	if (headers & H_PAYLOAD)
		return h->n_payload <= ROCE_MTU_MAX;
	return !h->n_payload && !h->pad;
}

static uint8_t *build_bth(const struct roce_head *h, uint8_t *p)
{
	p[0] = h->service | h->op;
	/* The bit of a path that has migrated: as every queue pair that does not. */
	p[1] = (uint8_t)(h->is_solicited << 7 | 1 << 6 | h->pad << 4);
	p[2] = ROCE_PKEY >> 8;
	p[3] = ROCE_PKEY & 0xff;
	p = put32(p + 4, h->dest_qpn);
	return put32(p, (uint32_t)h->wants_ack << 31 | h->psn);
}

size_t roce_build(struct roce_head *h, uint32_t n_payload, uint8_t *to)
{
	uint16_t headers = headers_of(h->service, h->op);

	h->pad = (uint8_t)(-n_payload & 3);
	uint8_t *p = build_bth(h, to);
	if (headers & H_XRC)
		p = put32(p, h->xrc_srqn);
	if (headers & H_DETH)
		p = put32(put32(p, h->qkey), h->src_qpn);
	if (headers & (H_RETH | H_ATOMIC))
		p = put32(put64(p, h->addr), h->rkey);
	if (headers & H_RETH)
		p = put32(p, h->length);
	if (headers & H_ATOMIC)
		p = put64(put64(p, h->swap_add), h->compare);
	if (headers & H_AETH)
		p = put32(p, (uint32_t)h->syndrome << 24 | h->msn);
	if (headers & H_ATOMIC_ACK)
		p = put64(p, h->original);
	if (headers & H_IMM) {
		memcpy(p, &h->imm, sizeof(h->imm));
		p += sizeof(h->imm);
	}
	if (headers & H_IETH)
		p = put32(p, h->inv_rkey);
	return (size_t)(p - to);
}

bool roce_has_payload(uint8_t op)
{
	return op < OP_END && rc_headers[op] & H_PAYLOAD;
}
