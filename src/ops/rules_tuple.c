/* SPDX-License-Identifier: MIT */
/*
 * ops/rules_tuple.c - from the text of an address and its ports to a rule_addr
 *
 *     ADDR ':' PORTS  ->  rules_parse_side()  ->  struct rule_addr
 *
 * One function per line of the grammar in rules.h; what holds on return stands in
 * rules_scan.h.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ops/rules_scan.h"

static int parse_port(struct parser *ps, uint16_t low, uint16_t *out)
{
	struct span word = scan_peek(ps);
	char expected[sizeof("a port from 65535 to 65535")];
	uint32_t port;

	snprintf(expected, sizeof(expected), "a port from %u to 65535", low);

	int err = scan_number(ps, expected, UINT16_MAX, &port);
	if (err)
		return err;
	if (port < low)
		return scan_fail(ps, (struct span){ word.at, ps->at - word.at },
				 expected);
	*out = (uint16_t)port;
	return 0;
}

/* PORTS := '*' | PORT | PORT '-' PORT */
static int parse_ports(struct parser *ps, struct rule_addr *ra)
{
	if (scan_byte(ps, '*')) {
		ra->port_low = 0;
		ra->port_high = UINT16_MAX;
		return 0;
	}

	scan_blanks(ps);
	if (ps->at == ps->end || !is_digit(*ps->at))
		return scan_fail_here(ps, "'*' or a port from 0 to 65535");

	int err = parse_port(ps, 0, &ra->port_low);
	if (err)
		return err;
	ra->port_high = ra->port_low;
	if (scan_byte(ps, '-'))
		return parse_port(ps, ra->port_low, &ra->port_high);
	return 0;
}

/* [ '/' PLEN ]; without it the whole address, @max bits, counts.  libvma takes
 * an IPv4 length above 32 as 32, and so do we. */
static int parse_plen(struct parser *ps, struct rule_addr *ra, uint32_t max)
{
	uint32_t plen = max;

	if (scan_byte(ps, '/')) {
		bool is_v6 = ra->family == AF_INET6;
		int err = scan_number(ps,
				      is_v6 ? "a prefix length from 0 to 128"
					    : "a prefix length from 0 to 32",
				      is_v6 ? max : UINT32_MAX, &plen);
		if (err)
			return err;
	}
	ra->plen = (uint8_t)(plen < max ? plen : max);
	return 0;
}

static int parse_ipv4(struct parser *ps, struct rule_addr *ra)
{
	struct span run = scan_run(ps, "0123456789.");
	char text[INET_ADDRSTRLEN];

	if (!span_copy(run, text, sizeof(text)) ||
	    inet_pton(AF_INET, text, ra->addr) != 1)
		return scan_fail(ps, run, "'*', an IPv4 address or '['");
	ra->family = AF_INET;
	return parse_plen(ps, ra, 32);
}

/* ::ffff:a.b.c.d of which all of the mapping counts is an IPv4 address. */
static void unmap(struct rule_addr *ra)
{
	static const uint8_t mapping[12] = { [10] = 0xff, [11] = 0xff };

	if (ra->plen < 96 || memcmp(ra->addr, mapping, sizeof(mapping)))
		return;
	ra->family = AF_INET;
	ra->plen -= 96;
	memcpy(ra->addr, ra->addr + 12, 4);
}

/* After '['. */
static int parse_ipv6(struct parser *ps, struct rule_addr *ra)
{
	struct span run = scan_run(ps, "0123456789abcdefABCDEF:.");
	char text[INET6_ADDRSTRLEN];

	if (!run.len)
		return scan_fail_here(ps, "an IPv6 address");
	if (!scan_byte(ps, ']'))
		return scan_fail_here(ps, "']' after the IPv6 address");
	if (!span_copy(run, text, sizeof(text)) ||
	    inet_pton(AF_INET6, text, ra->addr) != 1)
		return scan_fail(ps, run, "an IPv6 address");
	ra->family = AF_INET6;

	int err = parse_plen(ps, ra, 128);
	if (!err)
		unmap(ra);
	return err;
}

/* ADDR := '*' | IPV4 [ '/' PLEN ] | '[' IPV6 ']' [ '/' PLEN ] */
static int parse_addr(struct parser *ps, struct rule_addr *ra)
{
	*ra = RULE_ADDR_ANY;
	if (scan_byte(ps, '*'))
		return 0;
	if (scan_byte(ps, '['))
		return parse_ipv6(ps, ra);
	if (ps->at < ps->end && is_digit(*ps->at))
		return parse_ipv4(ps, ra);
	return scan_fail_here(ps, "'*', an IPv4 address or '['");
}

int rules_parse_side(struct parser *ps, struct rule_addr *ra)
{
	int err = parse_addr(ps, ra);

	if (err)
		return err;
	if (!scan_byte(ps, ':'))
		return scan_fail_here(ps, "':' and ports after the address");
	return parse_ports(ps, ra);
}
