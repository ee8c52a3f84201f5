/* SPDX-License-Identifier: MIT */
/*
 * tcp/stack.c - making and ending a stack: its memory, its addresses, the MTU of its routes
 *
 * All memory of a stack is one block: the stack, the buckets, then the pools, one
 * behind the other.
 */
#include "tcp/ctl.h"
#include "tcp/stack.h"
#include "tcp/timer.h"

#define ALIGN(n) (((size_t)(n) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE)
#define MTU_MIN 576

static uint32_t bucket_count(const struct tcp_config *cfg)
{
	uint64_t n = 16, most = (uint64_t)cfg->n_conns + cfg->n_reqsks;

	most += (uint64_t)cfg->n_blocks *
		pool_block_elements(sizeof(struct tcp_conn));
	while (n * FLOWS_EACH < most)
		n *= 2;
	return (uint32_t)n;
}

/* The parts of the block, in order; AT_END stands for its size. */
enum part {
	AT_BUCKETS,
	AT_CONNS,
	AT_DELACKS,
	AT_REQSKS,
	AT_TWS,
	AT_RANGES,
	AT_EXTENTS,
	AT_TABLES,
	AT_END
};

static void layout(const struct tcp_config *cfg, size_t at[AT_END + 1])
{
	const size_t sizes[AT_END] = {
		[AT_BUCKETS] = bucket_count(cfg) * sizeof(struct flow_bucket),
		[AT_CONNS] = cfg->n_conns * sizeof(struct tcp_conn),
		[AT_DELACKS] =
		    delack_slots(cfg->n_conns) * sizeof(struct delack),
		[AT_REQSKS] = cfg->n_reqsks * (size_t)CACHE_LINE,
		[AT_TWS] = cfg->n_reqsks * (size_t)CACHE_LINE,
		[AT_RANGES] = cfg->n_ranges * sizeof(struct range),
		[AT_EXTENTS] =
		    cfg->n_extents * (size_t)extent_size(cfg->extent_bytes),
		[AT_TABLES] =
		    (size_t)TCP_POOLS * cfg->n_blocks * sizeof(void *),
	};

	at[0] = ALIGN(sizeof(struct tcp_stack));
	for (unsigned i = 0; i < AT_END; i++)
		at[i + 1] = ALIGN(at[i] + sizes[i]);
}

size_t tcp_stack_bytes(const struct tcp_config *cfg)
{
	size_t at[AT_END + 1];

	layout(cfg, at);
	return at[AT_END];
}

struct tcp_stack *tcp_stack_init(void *mem, const struct tcp_config *cfg,
				 uint64_t now_ns)
{
	struct tcp_stack *s = mem;
	uint8_t *base = mem;
	size_t at[AT_END + 1];

	assert((uintptr_t)mem % CACHE_LINE == 0);
	assert(cfg->n_addrs && cfg->n_addrs <= TCP_ADDRS_MAX);
	assert(cfg->n_conns && cfg->n_reqsks && cfg->n_ranges >= 64);
	assert(cfg->mtu >= MTU_MIN && cfg->mtu <= IP_MAX);
	assert(cfg->gso_max <= IP_MAX - TCP_FRAME_HEAD);
	assert(cfg->rcv_buf >= RCV_BUF_MIN && cfg->rcv_buf <= 1u << 30);
	assert(cfg->rcv_buf_max <= 1u << 30);
	assert(cfg->snd_buf <= 1u << 30 && cfg->snd_buf_max <= 1u << 30);
	assert(cfg->ports.first <= cfg->ports.last);
	layout(cfg, at);
	memset(s, 0, sizeof(*s));
	s->cfg = *cfg;
	stack_at(s, now_ns);
	s->port_hint = (uint32_t)cfg->key.k[1];
	wheel_init(&s->wheel, now_ns);
	list_init(&s->pending);
	list_init(&s->ready);
	list_init(&s->conns);
	list_init(&s->ooo);
	list_init(&s->returned);
	s->n_buckets = bucket_count(cfg);
	s->buckets = (struct flow_bucket *)(base + at[AT_BUCKETS]);
	memset(s->buckets, 0, s->n_buckets * sizeof(*s->buckets));
	pool_init(&s->pool_conns, base + at[AT_CONNS], sizeof(struct tcp_conn),
		  cfg->n_conns);
	s->delacks.ring = (struct delack *)(base + at[AT_DELACKS]);
	s->delacks.n_slots = delack_slots(cfg->n_conns);
	pool_init(&s->pool_reqsks, base + at[AT_REQSKS], CACHE_LINE,
		  cfg->n_reqsks);
	pool_init(&s->pool_tws, base + at[AT_TWS], CACHE_LINE, cfg->n_reqsks);
	pool_init(&s->pool_ranges, base + at[AT_RANGES], sizeof(struct range),
		  cfg->n_ranges);
	pool_init(&s->pool_extents, base + at[AT_EXTENTS],
		  extent_size(cfg->extent_bytes), cfg->n_extents);
	grow_init(s, (struct pool_block **)(base + at[AT_TABLES]));
	return s;
}

void tcp_stack_fini(struct tcp_stack *s)
{
	while (!list_is_empty(&s->conns)) {
		struct tcp_conn *c =
		    container_of(s->conns.next, struct tcp_conn, all_link);

		c->flags |= CONN_ORPHAN;
		if (c->state != TCP_CLOSED)
			tcp_set_state(c, TCP_CLOSED);
		conn_free(c);
	}
	assert(s->pool_conns.n_free == s->pool_conns.n);
	assert(s->pool_ranges.n_free == s->pool_ranges.n);
	assert(!s->rcv_mem);
}

uint64_t tcp_dropped(const struct tcp_stack *s, enum drop_reason why)
{
	return s->drops[why];
}

uint32_t tcp_most_work(struct tcp_stack *s)
{
	uint32_t most;

	work_end(&s->work);
	most = s->work.most;
	s->work.most = 0;
	return most;
}

int tcp_add_addr(struct tcp_stack *s, const struct ip_addr *a)
{
	if (stack_addr(s, a) >= 0)
		return 0;
	if (s->cfg.n_addrs == TCP_ADDRS_MAX)
		return -ENOSPC;
	s->cfg.addrs[s->cfg.n_addrs++] = *a;
	return 0;
}

/* Return: the index of an address of ours, or -EADDRNOTAVAIL. */
int stack_addr(const struct tcp_stack *s, const struct ip_addr *a)
{
	for (uint32_t i = 0; i < s->cfg.n_addrs; i++)
		if (ip_addr_eq(&s->cfg.addrs[i], a))
			return (int)i;
	return -EADDRNOTAVAIL;
}

/* The MTU of the link, or of the route if that is smaller; MTU_MIN at least. */
uint32_t stack_mtu(const struct tcp_stack *s, const struct ip_addr *raddr)
{
	const struct ip_route *r =
	    s->cfg.hops ? hop_route(s->cfg.hops, raddr) : NULL;

	if (!r || !r->mtu || r->mtu > s->cfg.mtu)
		return s->cfg.mtu;
	return r->mtu > MTU_MIN ? r->mtu : MTU_MIN;
}

/* The MSS that we announce; RFC 6691: it does not count options.  @maxseg 0: no limit */
uint16_t stack_mss(const struct tcp_stack *s, const struct ip_addr *raddr,
		   uint16_t maxseg)
{
	uint32_t mss = stack_mtu(s, raddr) - ip_head_len(raddr) - TCP_HEAD;

	return (uint16_t)(maxseg ? MIN(mss, (uint32_t)maxseg) : mss);
}
