/* SPDX-License-Identifier: MIT */
/*
 * cm/mad.h - the connection manager's messages as they are between hosts
 *
 *     struct msg (msg.h) <-> 256 bytes of a management datagram to queue pair 1
 *
 * InfiniBand Architecture volume 1, chapter 12 and annex A11.  A datagram is input from
 * anybody, and mad_parse() checks all of it.  The addresses of hosts are those of the
 * packet, whatever the private data says.
 */
#pragma once

#include "cm/msg.h"

#define MAD_BYTES 256
#define MAD_QPN 1
#define MAD_QKEY 0x80010000u

enum mad_kind {
	MAD_REQ = 0x10,
	MAD_MRA,
	MAD_REJ,
	MAD_REP,
	MAD_RTU,
	MAD_DREQ,
	MAD_DREP,
	MAD_SIDR_REQ,
	MAD_SIDR_REP
};

/* What a message between hosts has besides. */
struct mad {
	uint8_t kind; /* enum mad_kind */
	uint8_t mtu;  /* enum ibv_mtu, of a REQ */
	uint64_t tid; /* as it came: it is repeated in the answer */
	uint32_t local_id, remote_id; /* of the sender, of the receiver */
	uint64_t guid;                /* network order */
	uint8_t sgid[16], dgid[16];   /* of a REQ */
	uint32_t remote_qpn;          /* of a DREQ */
	struct msg m;
};

/* False: it is none of ours, or its numbers are not in their ranges. */
MUST_CHECK bool mad_parse(const uint8_t *p, size_t n, struct mad *d);
void mad_build(const struct mad *d, uint8_t p[MAD_BYTES]);
