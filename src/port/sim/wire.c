/* SPDX-License-Identifier: MIT */
/* port/sim/wire.c - one direction of a path, in virtual time; see wire.h */
#include "port/sim/wire.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define MILLION 1000000
#define NS_PER_SEC 1000000000ull
#define ECN_CE 3
#define GAP_MAX_NS NS_PER_SEC /* so long for want of others */

void wire_init(struct wire *w, const struct wire_model *m, uint64_t seed)
{
	*w = (struct wire){ .model = *m, .seed = seed };
}

void wire_fini(struct wire *w)
{
	for (uint32_t i = 0; i < w->n; i++)
		free(w->heap[i]);
	for (uint32_t i = 0; i < WIRE_OLD; i++)
		free(w->old[i]);
	free(w->heap);
	*w = (struct wire){ 0 };
}

void wire_heal(struct wire *w)
{
	const struct wire_model *m = &w->model;

	w->model = (struct wire_model){ .rate_bps = m->rate_bps,
					.delay_ns = m->delay_ns,
					.jitter_ns = m->jitter_ns,
					.jitter = m->jitter,
					.strip = m->strip,
					.clamp_mss = m->clamp_mss,
					.queue_bytes = m->queue_bytes,
					.red = m->red };
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

/* --- packets under way: a heap --- */

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
	if (w->last == first)
		w->last = NULL;
	if (w->gapped == first)
		w->gapped = NULL;
	return first;
}

/* Makes a packet of the heap arrive earlier. */
static void heap_hasten(struct wire *w, struct wire_packet *p, uint64_t at_ns)
{
	uint32_t i = 0;

	while (w->heap[i] != p)
		i++;
	p->at_ns = at_ns < p->at_ns ? at_ns : p->at_ns;
	for (; i && is_before(p, w->heap[(i - 1) / 2]); i = (i - 1) / 2)
		w->heap[i] = w->heap[(i - 1) / 2];
	w->heap[i] = p;
}

/* Return: a packet with room for @room bytes, and @len bytes of @data in it. */
static struct wire_packet *packet_new(struct wire *w, const uint8_t *data,
				      uint32_t len, uint32_t room,
				      uint64_t at_ns)
{
	struct wire_packet *p = malloc(sizeof(*p) + (room > len ? room : len));

	assert(p);
	*p = (struct wire_packet){ .at_ns = at_ns,
				   .order = w->n_order++,
				   .len = len };
	memcpy(p->data, data, len);
	return p;
}

/* --- faults --- */

/* Return: whether the packet is unchanged. */
static bool corrupt(struct wire *w, struct wire_packet *p)
{
	const struct wire_model *m = &w->model;
	bool is_good = true;

	if (happens(w, m->corrupt)) {
		uint64_t bit = random_next(w) % (8ull * p->len);

		/* Ports do not check checksums, so the stack has to. */
		p->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		p->is_sum_good = is_good = false;
	}
	if (happens(w, m->mutate)) {
		middlebox_mutate(p->data, p->len, random_next(w));
		is_good = false;
	}
	if (happens(w, m->truncate)) {
		p->len = 1 + (uint32_t)(random_next(w) % p->len);
		is_good = false;
	}
	return is_good;
}

static void post(struct wire *w, const uint8_t *data, uint32_t len,
		 bool is_sum_good, uint64_t at_ns)
{
	const struct wire_model *m = &w->model;

	if (w->last && w->last->is_sum_good == is_sum_good &&
	    happens(w, m->merge)) {
		struct wire_packet *p = w->last;
		uint32_t whole =
		    middlebox_merge(p->data, p->len, m->merge_bytes, data, len);

		if (whole) {
			p->len = whole;
			return;
		}
	}
	struct wire_packet *p =
	    packet_new(w, data, len, m->merge ? m->merge_bytes : 0, at_ns);
	p->is_sum_good = is_sum_good;
	/* Merging repairs checksums, so do not merge a corrupt packet. */
	w->last = corrupt(w, p) ? p : NULL;
	bool waits = !w->gapped && happens(w, m->gap);
	p->at_ns += waits ? GAP_MAX_NS : 0;
	heap_push(w, p);
	if (waits) {
		w->gapped = p;
		w->gap_left = m->gap_packets;
	} else if (w->gapped && !--w->gap_left) {
		heap_hasten(w, w->gapped, at_ns);
		w->gapped = NULL;
	}
}

static void post_made(struct wire *w, const uint8_t *data, uint32_t len,
		      uint64_t at_ns)
{
	struct wire_packet *p = packet_new(w, data, len, 0, at_ns);

	p->is_forged = true;
	heap_push(w, p);
}

