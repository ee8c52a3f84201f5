/* SPDX-License-Identifier: MIT */
/*
 * tests/differential/play.c - plays sequences to the engine, and many at once to Linux
 *
 * The engine goes first, because its time is a variable, and decides how long pauses
 * are.  A pause lasts until nothing was sent for QUIET_NS before and after its end.  In
 * real time a timer that fires near the end could fall on either side of it.
 *
 * Linux has answered a segment or a call when the system call returns, so steps without
 * a pause between them are played at once.  While one sequence pauses, others are
 * played: hundreds of connections over one TUN.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "differential.h"

#define QUIET_NS (45 * NS_PER_MS)
#define PAUSE_MAX_NS (4 * NS_PER_S)
#define LATE_NS (8 * NS_PER_MS)

static uint8_t packet[BACKEND_PACKET_MAX];

/* Takes packets until @until_ns.  Return: when the last one was sent, or 0 */
static uint64_t take_until(struct run *r, uint64_t until_ns)
{
	uint64_t at, last = 0;
	ssize_t n;

	while ((n = r->b->ops->receive(r->b->self, packet, sizeof(packet),
				       until_ns, &at)) > 0) {
		run_packet(r, packet, (uint32_t)n, at);
		last = at;
	}
	return last;
}

static void pause_engine(struct run *r, struct step *s)
{
	uint64_t from = r->b->ops->now(r->b->self);
	uint64_t until = from + (uint64_t)s->arg * NS_PER_MS;

	for (;;) {
		uint64_t last = take_until(r, until);

		if (last + QUIET_NS > until && until - from < PAUSE_MAX_NS) {
			until = last + 2 * QUIET_NS;
			continue;
		}
		if (!take_until(r, until + QUIET_NS) ||
		    until - from >= PAUSE_MAX_NS)
			break;
		until += 2 * QUIET_NS;
	}
	s->took_ms =
	    (uint32_t)((r->b->ops->now(r->b->self) - from) / NS_PER_MS);
}

void play_engine(struct run *r, struct sequence *q)
{
	const struct backend_setting scheme = { "tcp_congestion_control",
						run_way.scheme };
	const struct backend_config cfg = { .mtu = 1500,
					    .settings = &scheme,
					    .n_settings = 1 };
	struct backend b;
	int err = backend_engine(&b, &cfg);

	assert(!err);
	run_begin(r, &b, q, (uint32_t)q->seed);
	while (r->at < q->n) {
		struct step *s = &q->steps[r->at];

		run_do(r);
		if (s->kind == STEP_PAUSE)
			pause_engine(r, s);
		else
			take_until(r, b.ops->now(b.self));
		run_said(r);
	}
	run_end(r);
	b.ops->free(b.self);
}

/* --- many at once --- */

/* The run that a packet belongs to, by the peer's port. */
static struct run *by_port[65536];

static void take_all(struct backend *k, uint64_t until_ns)
{
	struct ip_packet ip;
	uint64_t at;
	ssize_t n;

	while ((n = k->ops->receive(k->self, packet, sizeof(packet), until_ns,
				    &at)) > 0) {
		if (ip_parse(packet, (uint32_t)n, &ip) || ip.l4_len < TCP_HEAD)
			continue;
		struct run *r = by_port[load_be16(packet + ip.l4_off + 2)];
		if (r)
			run_packet(r, packet, (uint32_t)n, at);
	}
}

/* Plays until the next pause or the end.  Return: whether there is more */
static bool run_on(struct backend *k, struct run *r)
{
	uint64_t now = k->ops->now(k->self);

	r->is_late |= now > r->next_ns + LATE_NS;
	if (r->at && r->q->steps[r->at].kind == STEP_PAUSE)
		run_said(r);
	while (r->at < r->q->n) {
		const struct step *s = &r->q->steps[r->at];

		run_do(r);
		take_all(k, 0);
		if (s->kind == STEP_PAUSE) {
			r->next_ns =
			    k->ops->now(k->self) + s->took_ms * NS_PER_MS;
			return true;
		}
		run_said(r);
	}
	return false;
}

static struct run *earliest(struct run *runs, uint32_t n)
{
	struct run *first = NULL;

	for (uint32_t i = 0; i < n; i++)
		if (by_port[runs[i].rport] == &runs[i] &&
		    (!first || runs[i].next_ns < first->next_ns))
			first = &runs[i];
	return first;
}

/* The runs have begun, and each has a port of its own. */
void play_kernel(struct backend *k, struct run *runs, uint32_t n)
{
	struct run *r;

	for (uint32_t i = 0; i < n; i++)
		by_port[runs[i].rport] = &runs[i];
	while ((r = earliest(runs, n))) {
		take_all(k, r->next_ns);
		if (run_on(k, r))
			continue;
		by_port[r->rport] = NULL;
		run_end(r);
		take_all(k, 0);
	}
}
