/* SPDX-License-Identifier: MIT */
/*
 * ip/icmp.h - ICMP errors about TCP and what they quote, parsed from any bytes
 *
 * An error quotes the packet that it is about.  Eight bytes of TCP are enough: the
 * ports and the sequence number.  The connection decides whether it has sent that
 * number (RFC 5927 section 4).  Spec: RFC 792, RFC 4443, RFC 1191, RFC 8201, RFC 1122
 * section 4.2.3.9
 */
#pragma once

#include "base/seq.h"
#include "ip/ip.h"

enum icmp_kind {
	ICMP_SOFT,    /* may pass: network or host unreachable, time exceeded */
	ICMP_HARD,    /* port or protocol unreachable, prohibited, malformed */
	ICMP_TOO_BIG, /* the packet did not fit; mtu says what does */
};

/* From our point of view: @src is the address from which we sent the quoted packet. */
struct icmp_error {
	enum icmp_kind kind;
	struct ip_addr src, dst;
	uint16_t sport, dport;
	seq32 seq;
	bool is_no_way; /* none leads to it: RFC 6069's errors */
	int err;      /* negative errno: what a program is told, as in Linux */
	uint32_t mtu; /* of ICMP_TOO_BIG; 0: a router that does not say */
};

/**
 * icmp_parse() - read the ICMP message of a packet
 * @l4: the message, ip->l4_len bytes
 *
 * Return: 0, or the negative of 1 + enum drop_reason
 */
MUST_CHECK int icmp_parse(const struct ip_packet *ip, const uint8_t *l4,
			  struct icmp_error *out);