/* RFC 3168: a router marks only packets with ECT. */
static void mark(struct wire *w, uint8_t *data, uint32_t len, uint32_t queued)
{
	const struct wire_model *m = &w->model;
	struct ip_packet ip;

	if (m->bleaches)
		middlebox_ecn(data, len, 0);
	if (!m->mark && !m->mark_queue_bytes)
		return;
	if (ip_parse(data, len, &ip) || !ip.ecn)
		return;
	if (happens(w, m->mark) ||
	    (m->mark_queue_bytes && queued > m->mark_queue_bytes))
		middlebox_ecn(data, len, ECN_CE);
}

/* Adds forged packets; the packet itself does not change. */
static void meddle(struct wire *w, const uint8_t *data, uint32_t len,
		   uint64_t at_ns)
{
	const struct wire_model *m = &w->model;
	uint8_t made[MIDDLEBOX_MADE];
	uint32_t n = 0, off;

	if (happens(w, m->forge_rst)) {
		/* Half of the resets miss by little. */
		off = 1 + (uint32_t)(random_next(w) %
				     (random_next(w) % 2 ? 100000 : 3));
		off = random_next(w) % 2 ? off : -off;
		n = middlebox_reset(data, len, off, made);
	} else if (happens(w, m->kill)) {
		n = middlebox_reset(data, len, 0, made);
	}
	if (n)
		post_made(w, made, n, at_ns);
	if (happens(w, m->forge_mtu)) {
		off = (1u << 30) + (uint32_t)(random_next(w) % (1u << 30));
		n = middlebox_too_big(data, len, 68, off, made);
		if (n)
			post_made(w, made, n, at_ns);
	}
	if (happens(w, m->forge_error)) {
		off = (1u << 30) + (uint32_t)(random_next(w) % (1u << 30));
		n = middlebox_unreachable(data, len, random_next(w), off, made);
		if (n)
			post_made(w, made, n, at_ns);
	}
	if (!m->replay)
		return;
	uint64_t i = random_next(w) % WIRE_OLD;
	if (w->old[i] && happens(w, m->replay))
		post_made(w, w->old[i]->data, w->old[i]->len,
			  at_ns + random_next(w) % (m->replay_ns + 1));
	free(w->old[i]);
	w->old[i] = packet_new(w, data, len, 0, at_ns);
}

/* A router cannot forward the packet and reports it. */
static void tell_lost(struct wire *w, const uint8_t *data, uint32_t len,
		      uint64_t now_ns)
{
	const struct wire_model *m = &w->model;
	uint8_t made[MIDDLEBOX_MADE];

	if (!happens(w, m->tells_lost))
		return;
	uint32_t n = middlebox_unreachable(data, len, 0, 0, made);
	if (n)
		post_made(w, made, n, now_ns + 2 * m->delay_ns);
}

static bool is_lost(struct wire *w, const uint8_t *data, uint32_t len,
		    uint64_t now_ns)
{
	const struct wire_model *m = &w->model;
	uint64_t i = w->n_sent - 1;

	if (i < 64 && m->drop_mask >> i & 1)
		return true;
	if (m->drop_nth && w->n_sent % m->drop_nth == 0)
		return true;
	if (m->hole_every_ns && now_ns % m->hole_every_ns < m->hole_ns) {
		tell_lost(w, data, len, now_ns);
		return true;
	}
	if (happens(w, w->is_bad ? m->burst_ends : m->burst_begins))
		w->is_bad = !w->is_bad;
	if (w->is_bad && happens(w, m->burst_loss))
		return true;
	if (m->loss_acks && middlebox_is_ack(data, len) &&
	    happens(w, m->loss_acks))
		return true;
	return happens(w, m->loss);
}

static bool is_too_big(struct wire *w, const uint8_t *data, uint32_t len,
		       uint64_t now_ns)
{
	const struct wire_model *m = &w->model;
	uint8_t made[MIDDLEBOX_MADE];

	if (!m->mtu || len <= m->mtu || now_ns < m->mtu_from_ns)
		return false;
	if (m->tells_mtu) {
		uint32_t n = middlebox_too_big(data, len, m->mtu, 0, made);

		if (n)
			post_made(w, made, n, now_ns + 2 * m->delay_ns);
	}
	return true;
}

/* Floyd and Jacobson, "Random Early Detection", with a weight of 1/64.  Drops begin at
 * an average of a quarter of the queue. */
static bool is_dropped_early(struct wire *w, uint64_t wait)
{
	const struct wire_model *m = &w->model;
	uint64_t most = m->queue_bytes / 4 * 3, least = m->queue_bytes / 4;

	if (!m->red || !most)
		return false;
	w->red_avg += (wait << 10) / 64;
	w->red_avg -= w->red_avg / 64;
	uint64_t avg = w->red_avg >> 10;
	if (avg <= least)
		return false;
	return avg >= most ||
	       happens(w, (uint32_t)(m->red * (avg - least) / (most - least)));
}

