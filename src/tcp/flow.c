/* SPDX-License-Identifier: MIT */
/*
 * tcp/flow.c - the table by which arriving segments find their connection
 *
 * A bucket is one cache line.  It has flow ids (a pool, and an index in it), and with
 * each id other bits of the hash.  So a search touches one connection: usually the
 * right one.  Flows that find their bucket full form a chain behind it.  The hash has a
 * secret key, so strangers cannot make chains long.
 */
#include "tcp/stack.h"

#define ID_SHIFT 30
#define ID_INDEX ((1u << ID_SHIFT) - 1)

static const struct pool *kind_pool(const struct tcp_stack *s, unsigned kind)
{
	return kind == FLOW_CONN       ? &s->pool_conns
	       : kind == FLOW_SYN_RCVD ? &s->pool_reqsks
				       : &s->pool_tws;
}

static uint32_t flow_id(const struct tcp_stack *s, const struct flow *f)
{
	return ((uint32_t)f->kind << ID_SHIFT) +
	       pool_index(kind_pool(s, f->kind), f) + 1;
}

static struct flow *flow_at(const struct tcp_stack *s, uint32_t id)
{
	return pool_at(kind_pool(s, id >> ID_SHIFT), (id & ID_INDEX) - 1);
}

/* @use is part of the hash, so that one result reveals nothing about another use. */
static uint64_t tuple_hash(const struct tcp_stack *s, uint8_t laddr,
			   uint16_t lport, const struct ip_addr *raddr,
			   uint16_t rport, unsigned use)
{
	uint64_t words[3];

	memcpy(words, raddr->b, 16);
	words[2] = (uint64_t)use << 40 | (uint64_t)laddr << 32 |
		   (uint32_t)lport << 16 | rport;
	return siphash(&s->cfg.key, words, 3);
}

enum hash_use { USE_ISS = 1, USE_TS, USE_COOKIE, USE_SHARE, USE_PATH };

/* The hash for searches in the table. */
uint64_t flow_hash(const struct tcp_stack *s, uint8_t laddr, uint16_t lport,
		   const struct ip_addr *raddr, uint16_t rport)
{
	uint64_t words[2], ports = (uint32_t)lport << 16 | rport;

	memcpy(words, raddr->b, 16);
	if (!ip_addr_is_v4(raddr))
		return siphash_table(&s->cfg.key, words, 2,
				     (uint64_t)laddr << 32 | ports, 5);
	words[0] = (words[1] & ~(uint64_t)UINT32_MAX) | ports;
	return siphash_table(&s->cfg.key, words, 1, laddr, 1);
}

static struct flow_bucket *bucket(struct tcp_stack *s, uint64_t hash)
{
	return &s->buckets[hash & (s->n_buckets - 1)];
}

static uint32_t tag_of(uint64_t hash) { return (uint32_t)(hash >> 32); }

static uint64_t hash_of(const struct tcp_stack *s, const struct flow *f)
{
	return flow_hash(s, f->laddr, f->lport, &f->raddr, f->rport);
}

/* RFC 6528: a secret number for the 4-tuple, plus a clock that ticks every 64 ns. */
uint32_t flow_iss(struct tcp_stack *s, const struct flow *f)
{
	return (uint32_t)tuple_hash(s, f->laddr, f->lport, &f->raddr, f->rport,
				    USE_ISS) +
	       (uint32_t)(s->now_ns / 64);
}

/* RFC 7323 section 7.1: timestamps must not tell how long the host has been up. */
uint32_t flow_ts_off(struct tcp_stack *s, const struct flow *f)
{
	return (uint32_t)tuple_hash(s, f->laddr, f->lport, &f->raddr, f->rport,
				    USE_TS);
}

uint32_t path_hash(struct tcp_stack *s, const struct ip_addr *raddr)
{
	return (uint32_t)tuple_hash(s, 0, 0, raddr, 0, USE_PATH);
}

