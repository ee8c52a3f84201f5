/* SPDX-License-Identifier: MIT */
/*
 * tcp/flow.c - the table by which segments find their connection; minis
 *
 * A bucket is a cache line of flow ids (which pool, and the index in it), each with other
 * bits of the hash: so what is found is the first connection that is touched.  A chain
 * holds those for whom there was no place.  The hash is keyed, so that strangers cannot
 * make chains long.  Minis expire in the order of lists, each of which has one time-out:
 * no timer is needed for them.
 */
#include "tcp/conn.h"

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

/* Different uses of one hash must not tell of each other: @use is a part of it. */
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

/* What the table is searched by. */
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

/* RFC 6528: a number for the 4-tuple that nobody can guess, and a clock of 64 ns. */
uint32_t flow_iss(struct tcp_stack *s, const struct flow *f)
{
	return (uint32_t)tuple_hash(s, f->laddr, f->lport, &f->raddr, f->rport,
				    USE_ISS) +
	       (uint32_t)(s->now_ns / 64);
}

/* RFC 7323 section 7.1: timestamps do not tell how long the host has been up. */
uint32_t flow_ts_off(struct tcp_stack *s, const struct flow *f)
{
	return (uint32_t)tuple_hash(s, f->laddr, f->lport, &f->raddr, f->rport,
				    USE_TS);
}

uint32_t path_hash(struct tcp_stack *s, const struct ip_addr *raddr)
{
	return (uint32_t)tuple_hash(s, 0, 0, raddr, 0, USE_PATH);
}

/* One of @n for the 4-tuple, each time the same. */
uint32_t flow_share(struct tcp_stack *s, const struct flow *f, uint32_t n)
{
	uint64_t h =
	    tuple_hash(s, f->laddr, f->lport, &f->raddr, f->rport, USE_SHARE);

	return (uint32_t)((h >> 32) * n >> 32);
}

/* For cookie.c: one hash for each @which. */
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

/* A segment with this hash will be looked for. */
void flow_fetch_bucket(struct tcp_stack *s, uint64_t hash)
{
	__builtin_prefetch(bucket(s, hash));
}

/* What is likely to be looked for, as far as the bucket tells; it is not touched. */
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

/* A way is free: one of those that had none takes it. */
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

/* The two kinds of minis have their links at different places. */
struct links {
	uint32_t *prev, *next;
};

static struct links links_of(struct tcp_stack *s, const struct pool *p,
			     uint32_t i)
{
	if (p == &s->pool_reqsks) {
		struct tcp_reqsk *req = pool_at(p, i - 1);
		return (struct links){ &req->prev, &req->next };
	}
	struct tcp_tw *req = pool_at(p, i - 1);
	return (struct links){ &req->prev, &req->next };
}

static void expiry_add(struct tcp_stack *s, const struct pool *p,
		       struct expiry_list *l, const void *mini)
{
	uint32_t i = pool_index(p, mini) + 1;
	struct links at = links_of(s, p, i);

	*at.next = 0;
	*at.prev = l->tail;
	if (l->tail)
		*links_of(s, p, l->tail).next = i;
	else
		l->head = i;
	l->tail = i;
}

static void expiry_del(struct tcp_stack *s, const struct pool *p,
		       struct expiry_list *l, const void *mini)
{
	struct links at = links_of(s, p, pool_index(p, mini) + 1);

	if (*at.prev)
		*links_of(s, p, *at.prev).next = *at.next;
	else
		l->head = *at.next;
	if (*at.next)
		*links_of(s, p, *at.next).prev = *at.prev;
	else
		l->tail = *at.prev;
}

static void reqsk_arm(struct tcp_stack *s, struct tcp_reqsk *req)
{
	req->expires_ms = now_ms(s) + (uint32_t)(RTO_INITIAL_NS / NS_PER_MS
						 << req->n_retries);
	expiry_add(s, &s->pool_reqsks, &s->reqsks[req->n_retries], req);
}

/* A mini that is what @is says, for which there is room; the caller adds it to the
 * table. */
