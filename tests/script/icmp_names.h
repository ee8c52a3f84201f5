/* SPDX-License-Identifier: MIT */
/*
 * tests/script/icmp_names.h - the names of ICMP errors, with type and code of IPv4 and IPv6
 * Spec: RFC 792, RFC 1122 section 3.2.2.1, RFC 4443
 */
#pragma once

#include <stdint.h>

static const struct icmp_name {
	const char *name;
	uint8_t type, code, type6, code6;
} icmp_names[] = {
	{ "net_unreachable", 3, 0, 1, 0 },
	{ "host_unreachable", 3, 1, 1, 3 },
	{ "protocol_unreachable", 3, 2, 4, 1 },
	{ "port_unreachable", 3, 3, 1, 4 },
	{ "frag_needed", 3, 4, 2, 0 },
	{ "source_route_failed", 3, 5, 1, 5 },
	{ "admin_prohibited", 3, 13, 1, 1 },
	{ "ttl_exceeded", 11, 0, 3, 0 },
	{ "reassembly_exceeded", 11, 1, 3, 1 },
	{ "parameter_problem", 12, 0, 4, 0 },
	{ "source_quench", 4, 0, 1, 2 },
};