/* One of @n listeners for the 4-tuple, always the same. */
uint32_t flow_share(struct tcp_stack *s, const struct flow *f, uint32_t n)
{
	uint64_t h =
	    tuple_hash(s, f->laddr, f->lport, &f->raddr, f->rport, USE_SHARE);

	return (uint32_t)((h >> 32) * n >> 32);
}

/* For cookie.c: another hash for each @which. */
uint32_t flow_cookie(struct tcp_stack *s, const struct flow *f, uint64_t which)
{
	uint64_t words[4];

	memcpy(words, f->raddr.b, 16);
	words[2] = (uint64_t)USE_COOKIE << 40 | (uint64_t)f->laddr << 32 |
		   (uint32_t)f->lport << 16 | f->rport;
	words[3] = which;
	return (uint32_t)siphash(&s->cfg.key, words, 4);
}

static bool is_flow(const struct flow *f, uint8_t laddr, uint16_t lport,
		    const struct ip_addr *raddr, uint16_t rport)
{
	return f->rport == rport && f->lport == lport && f->laddr == laddr &&
	       ip_addr_eq(&f->raddr, raddr);
}

struct flow *flow_find_hashed(struct tcp_stack *s, uint64_t hash, uint8_t laddr,
			      uint16_t lport, const struct ip_addr *raddr,
			      uint16_t rport)
{
	const struct flow_bucket *b = bucket(s, hash);
	struct flow *f;

	for (unsigned i = 0; i < FLOW_WAYS; i++) {
		if (b->tag[i] != tag_of(hash) || !b->id[i])
			continue;
		f = flow_at(s, b->id[i]);
		if (is_flow(f, laddr, lport, raddr, rport))
			return f;
	}
	for (uint32_t id = b->more; id; id = f->next) {
		f = flow_at(s, id);
		if (is_flow(f, laddr, lport, raddr, rport))
			return f;
	}
	return NULL;
}

struct flow *flow_find(struct tcp_stack *s, uint8_t laddr, uint16_t lport,
		       const struct ip_addr *raddr, uint16_t rport)
{
	return flow_find_hashed(s, flow_hash(s, laddr, lport, raddr, rport),
				laddr, lport, raddr, rport);
}

/* Fetches the bucket of a hash into the cache, for a search that follows. */
void flow_fetch_bucket(struct tcp_stack *s, uint64_t hash)
{
	__builtin_prefetch(bucket(s, hash));
}

/* Return: the flow that a search is likely to find, as far as the bucket tells, without
 * touching the flow itself; or NULL. */
struct flow *flow_likely(struct tcp_stack *s, uint64_t hash)
{
	const struct flow_bucket *b = bucket(s, hash);

	for (unsigned i = 0; i < FLOW_WAYS; i++)
		if (b->tag[i] == tag_of(hash) && b->id[i])
			return flow_at(s, b->id[i]);
	return NULL;
}

void flow_add(struct tcp_stack *s, struct flow *f)
{
	uint64_t hash = hash_of(s, f);
	struct flow_bucket *b = bucket(s, hash);

	for (unsigned i = 0; i < FLOW_WAYS; i++) {
		if (b->id[i])
			continue;
		b->tag[i] = tag_of(hash);
		b->id[i] = flow_id(s, f);
		return;
	}
	f->next = b->more;
	b->more = flow_id(s, f);
}

/* A way of the bucket is free: moves the first flow of the chain into it. */
static void refill(struct tcp_stack *s, struct flow_bucket *b, unsigned way)
{
	const struct flow *f;

	b->id[way] = b->more;
	if (!b->more)
		return;
	f = flow_at(s, b->more);
	b->tag[way] = tag_of(hash_of(s, f));
	b->more = f->next;
}

void flow_del(struct tcp_stack *s, struct flow *f)
{
	struct flow_bucket *b = bucket(s, hash_of(s, f));
	uint32_t *at, id = flow_id(s, f);

	for (unsigned i = 0; i < FLOW_WAYS; i++) {
		if (b->id[i] == id) {
			refill(s, b, i);
			return;
		}
	}
	for (at = &b->more; *at != id; at = &flow_at(s, *at)->next)
		assert(*at);
	*at = f->next;
}