struct tcp_reqsk *reqsk_new(struct tcp_stack *s, const struct tcp_reqsk *is)
{
	struct tcp_reqsk *req = pool_get(&s->pool_reqsks);

	assert(req);
	*req = *is;
	s->listeners[req->listener].n_reqsks++;
	reqsk_arm(s, req);
	return req;
}

void reqsk_free(struct tcp_stack *s, struct tcp_reqsk *req)
{
	flow_del(s, &req->flow);
	s->listeners[req->listener].n_reqsks--;
	expiry_del(s, &s->pool_reqsks, &s->reqsks[req->n_retries], req);
	pool_put(&s->pool_reqsks, req);
}

/* One retry more. */
void reqsk_rearm(struct tcp_stack *s, struct tcp_reqsk *req)
{
	expiry_del(s, &s->pool_reqsks, &s->reqsks[req->n_retries], req);
	req->n_retries++;
	reqsk_arm(s, req);
}

struct tcp_tw *tw_new(struct tcp_stack *s)
{
	struct tcp_tw *tw = pool_get(&s->pool_tws);

	if (!tw) {
		/* The oldest has waited longest: it is the safest to forget. */
		tw_free(s, pool_at(&s->pool_tws, s->tws.head - 1));
		tw = pool_get(&s->pool_tws);
	}
	*tw = (struct tcp_tw){ .flow.kind = FLOW_TIME_WAIT };
	tw->expires_ms = now_ms(s) + (uint32_t)(TIME_WAIT_NS / NS_PER_MS);
	expiry_add(s, &s->pool_tws, &s->tws, tw);
	return tw;
}

void tw_free(struct tcp_stack *s, struct tcp_tw *tw)
{
	flow_del(s, &tw->flow);
	expiry_del(s, &s->pool_tws, &s->tws, tw);
	pool_put(&s->pool_tws, tw);
}

void tw_rearm(struct tcp_stack *s, struct tcp_tw *tw)
{
	expiry_del(s, &s->pool_tws, &s->tws, tw);
	tw->expires_ms = now_ms(s) + (uint32_t)(TIME_WAIT_NS / NS_PER_MS);
	expiry_add(s, &s->pool_tws, &s->tws, tw);
}

static bool has_expired(const struct tcp_stack *s, uint32_t expires_ms)
{
	return (int32_t)(expires_ms - now_ms(s)) <= 0;
}

/* One whose SYN-ACK is due again; the caller re-arms or frees it. */
struct tcp_reqsk *reqsk_expired(struct tcp_stack *s)
{
	for (unsigned i = 0; i <= SYNACK_RETRIES; i++) {
		if (!s->reqsks[i].head)
			continue;
		struct tcp_reqsk *req =
		    pool_at(&s->pool_reqsks, s->reqsks[i].head - 1);
		if (has_expired(s, req->expires_ms))
			return req;
	}
	return NULL;
}

struct tcp_tw *tw_expired(struct tcp_stack *s)
{
	if (!s->tws.head)
		return NULL;
	struct tcp_tw *tw = pool_at(&s->pool_tws, s->tws.head - 1);
	return has_expired(s, tw->expires_ms) ? tw : NULL;
}

static uint64_t ms_to_ns(const struct tcp_stack *s, uint32_t expires_ms)
{
	int32_t left = (int32_t)(expires_ms - now_ms(s));

	return (s->now_ns / NS_PER_MS + (uint64_t)(left > 0 ? left : 0)) *
	       NS_PER_MS;
}

uint64_t expiry_next_ns(const struct tcp_stack *s)
{
	uint64_t first = WHEEL_NEVER;

	for (unsigned i = 0; i <= SYNACK_RETRIES; i++) {
		if (!s->reqsks[i].head)
			continue;
		const struct tcp_reqsk *req =
		    pool_at(&s->pool_reqsks, s->reqsks[i].head - 1);
		first = MIN(first, ms_to_ns(s, req->expires_ms));
	}
	if (s->tws.head) {
		const struct tcp_tw *req =
		    pool_at(&s->pool_tws, s->tws.head - 1);
		first = MIN(first, ms_to_ns(s, req->expires_ms));
	}
	return first;
}
