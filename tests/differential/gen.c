/* SPDX-License-Identifier: MIT */
/*
 * tests/differential/gen.c - makes a sequence from a seed
 *
 * Most sequences first open a connection, from either side and with some of the
 * options.  Then they do what peers and programs do, and what they should not do.  The
 * others begin with anything.  No timer expires near the end of a pause, nor does the
 * limit of two challenge ACKs per second.
 */
#include "differential.h"

static uint64_t next(uint64_t *seed)
{
	uint64_t z = *seed += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

struct gen {
	uint64_t seed;
	struct sequence *q;
	bool has_ts, has_sack;
};

static uint32_t below(struct gen *g, uint32_t n)
{
	return (uint32_t)(next(&g->seed) % n);
}

static bool one_in(struct gen *g, uint32_t n) { return !below(g, n); }

static struct step *add(struct gen *g, enum step_kind kind, int32_t arg)
{
	struct step *s = &g->q->steps[g->q->n];

	if (g->q->n < STEPS_MAX)
		g->q->n++;
	else
		s--;
	*s = (struct step){ .kind = kind,
			    .arg = arg,
			    .seg = { .wscale = TCP_NO_WSCALE, .wnd = 60000 } };
	return s;
}

static struct seg_step *add_seg(struct gen *g, unsigned flags)
{
	struct seg_step *s = &add(g, STEP_SEG, 0)->seg;

	s->flags = (uint8_t)flags;
	s->has_ts = g->has_ts;
	return s;
}

static struct seg_step *add_syn(struct gen *g, unsigned flags)
{
	static const uint16_t mss[] = { 1460, 1460, 1000, 536, 0 };
	struct seg_step *s = add_seg(g, TCP_SYN | flags);

	s->mss = mss[below(g, 5)];
	s->is_sack_ok = g->has_sack;
	s->wscale = one_in(g, 3) ? TCP_NO_WSCALE : (uint8_t)below(g, 8);
	return s;
}

static void open_connection(struct gen *g)
{
	if (one_in(g, 2)) {
		add(g, STEP_LISTEN, 0);
		add_syn(g, 0);
		add_seg(g, TCP_ACK);
		add(g, STEP_ACCEPT, 0);
	} else {
		add(g, STEP_CONNECT, 0);
		if (one_in(g, 10)) {
			add_syn(g, 0);
			add_seg(g, TCP_ACK);
		} else {
			add_syn(g, TCP_ACK);
		}
	}
}

static uint32_t some_len(struct gen *g)
{
	static const uint32_t lens[] = { 1, 10, 100, 536, 1000, 1448, 1460 };

	return lens[below(g, 7)];
}

/* Only Linux SACKs a FIN behind a gap.  It would do so too often to see anything else:
 * known.txt, fin-sacked. */
static void no_early_fin(struct seg_step *s)
{
	if (s->seq > 0)
		s->flags &= (uint8_t)~TCP_FIN;
}

/* Bytes as a normal peer sends them, and one that has lost some. */
static void data_segment(struct gen *g)
{
	struct seg_step *s = add_seg(g, TCP_ACK | (one_in(g, 2) ? TCP_PSH : 0));

	s->len = some_len(g);
	switch (below(g, 8)) {
	case 0:
		s->seq = (int32_t)some_len(g);
		break;
	case 1:
		s->seq = -(int32_t)some_len(g);
		break;
	case 2:
		s->flags |= TCP_FIN;
		break;
	}
	if (one_in(g, 8))
		s->ack = -(int32_t)some_len(g);
	no_early_fin(s);
}

static void ack_segment(struct gen *g)
{
	struct seg_step *s = add_seg(g, TCP_ACK);

	if (one_in(g, 2))
		s->ack = -(int32_t)(below(g, 4) * 1000);
	if (one_in(g, 16))
		s->wnd = 0;
	if (g->has_sack && one_in(g, 4)) {
		s->ack = -100000;
		s->n_sacks = 1;
		s->sacks[0].from = 1000;
		s->sacks[0].to = 2000;
	}
}

/* Any flags with any numbers. */
static void odd_segment(struct gen *g)
{
	static const int32_t offs[] = { 0, 0, 0,     1,        -1,
					2, 5, 40000, 20000000, -70000 };
	static const uint8_t flags[] = { TCP_RST,
					 TCP_RST | TCP_ACK,
					 TCP_SYN,
					 TCP_SYN | TCP_ACK,
					 TCP_FIN | TCP_ACK,
					 TCP_FIN,
					 TCP_ACK,
					 0,
					 TCP_SYN | TCP_FIN,
					 TCP_SYN | TCP_RST,
					 TCP_PSH };
	struct seg_step *s = add_seg(g, flags[below(g, 11)]);

	/* Flags that contradict each other: one such segment is enough. */
	if (s->flags & TCP_SYN && s->flags & (TCP_FIN | TCP_RST) &&
	    !one_in(g, 20))
		s->flags = TCP_FIN | TCP_ACK;
	s->seq = offs[below(g, 10)];
	if (one_in(g, 2))
		s->ack = offs[below(g, 10)];
	if (one_in(g, 3))
		s->len = some_len(g);
	if (g->has_ts && one_in(g, 6))
		s->is_ts_old = true;
	if (g->has_ts && one_in(g, 6))
		s->has_ts = s->is_ts_old = false;
	if (s->flags & TCP_SYN && one_in(g, 2))
		s->mss = 1460;
	no_early_fin(s);
}

static void call_step(struct gen *g)
{
	switch (below(g, 12)) {
	case 0:
	case 1:
	case 2:
	case 3:
		add(g, STEP_SEND, (int32_t)(some_len(g) * (1 + below(g, 4))));
		break;
	case 4:
	case 5:
	case 6:
		add(g, STEP_RECV, (int32_t)(1 + below(g, 4000)));
		break;
	case 7:
		add(g, STEP_SHUT, (int32_t)below(g, 3));
		break;
	case 8:
		add(g, STEP_CLOSE, 0);
		break;
	case 9:
		add(g, one_in(g, 3) ? STEP_LINGER0 : STEP_NODELAY, 0);
		break;
	case 10:
		add(g, STEP_ERROR, 0);
		break;
	case 11:
		add(g, one_in(g, 2) ? STEP_ACCEPT : STEP_CONNECT, 0);
		break;
	}
}

static void any_step(struct gen *g)
{
	static const int32_t pauses[] = { 50, 50, 300, 500 };
	uint32_t how = below(g, 20);

	if (how < 5)
		data_segment(g);
	else if (how < 9)
		ack_segment(g);
	else if (how < 11)
		odd_segment(g);
	else if (how < 12)
		add_seg(g, TCP_FIN | TCP_ACK);
	else if (how < 18)
		call_step(g);
	else
		add(g, STEP_PAUSE, pauses[below(g, 4)]);
}

void sequence_random(struct sequence *q, uint64_t seed)
{
	struct gen g = { .seed = seed, .q = q };
	uint32_t n = 3 + below(&g, 12);

	*q = (struct sequence){ .seed = seed };
	g.has_ts = one_in(&g, 2);
	g.has_sack = one_in(&g, 2);
	if (!one_in(&g, 8))
		open_connection(&g);
	else if (one_in(&g, 2))
		add(&g, STEP_LISTEN, 0);
	else
		add(&g, STEP_CONNECT, 0);
	for (uint32_t i = 0; i < n; i++)
		any_step(&g);
	add(&g, STEP_PAUSE, 300);
}
