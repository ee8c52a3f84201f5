/* SPDX-License-Identifier: MIT */
/*
 * tcp/lend.c - memory that others lend: bytes to send without a copy, and blocks for pools
 *
 *     tcp_send_lent(): a program's bytes -> the send queue, frames -> tcp_next_returned()
 *     tcp_wants(), tcp_grow(): blocks for pools that run short -> tcp_shrink()
 *
 * An extent wraps lent bytes and counts the references to them.  The bytes go back when
 * the peer has acknowledged them, or the connection is over, and no frame of a port
 * refers to them.  A block goes back when no element in it is in use.
 */
#include "tcp/calls.h"
#include "tcp/snd.h"
#include "tcp/stack.h"

/* --- bytes --- */

static void lent_done(struct extent *e)
{
	struct tcp_lent *z = container_of(e, struct tcp_lent, ext);

	list_add_tail(&z->stack->returned, &z->link);
}

int tcp_send_lent(struct tcp_conn *c, struct tcp_lent *z, const void *data,
		  uint32_t len, uint64_t now_ns)
{
	struct tcp_stack *s = c->stack;
	ssize_t refusal = send_refusal(c);
	bool is_idle = seq_eq(c->snd_una, c->snd_end);

	conn_fetch_tails(c);
	stack_at(s, now_ns);
	assert(len && len <= TCP_LENT_MAX);
	if (refusal)
		return (int)refusal;
	/* The call takes all bytes or none.  An empty buffer takes them even if they are
	 * more than its size. */
	bool is_full =
	    len > snd_space(c) || (c->rec.has_lowat && !snd_lowat_space(c, 1));
	if (is_full && !is_idle) {
		c->rec.wants_room = true;
		return -EAGAIN;
	}
	if (!sndq_has_ranges(s))
		return -EAGAIN;
	struct range *r = pool_get(&s->pool_ranges);
	z->stack = s;
	extent_lend(&z->ext, data, len, lent_done);
	*r = (struct range){ .ext = &z->ext, .seq = c->snd_end, .len = len };
	sndq_append(c, r);
	c->snd_end = seq_add(c->snd_end, len);
	c->flags &= ~(uint32_t)(CONN_MORE | CONN_PUSH_ALL);
	c->rec.has_more = false;
	conn_set_pending(c, TX_DATA);
	return 0;
}

struct tcp_lent *tcp_next_returned(struct tcp_stack *s)
{
	if (list_is_empty(&s->returned))
		return NULL;
	struct list *first = s->returned.next;
	list_del(first);
	return container_of(first, struct tcp_lent, link);
}

/* --- blocks --- */

static struct pool *pool_of(struct tcp_stack *s, enum tcp_pool which)
{
	struct pool *const pools[TCP_POOLS] = {
		[TCP_POOL_CONNS] = &s->pool_conns,
		[TCP_POOL_REQSKS] = &s->pool_reqsks,
		[TCP_POOL_TWS] = &s->pool_tws,
		[TCP_POOL_RANGES] = &s->pool_ranges,
		[TCP_POOL_EXTENTS] = &s->pool_extents,
	};
	return pools[which];
}

void grow_init(struct tcp_stack *s, struct pool_block **table)
{
	uint32_t n = s->cfg.n_blocks;

	memset(table, 0, (size_t)TCP_POOLS * n * sizeof(*table));
	for (unsigned i = 0; i < TCP_POOLS; i++)
		pool_may_grow(pool_of(s, i), table + (size_t)i * n, n);
}

int tcp_wants(struct tcp_stack *s)
{
	if (s->n_blocks == s->cfg.n_blocks)
		return -1;
	for (int i = 0; i < TCP_POOLS; i++) {
		const struct pool *p = pool_of(s, (enum tcp_pool)i);

		/* Half of the ranges are reserved for bytes in order: see range_new()
		 * and rcvq.c. */
		if (p->n_free < p->n / (i == TCP_POOL_RANGES ? 2 : 8) + 1)
			return i;
	}
	return -1;
}

bool tcp_grow(struct tcp_stack *s, enum tcp_pool which, void *block)
{
	if (s->n_blocks == s->cfg.n_blocks)
		return false;
	bool has_grown = pool_grow(pool_of(s, which), block);
	assert(has_grown);
	s->n_blocks++;
	return true;
}

void *tcp_shrink(struct tcp_stack *s)
{
	for (unsigned i = 0; i < TCP_POOLS; i++) {
		struct pool *p = pool_of(s, i);
		uint32_t block = pool_block_elements(p->size);

		/* Keep what would be needed again soon. */
		if (p->n_free < block + (p->n - block) / 2 + 1)
			continue;
		void *mem = pool_shrink(p);
		if (mem) {
			memset(s->soon, 0, sizeof(s->soon));
			s->n_blocks--;
			return mem;
		}
	}
	return NULL;
}
