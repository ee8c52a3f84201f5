/* SPDX-License-Identifier: MIT */
/*
 * tcp/flow.h - the table by which arriving segments find their connection; flow.c
 *
 * A flow is a 4-tuple.  A connection, a half-open connection (struct tcp_reqsk) and one
 * in TIME-WAIT (struct tcp_tw) all begin with a struct flow, whose kind tells which of
 * them it is.
 *
 * Owner: the stack.
 */
#pragma once

#include "base/compiler.h"
#include "ip/ip.h"

struct tcp_stack;

enum flow_kind {
	FLOW_CONN,
	FLOW_SYN_RCVD,
	FLOW_TIME_WAIT,
};

struct flow {
	uint32_t next; /* flow id in the bucket's chain; 0: the last one */
	struct ip_addr raddr;
	uint16_t lport, rport;
	uint8_t laddr; /* index of the stack's addresses */
	uint8_t kind;
};

#define FLOW_WAYS 7
#define FLOWS_EACH 4 /* flows of a bucket, on average at most */
struct flow_bucket {
	alignas(CACHE_LINE) uint32_t tag[FLOW_WAYS]; /* bits of the hash */
	uint32_t id[FLOW_WAYS];                      /* flow ids; 0: free */
	uint32_t more; /* a chain of flow ids, for those without a way */
};

/* --- the table --- */

struct flow *flow_find(struct tcp_stack *s, uint8_t laddr, uint16_t lport,
		       const struct ip_addr *raddr, uint16_t rport);
uint64_t flow_hash(const struct tcp_stack *s, uint8_t laddr, uint16_t lport,
		   const struct ip_addr *raddr, uint16_t rport);
struct flow *flow_find_hashed(struct tcp_stack *s, uint64_t hash, uint8_t laddr,
			      uint16_t lport, const struct ip_addr *raddr,
			      uint16_t rport);
void flow_fetch_bucket(struct tcp_stack *s, uint64_t hash);
struct flow *flow_likely(struct tcp_stack *s, uint64_t hash);
void flow_add(struct tcp_stack *s, struct flow *f);
void flow_del(struct tcp_stack *s, struct flow *f);

/* --- numbers that a stranger cannot guess --- */

uint32_t flow_iss(struct tcp_stack *s, const struct flow *f);
uint32_t flow_cookie(struct tcp_stack *s, const struct flow *f, uint64_t which);
uint32_t flow_share(struct tcp_stack *s, const struct flow *f, uint32_t n);
uint32_t flow_ts_off(struct tcp_stack *s, const struct flow *f);
uint32_t path_hash(struct tcp_stack *s, const struct ip_addr *raddr);
