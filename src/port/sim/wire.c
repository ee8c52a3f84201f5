/* SPDX-License-Identifier: MIT */
/* port/sim/wire.c - one direction of a path, in virtual time; see wire.h */
#include "port/sim/wire.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "ip/checksum.h"
#include "ip/tcp_head.h"

#define MILLION 1000000
#define NS_PER_SEC 1000000000ull

void wire_init(struct wire *w, const struct wire_model *m, uint64_t seed)
{
	*w = (struct wire){ .model = *m, .seed = seed };
}

void wire_fini(struct wire *w)
{
	for (uint32_t i = 0; i < w->n; i++)
		free(w->heap[i]);
	free(w->heap);
	*w = (struct wire){ 0 };
}

/* splitmix64 */
static uint64_t random_next(struct wire *w)
{
	uint64_t z = w->seed += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static bool happens(struct wire *w, uint32_t ppm)
{
	return ppm && random_next(w) % MILLION < ppm;
}

static bool is_before(const struct wire_packet *a, const struct wire_packet *b)
{
	return a->at_ns < b->at_ns ||
	       (a->at_ns == b->at_ns && a->order < b->order);
}

static void heap_push(struct wire *w, struct wire_packet *p)
{
	if (w->n == w->room) {
		w->room = w->room ? 2 * w->room : 64;
		w->heap =
		    realloc(w->heap, w->room * sizeof(struct wire_packet *));
		assert(w->heap);
	}
	uint32_t i = w->n++;
	for (; i && is_before(p, w->heap[(i - 1) / 2]); i = (i - 1) / 2)
		w->heap[i] = w->heap[(i - 1) / 2];
	w->heap[i] = p;
}

static struct wire_packet *heap_pop(struct wire *w)
{
	struct wire_packet *first = w->heap[0], *last = w->heap[--w->n];
	uint32_t i = 0;

	for (;;) {
		uint32_t kid = 2 * i + 1;

		if (kid >= w->n)
			break;
		if (kid + 1 < w->n && is_before(w->heap[kid + 1], w->heap[kid]))
			kid++;
		if (!is_before(w->heap[kid], last))
			break;
		w->heap[i] = w->heap[kid];
		i = kid;
	}
	w->heap[i] = last;
	return first;
}

/* A byte of the TCP header, ports excepted, becomes another, and its checksum is
 * made to fit: what a broken middlebox does. */
static void mutate(struct wire *w, uint8_t *p, uint32_t len)
{
	struct ip_packet ip;

	if (ip_parse(p, len, &ip) || ip.l4_len < TCP_HEAD)
		return;
	uint8_t *tcp = p + ip.l4_off;
	uint32_t head = (tcp[12] >> 4) * 4u;
	if (head < TCP_HEAD || head > ip.l4_len)
		return;
	tcp[4 + random_next(w) % (head - 4)] = (uint8_t)random_next(w);
	store_be16(tcp + 16, 0);
	struct cksum sum =
	    ip_pseudo_sum(&ip.src, &ip.dst, IP_PROTO_TCP, ip.l4_len);
	cksum_add(&sum, tcp, ip.l4_len);
	store_be16(tcp + 16, cksum_end(&sum));
}

static void post(struct wire *w, const uint8_t *data, uint32_t len,
		 bool is_sum_good, uint64_t at_ns)
{
	struct wire_packet *p = malloc(sizeof(*p) + len);

	assert(p);
	*p = (struct wire_packet){ .at_ns = at_ns,
				   .order = w->n_order++,
				   .len = len,
				   .is_sum_good = is_sum_good };
	memcpy(p->data, data, len);
	if (happens(w, w->model.corrupt)) {
		uint64_t bit = random_next(w) % (8ull * len);

		/* The port checks nothing, so that the stack has to. */
		p->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		p->is_sum_good = false;
	}
	if (happens(w, w->model.mutate))
		mutate(w, p->data, len);
	heap_push(w, p);
}

/* When a packet is through the bottleneck; UINT64_MAX: the queue is full. */
static uint64_t through_queue(struct wire *w, uint32_t len, uint64_t now_ns)
{
	const struct wire_model *m = &w->model;

	if (!m->rate_bps)
		return now_ns;
	uint64_t from = w->busy_until_ns > now_ns ? w->busy_until_ns : now_ns;
	uint64_t queued = (from - now_ns) * m->rate_bps / 8 / NS_PER_SEC;
	if (m->queue_bytes && queued + len > m->queue_bytes)
		return UINT64_MAX;
	w->busy_until_ns = from + len * 8 * NS_PER_SEC / m->rate_bps;
	return w->busy_until_ns;
}

void wire_send(struct wire *w, const uint8_t *data, uint32_t len,
	       bool is_sum_good, uint64_t now_ns)
{
	const struct wire_model *m = &w->model;
	uint64_t i = w->n_sent++;
	bool is_masked = i < 64 && m->drop_mask >> i & 1;
	uint64_t at = through_queue(w, len, now_ns);

	if (is_masked || at == UINT64_MAX || happens(w, m->loss)) {
		w->n_lost++;
		return;
	}
	at += m->delay_ns;
	if (m->jitter_ns)
		at += random_next(w) % m->jitter_ns;
	if (happens(w, m->reorder))
		at += m->reorder_ns;
	else
		w->last_at_ns = at = at > w->last_at_ns ? at : w->last_at_ns;
	post(w, data, len, is_sum_good, at);
	if (happens(w, m->duplicate))
		post(w, data, len, is_sum_good, at + m->reorder_ns);
}

uint64_t wire_next_ns(const struct wire *w)
{
	return w->n ? w->heap[0]->at_ns : UINT64_MAX;
}

struct wire_packet *wire_take(struct wire *w, uint64_t now_ns)
{
	return wire_next_ns(w) <= now_ns ? heap_pop(w) : NULL;
}
