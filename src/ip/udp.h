/* SPDX-License-Identifier: MIT */
/*
 * ip/udp.h - UDP headers, read from any bytes, and whose a datagram is
 *
 *     ip_parse() -> udp_parse() -> struct udp_datagram -> udp_find() -> who is bound
 *
 * Binds lie in memory of the caller's, and are found by their port.  The most particular
 * one has a datagram: an address of ours counts, and a peer's address and port count.
 * Datagrams themselves are not sent or kept here.
 * Spec: RFC 768, RFC 8200 section 8.1
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

/* Who has what; zero addresses and ports are any. */
struct udp_bind {
	struct ip_addr laddr, raddr;
	uint16_t lport, rport;
	void *user;
	struct udp_bind *next; /* in its bucket; the table's */
};

struct udp_table {
	struct udp_bind *buckets[UDP_BUCKETS];
};

/* Return: 0, or -EADDRINUSE: there is one like it.  Owns: nothing; @b stays where it
 * is until udp_unbind(). */
MUST_CHECK int udp_bind(struct udp_table *t, struct udp_bind *b);
void udp_unbind(struct udp_table *t, struct udp_bind *b);

/* Return: the most particular bind that takes the datagram, or NULL. */
struct udp_bind *udp_find(const struct udp_table *t, const struct ip_packet *ip,
			  const struct udp_datagram *d);