/* When a packet has passed the bottleneck; UINT64_MAX: the queue is full. */
static uint64_t through_queue(struct wire *w, uint32_t len, uint64_t now_ns,
			      uint32_t *queued)
{
	const struct wire_model *m = &w->model;

	if (!m->rate_bps)
		return now_ns;
	uint64_t from = w->busy_until_ns > now_ns ? w->busy_until_ns : now_ns;
	uint64_t wait = (uint64_t)((unsigned __int128)(from - now_ns) *
				   m->rate_bps / 8 / NS_PER_SEC);
	*queued = (uint32_t)MIN(wait, (uint64_t)UINT32_MAX);
	if (m->queue_bytes && wait + len > m->queue_bytes)
		return UINT64_MAX;
	if (is_dropped_early(w, wait))
		return UINT64_MAX;
	w->busy_until_ns = from + len * 8 * NS_PER_SEC / m->rate_bps;
	return w->busy_until_ns;
}

/* --- a packet on its way --- */

/* The sum of twelve random numbers, less its mean, has a variance of 1.  Three standard
 * deviations are half of jitter_ns. */
static uint64_t jitter_normal(struct wire *w)
{
	uint64_t most = w->model.jitter_ns, sum = 0;

	for (unsigned i = 0; i < 12; i++)
		sum += random_next(w) >> 40;
	int64_t x = (int64_t)sum - (6ll << 24);
	int64_t ns =
	    (int64_t)(most / 2) + (int64_t)(most / 6) * (x >> 8) / (1 << 16);

	return ns < 0 ? 0 : MIN((uint64_t)ns, most);
}

/* The reciprocal of the largest of three numbers in (0, 1] has a Pareto distribution. */
static uint64_t jitter_pareto(struct wire *w)
{
	uint64_t most = wire_jitter_most(&w->model), u = 1;

	for (unsigned i = 0; i < 3; i++) {
		uint64_t r = random_next(w) >> 44;

		u = r > u ? r : u;
	}
	return MIN(w->model.jitter_ns * ((1u << 20) - u) / u, most);
}

static uint64_t jitter(struct wire *w)
{
	const struct wire_model *m = &w->model;

	if (!m->jitter_ns)
		return 0;
	switch (m->jitter) {
	case JITTER_NORMAL:
		return jitter_normal(w);
	case JITTER_PARETO:
		return jitter_pareto(w);
	default:
		return random_next(w) % m->jitter_ns;
	}
}

static uint64_t arrival(struct wire *w, uint64_t at)
{
	const struct wire_model *m = &w->model;

	at += m->delay_ns + jitter(w);
	if (happens(w, m->reorder))
		return at + m->reorder_ns;
	w->last_at_ns = at = at > w->last_at_ns ? at : w->last_at_ns;
	return at;
}

/* Middleboxes get a copy of the packet. */
static void pass(struct wire *w, uint8_t *data, uint32_t len, bool is_sum_good,
		 uint64_t at, uint32_t queued)
{
	const struct wire_model *m = &w->model;
	uint8_t rest[IP_MAX + 1];
	uint32_t more = 0;

	mark(w, data, len, queued);
	if (m->strip)
		middlebox_strip(data, len, m->strip);
	if (m->clamp_mss)
		middlebox_clamp_mss(data, len, m->clamp_mss);
	if (happens(w, m->zero_window))
		middlebox_close_window(data, len);
	meddle(w, data, len, at + m->delay_ns);
	if (happens(w, m->split))
		more = middlebox_split(data, &len, rest, random_next(w));
	for (int i = 0; i < 1 + !!more; i++) {
		const uint8_t *part = i ? rest : data;
		uint32_t n = i ? more : len;
		uint64_t when = arrival(w, at);

		post(w, part, n, is_sum_good, when);
		if (happens(w, m->duplicate))
			post(w, part, n, is_sum_good, when + m->reorder_ns);
	}
}

static bool is_changed(const struct wire_model *m)
{
	return m->mark || m->mark_queue_bytes || m->bleaches || m->strip ||
	       m->clamp_mss || m->split || m->forge_rst || m->kill ||
	       m->forge_mtu || m->forge_error || m->zero_window || m->replay;
}

void wire_send(struct wire *w, const uint8_t *data, uint32_t len,
	       bool is_sum_good, uint64_t now_ns)
{
	const struct wire_model *m = &w->model;
	uint8_t copy[IP_MAX + 1];
	uint32_t queued = 0;

	assert(len <= IP_MAX);
	w->n_sent++;
	if (is_lost(w, data, len, now_ns) || is_too_big(w, data, len, now_ns)) {
		w->n_lost++;
		return;
	}
	uint64_t at = through_queue(w, len, now_ns, &queued);
	if (at == UINT64_MAX) {
		w->n_lost++;
		return;
	}
	if (is_changed(m)) {
		memcpy(copy, data, len);
		pass(w, copy, len, is_sum_good, at, queued);
		return;
	}
	at = arrival(w, at);
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
