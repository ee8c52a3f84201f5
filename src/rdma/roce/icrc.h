/* SPDX-License-Identifier: MIT */
/*
 * rdma/roce/icrc.h - the invariant CRC at the end of a RoCEv2 packet
 *
 * It is Ethernet's CRC-32 over eight bytes of ones, the IP and UDP headers and the packet.
 * Fields that routers may change count as ones: type of service, time to live, both
 * checksums, the BTH's congestion bits and, with IPv6, the flow label.
 *
 * A UDP socket does not tell the identification of an IPv4 packet.  But a CRC is linear, so
 * icrc_matches() computes the one identification that makes the packet's CRC right, if
 * there is one.  The other 16 of the 32 bits still protect the packet, beside UDP's
 * checksum.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* Where a packet comes from and goes to, as on the wire. */
struct roce_flow {
	bool is_v6;
	uint8_t src[16], dst[16]; /* IPv4: the first four bytes */
	uint16_t src_port, dst_port;
};

/* Of the @n bytes from the BTH up to the ICRC itself.  Its bytes are sent the lowest first. */
uint32_t icrc(const struct roce_flow *f, uint16_t id, const uint8_t *p,
	      size_t n);
/* Is @got the ICRC of the packet with some identification?  *@id: in, a guess, which makes
 * the call quick if it is right; out, the packet's. */
MUST_CHECK bool icrc_matches(const struct roce_flow *f, const uint8_t *p,
			     size_t n, uint32_t got, uint16_t *id);
