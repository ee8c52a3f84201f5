/* SPDX-License-Identifier: MIT */
/*
 * tcp/expiry.c - making and freeing half-open connections and timewaits, and when they expire
 *
 *     open.c, timewait.c -> a list -> reqsk_expired(), tw_expired() -> timer.c
 *
 * All elements of a list have the same time-out, so a list is sorted by time, and its
 * head expires first.  Half-open connections have a list for each number of retries.
 * They need no timer of their own.
 */
#include "tcp/stack.h"

/* The links of an element: the two structs keep them at different places. */
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
		       struct expiry_list *l, const void *element)
{
	uint32_t i = pool_index(p, element) + 1;
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
		       struct expiry_list *l, const void *element)
{
	struct links at = links_of(s, p, pool_index(p, element) + 1);

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

/* Copies @is into a new element.  The caller has made sure that the pool has one, and
 * adds the result to the flow table. */
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

/* Waits for one retry more. */
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
		/* Free the oldest: it has waited longest, so an old segment for it is
		 * least likely. */
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

/* Return: one whose SYN-ACK must be sent again, or NULL.  The caller re-arms or frees
 * it. */
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
