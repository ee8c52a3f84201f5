/* SPDX-License-Identifier: MIT */
/*
 * rdma/roce/icrc.h - the invariant CRC at the end of a RoCEv2 packet
 *
 * Ethernet's CRC-32 over eight bytes of ones, the IP and UDP headers and the packet.  What
 * routers may change counts as ones: type of service, time to live, both checksums, and the
 * BTH's congestion bits; with IPv6 the flow label, too.
 *
 * A UDP socket does not tell the identification of an IPv4 packet.  A CRC is linear: so
 * icrc_id() finds the one that makes a given CRC right, if there is one.  Then 16 of the
 * 32 bits still protect the packet, beside UDP's checksum.
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
/* Is @got the ICRC of such a packet, with whatever identification? */
MUST_CHECK bool icrc_matches(const struct roce_flow *f, const uint8_t *p,
			     size_t n, uint32_t got);
/* Then which identification made it. */
uint16_t icrc_id(const struct roce_flow *f, const uint8_t *p, size_t n,
		 uint32_t got);
uint32_t crc32_add(uint32_t crc, const void *p, size_t n);
