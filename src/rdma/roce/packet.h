/* SPDX-License-Identifier: MIT */
/*
 * rdma/roce/packet.h - RoCEv2 packets: InfiniBand's transport headers in UDP datagrams
 *
 *     bytes of a datagram -> roce_parse() -> struct roce_head, with the payload's place
 *     struct roce_head -> roce_build() -> the headers; payload, pad and ICRC follow
 *
 * InfiniBand Architecture volume 1, chapter 9 and annex A17.  A datagram is input from
 * anybody, and roce_parse() checks all lengths in it.  Numbers in struct roce_head are in
 * host order, except immediate data, which programs give and take in network order.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define ROCE_PORT 4791
#define ROCE_HEAD_MAX                                                          \
	56 /* the longest headers: those of an atomic operation, with room */
#define ROCE_ICRC 4
#define ROCE_MTU_MAX 4096u
#define ROCE_MAX (ROCE_HEAD_MAX + ROCE_MTU_MAX + ROCE_ICRC)
#define ROCE_PKEY 0xffff
#define PSN_MASK 0xffffffu

/* The high three bits of an opcode. */
enum roce_service {
	ROCE_RC = 0x00,
	ROCE_UC = 0x20,
	ROCE_UD = 0x60,
	ROCE_XRC = 0xa0 /* annex A14 */
};

/* The low five bits. */
enum roce_opcode {
	OP_SEND_FIRST,
	OP_SEND_MIDDLE,
	OP_SEND_LAST,
	OP_SEND_LAST_IMM,
	OP_SEND_ONLY,
	OP_SEND_ONLY_IMM,
	OP_WRITE_FIRST,
	OP_WRITE_MIDDLE,
	OP_WRITE_LAST,
	OP_WRITE_LAST_IMM,
	OP_WRITE_ONLY,
	OP_WRITE_ONLY_IMM,
	OP_READ_REQUEST,
	OP_READ_FIRST, /* responses */
	OP_READ_MIDDLE,
	OP_READ_LAST,
	OP_READ_ONLY,
	OP_ACK,
	OP_ATOMIC_ACK,
	OP_COMPARE_SWAP,
	OP_FETCH_ADD,
	OP_SEND_LAST_INV = 0x16,
	OP_SEND_ONLY_INV,
	OP_END
};

/* Syndromes of an acknowledgement; the low five bits are a code. */
enum {
	SYN_ACK = 0x1f, /* without end-to-end credits */
	SYN_RNR = 0x20,
	SYN_NAK_SEQUENCE = 0x60,
	SYN_NAK_INVALID = 0x61,
	SYN_NAK_ACCESS = 0x62,
	SYN_NAK_OPERATION = 0x63,
	SYN_KIND = 0x60
};

struct roce_head {
	uint8_t service, op;
	uint8_t pad; /* bytes behind the payload */
	bool is_solicited, wants_ack;
	uint16_t pkey;
	uint32_t dest_qpn, psn;
	uint64_t addr; /* RETH, AtomicETH */
	uint32_t rkey, length;
	uint64_t swap_add, compare;
	uint8_t syndrome; /* AETH */
	uint32_t msn;
	uint64_t original;      /* AtomicAckETH */
	uint32_t imm, inv_rkey; /* ImmDt, IETH */
	uint32_t qkey, src_qpn; /* DETH */
	uint32_t xrc_srqn;      /* XRCETH: the shared receive queue */
	const uint8_t *payload; /* set by roce_parse() */
	uint32_t n_payload;
};

/* @n bytes, with the ICRC, which is not looked at.  False: no packet of ours. */
MUST_CHECK bool roce_parse(const uint8_t *p, size_t n, struct roce_head *h);
/* The headers' bytes.  @n_payload is what will follow them. */
size_t roce_build(struct roce_head *h, uint32_t n_payload, uint8_t *to);
/* Is it an answer of a responder? */
bool roce_is_response(uint8_t op);
/* Does an opcode carry bytes of the program's? */
bool roce_has_payload(uint8_t op);

static inline uint32_t psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & PSN_MASK;
}

/* How far @a is after @b: negative if it is before. */
static inline int32_t psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}
