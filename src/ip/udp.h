/* SPDX-License-Identifier: MIT */
/*
 * ip/udp.h - UDP headers, parsed from any bytes, and the bind that gets a datagram
 *
 *     ip_parse() -> udp_parse() -> struct udp_datagram -> udp_find() -> struct udp_bind
 *
 * Binds lie in the caller's memory.  udp_find() looks for the port, and returns the
 * most specific bind: a local address counts, and a peer's address and port count.
 * This code neither sends nor keeps datagrams.  Spec: RFC 768, RFC 8200 section 8.1
 */
#pragma once

#include "ip/ip.h"

#define UDP_HEAD 8
#define UDP_BUCKETS 64 /* a power of two */

struct udp_datagram {
	uint16_t sport, dport;
	uint32_t len; /* payload, behind the header */
};

/**
 * udp_parse() - read the header of a UDP packet
 * @l4: the datagram, ip->l4_len bytes; what stands behind its own length is ignored
 *
 * Return: 0, or the negative of 1 + enum drop_reason
 */
MUST_CHECK int udp_parse(const struct ip_packet *ip, const uint8_t *l4,
			 struct udp_datagram *out);

/* The addresses and ports that a bind takes; zero means any. */
struct udp_bind {
	struct ip_addr laddr, raddr;
	uint16_t lport, rport;
	void *user;
	struct udp_bind *next; /* in its bucket; the table's */
};

struct udp_table {
	struct udp_bind *buckets[UDP_BUCKETS];
};

/* Return: 0, or -EADDRINUSE: there is an equal one.  @b belongs to the caller and must
 * stay where it is until udp_unbind(). */
MUST_CHECK int udp_bind(struct udp_table *t, struct udp_bind *b);
void udp_unbind(struct udp_table *t, struct udp_bind *b);

/* Return: the most specific bind that takes the datagram, or NULL. */
struct udp_bind *udp_find(const struct udp_table *t, const struct ip_packet *ip,
			  const struct udp_datagram *d);
