/* SPDX-License-Identifier: MIT */
/*
 * tcp/config.h - what a stack is told when it is made
 *
 * tcp_stack_init() copies struct tcp_config.  Nothing in it changes afterwards, except
 * the tables that it points to, which belong to the caller, and addresses that
 * tcp_add_addr() adds.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/siphash.h"
#include "ip/hop.h"
#include "ip/ip.h"

struct tcp_cc;

extern const struct tcp_cc tcp_newreno, tcp_cubic;

#define TCP_ADDRS_MAX 8
#define TCP_LISTENERS_MAX 64 /* few: a search looks at all of them */

/* Options of a SYN. */
enum tcp_offers {
	TCP_OFFER_TS = 1,
	TCP_OFFER_SACK = 2,
	TCP_OFFER_WSCALE = 4,
	TCP_OFFER_ALL = 7,
	TCP_OFFER_ECN = 8, /* inside the engine: see enum tcp_ecn */
};

enum tcp_ecn {
	TCP_ECN_ACCEPT, /* if the peer asks for it */
	TCP_ECN_ASK,
	TCP_ECN_OFF,
};

/* Whether tcp_connect() may choose a port whose last connection to the same peer is in
 * TIME-WAIT.  Both connections must use timestamps, and a second must have passed
 * (tcp_tw_reuse; RFC 6191). */
enum tcp_reuse {
	TCP_REUSE_LOCAL, /* if the peer is on this host */
	TCP_REUSE_ALWAYS,
	TCP_REUSE_NEVER,
};

struct tcp_ports {
	uint16_t first, last; /* 0: no limit */
};

struct tcp_config {
	struct sip_key key; /* random, and known to nobody else */
	struct ip_addr addrs[TCP_ADDRS_MAX];
	uint32_t n_addrs;
	uint32_t mtu; /* bytes from the IP header on */
	/* Routes; the caller owns and may change them.  NULL: one route to everywhere. */
	const struct ip_hops *hops;
	uint32_t
	    gso_max; /* largest payload of a frame; below one MSS: one MSS */
	uint32_t offers;           /* enum tcp_offers, on a SYN */
	uint32_t snd_buf, rcv_buf; /* bytes, of a connection */
	/* The engine enlarges busy connections' buffers up to these; 0: it does not. */
	uint32_t snd_buf_max, rcv_buf_max;
	/* Bytes of frames that the received segments of all connections may keep in
	 * memory; 0: only the limit of each connection counts.  See rcvwin.c. */
	uint64_t rcv_mem;
	const struct tcp_cc *cc;
	uint8_t ecn;   /* enum tcp_ecn */
	uint8_t reuse; /* enum tcp_reuse */
	/* The ports that tcp_connect() chooses from; 0: 32768 to 60999, as Linux. */
	struct tcp_ports ports;
	/* A bit for each port that it does not choose, 8192 bytes; the caller owns and
	 * may change them.  NULL: none. */
	const uint8_t *ports_kept;
	bool is_paced; /* as by tcp_set_pacing() */
	/* No reset ends TIME-WAIT (tcp_rfc1337).  Otherwise a reset with exactly the next
	 * sequence number does, as in Linux. */
	bool is_time_wait_safe;
	/* Somebody else, the kernel for example, has other connections of the same
	 * addresses.  So a segment that belongs to no connection of the stack gets no
	 * reset. */
	bool is_guest;
	/* Frames leave with the sum of the pseudo-header; the device completes it. */
	bool has_port_sums;

	/* Limits.  tcp_stack_init() takes the memory for each of them once. */
	uint32_t n_conns;
	uint32_t n_reqsks; /* half-open connections; as many in TIME-WAIT */
	/* How many connections the program may have closed that the peer has not closed
	 * (tcp_max_orphans).  A tcp_close() beyond that resets.  0: a bit more than half of
	 * all connections. */
	uint32_t n_orphans;
	uint32_t n_ranges; /* of all queues; about one per segment in flight */
	uint32_t n_extents, extent_bytes; /* for bytes to be sent */
	uint32_t n_blocks;                /* that tcp_grow() may add */
};
