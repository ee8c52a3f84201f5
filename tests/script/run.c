/* SPDX-License-Identifier: MIT */
/*
 * tests/script/run.c - plays a script to a back end, event after event
 *
 * A relative time counts from when the event before it happened, so a delay of the
 * machine does not add up.  Each packet that comes out must be an expected one: in
 * order, on time, on its flow, with correct checksums and the pattern's bytes.
 */
#include <errno.h>

#include "base/clock.h"
#include "run.h"

#define TIMER_WHEEL 8 /* Linux's timers are late by an eighth at most */

static void say(struct run *r, const struct event *e, const char *what)
{
	fprintf(r->opt->out, "%s:%u: (%s, %s) %s\n  %s\n", r->script->path,
		e ? e->line : 0, r->b->name, r->opt->is_v6 ? "IPv6" : "IPv4",
		what, e ? e->text : "at the end");
}

/* --- flows --- */

static struct flow_map *flow_new(struct run *r, uint16_t lport, uint16_t rport)
{
	struct flow_map *f = &r->flows[r->n_flows % FLOWS];

	r->n_flows++;
	*f = (struct flow_map){ .lport = lport, .rport = rport };
	return f;
}

/* The flow of a packet that the script sends; a new port makes a flow. */
static struct flow_map *flow_of_script(struct run *r, const struct packet *p)
{
	if (!p->rport)
		return &r->flows[r->first];
	for (uint32_t i = 0; i < MIN(r->n_flows, (uint32_t)FLOWS); i++) {
		struct flow_map *f = &r->flows[i];

		if (f->rport == p->rport &&
		    (!p->lport || !f->lport || f->lport == p->lport))
			return f;
	}
	return flow_new(r, p->lport ? p->lport : DEFAULT_PORT, p->rport);
}

static struct flow_map *flow_of_wire(struct run *r, const struct packet *p)
{
	for (uint32_t i = 0; i < MIN(r->n_flows, (uint32_t)FLOWS); i++) {
		struct flow_map *f = &r->flows[i];

		if (f->rport == p->rport && (!f->lport || f->lport == p->lport))
			return f;
	}
	return NULL;
}

bool run_is_other_flow(const struct run *r, const struct packet *got)
{
	return r->flows[r->first].rport != got->rport;
}

void run_note_connect(struct run *r)
{
	bool is_first = true;

	for (uint32_t i = 0; i < MIN(r->n_flows, (uint32_t)FLOWS); i++)
		is_first = is_first && !r->flows[i].has_isn &&
			   !r->flows[i].has_peer_isn;
	if (is_first)
		r->first = r->n_flows;
	flow_new(r, 0, r->sockets.called);
	r->sockets.called = 0;
}

/* --- packets that come out --- */

static const struct tcp_option *find_option(const struct packet *p,
					    uint8_t kind)
{
	for (uint32_t i = 0; i < p->n_options; i++)
		if (p->options[i].kind == kind)
			return &p->options[i];
	return NULL;
}

/* Learns a flow's first numbers from its first segments. */
static void flow_learn(struct flow_map *f, const struct packet *want,
		       const struct packet *got)
{
	const struct tcp_option *has = find_option(got, OPT_TS);
	const struct tcp_option *ts = find_option(want, OPT_TS);

	f->lport = got->lport;
	if (got->flags & TCP_SYN && (!f->has_isn || want->has_new_isn)) {
		f->isn = got->seq - want->seq;
		f->has_isn = true;
	}
	if (has && (!f->has_ts_base || want->has_new_isn)) {
		f->ts_base =
		    has->v[0] - (ts && !(ts->any & TS_ANY) ? ts->v[0] : 0);
		f->has_ts_base = true;
	}
}

static bool option_matches(const struct tcp_option *want,
			   const struct tcp_option *got, uint32_t tolerance_ms)
{
	if (want->kind != got->kind || want->len != got->len)
		return false;
	if (want->any == UINT8_MAX)
		return true;
	for (unsigned i = 0; i < want->n; i++) {
		uint32_t off = got->v[i] - want->v[i];

		if (want->kind == OPT_TS && want->any & (i ? ECR_ANY : TS_ANY))
			continue;
		if (want->kind == OPT_TS && !i) {
			if (off + tolerance_ms > 2 * tolerance_ms)
				return false;
		} else if (off) {
			return false;
		}
	}
	return true;
}

/* How late an event with this delay may be. */
static uint64_t lateness(const struct run *r, uint64_t after_ns)
{
	return r->opt->tolerance_ns +
	       (r->opt->is_real_time ? after_ns / TIMER_WHEEL : 0);
}

static const char *compare(const struct run *r, const struct packet *want,
			   const struct packet *got)
{
	uint32_t ms =
	    (uint32_t)(lateness(r, r->b->ops->now(r->b->self)) / NS_PER_MS) + 1;

	/* The sender chooses where to set PSH before the end of a write. */
	if (!want->has_any_flags && want->flags != got->flags &&
	    (want->flags | TCP_PSH) != got->flags)
		return "the flags differ";
	if (want->seq != got->seq || want->len != got->len)
		return "the numbers differ";
	if (got->flags & TCP_ACK && want->ack != got->ack)
		return "the ACK differs";
	if (want->win >= 0 && want->win != got->win)
		return "the window differs";
	if (want->urg >= 0 && want->urg != got->urg)
		return "the urgent pointer differs";
	if (want->ecn != got->ecn)
		return "the ECN bits differ";
	if (want->has_any_options)
		return NULL;
	if (want->n_options != got->n_options)
		return "the options differ";
	for (uint32_t i = 0; i < want->n_options; i++)
		if (!option_matches(&want->options[i], &got->options[i], ms))
			return "the options differ";
	return NULL;
}

static void print_time(FILE *out, uint64_t ns)
{
	fprintf(out, "%.6f", (double)ns / 1e9);
}

static void show(struct run *r, const struct packet *want,
		 const struct packet *got, uint64_t at_ns)
{
	FILE *out = r->opt->out;

	if (want) {
		fprintf(out, "  expected: ");
		packet_print(out, want);
		fputc('\n', out);
	}
	fprintf(out, "  seen:     ");
	packet_print(out, got);
	fprintf(out, "  at ");
	print_time(out, at_ns);
	fputc('\n', out);
}

int run_next_packet(struct run *r, const struct event *e,
		    const struct packet *want, uint64_t until_ns,
		    struct packet *got, uint64_t *at_ns)
{
	static uint8_t bytes[BACKEND_PACKET_MAX];
	ssize_t n = r->b->ops->receive(r->b->self, bytes, sizeof(bytes),
				       until_ns, at_ns);

	if (n <= 0)
		return (int)n;
	if (!packet_decode(bytes, (uint32_t)n, got)) {
		say(r, e, "a packet is no TCP, or broken");
		return -1;
	}
	struct flow_map *f = flow_of_wire(r, got);
	if (!f || (e && want && f != flow_of_script(r, want))) {
		say(r, e, "a packet came that is of another flow");
		show(r, want, got, *at_ns);
		return -1;
	}
	if (want)
		flow_learn(f, want, got);
	packet_to_script(got, f);
	if (got->has_bad_sum) {
		say(r, e, "a checksum is wrong");
		show(r, want, got, *at_ns);
		return -1;
	}
	if (!packet_has_pattern(bytes, got)) {
		say(r, e, "the payload is not what was written");
		show(r, want, got, *at_ns);
		return -1;
	}
	return 1;
}

static void event_times(const struct run *r, const struct event *e,
			uint64_t *from, uint64_t *to)
{
	uint64_t base = e->is_relative ? r->last_ns : 0;

	*from = base + e->from_ns;
	*to = e->is_any_time ? base + 100 * NS_PER_S : base + e->to_ns;
}

static bool play_none(struct run *r, const struct event *e)
{
	struct packet got;
	uint64_t from, to, at;

	event_times(r, e, &from, &to);
	int n = run_next_packet(r, e, NULL, to, &got, &at);
	if (n > 0) {
		say(r, e, "a packet came where none should");
		show(r, NULL, &got, at);
	}
	r->last_ns = to;
	return !n;
}

static bool play_expected(struct run *r, const struct event *e)
{
	uint64_t from, to, at, slack = r->opt->tolerance_ns, late;
	struct packet got;

	if (e->packet->is_none)
		return play_none(r, e);
	event_times(r, e, &from, &to);
	late = to + lateness(r, to > r->last_ns ? to - r->last_ns : 0);
	int n = run_next_packet(r, e, e->packet, late, &got, &at);
	if (!n)
		say(r, e, "no packet came");
	if (n <= 0)
		return false;
	const char *why = compare(r, e->packet, &got);
	if (!why && !e->is_any_time && (at + slack < from || at > late))
		why = "the time is wrong";
	if (why) {
		say(r, e, why);
		show(r, e->packet, &got, at);
		fprintf(r->opt->out, "  to be at: ");
		print_time(r->opt->out, from);
		fputc('\n', r->opt->out);
		return false;
	}
	r->last_ns = at;
	return true;
}

/* --- what the script does --- */

bool run_inject(struct run *r, const struct event *e)
{
	static uint8_t bytes[BACKEND_PACKET_MAX + 256];
	struct flow_map *f = flow_of_script(r, e->packet);
	uint32_t len = packet_build(e->packet, f, r->opt->is_v6, bytes);
	int err = r->b->ops->inject(r->b->self, bytes, len);

	if (err) {
		say(r, e, "the back end did not take the packet");
		fprintf(r->opt->out, "  %s\n", strerror(-err));
	}
	return !err;
}

static bool play_call(struct run *r, const struct event *e)
{
	char why[256];
	bool is_good = call_play(&r->sockets, &e->call, why);

	if (r->sockets.called)
		run_note_connect(r);
	if (!is_good) {
		say(r, e, "the call's result differs");
		fprintf(r->opt->out, "  %s\n", why);
	}
	return is_good;
}

static bool play_event(struct run *r, const struct event *e)
{
	uint64_t from, to;
	bool is_good;

	if (r->opt->is_loud && !r->opt->records)
		fprintf(r->opt->out, "%.6f %s:%u: %s\n",
			(double)r->b->ops->now(r->b->self) / 1e9,
			r->script->path, e->line, e->text);
	if (!e->is_call && e->packet->is_out)
		return play_expected(r, e);
	event_times(r, e, &from, &to);
	r->b->ops->wait_until(r->b->self, from);
	is_good = e->is_call ? play_call(r, e) : run_inject(r, e);
	r->last_ns = r->b->ops->now(r->b->self);
	return is_good;
}

/* No packet may be left that the script does not expect. */
static bool play_end(struct run *r)
{
	struct packet got;
	uint64_t at;
	int n = run_next_packet(r, NULL, NULL, r->last_ns, &got, &at);

	if (n > 0) {
		say(r, NULL, "a packet came that was not expected");
		show(r, NULL, &got, at);
	}
	return !n;
}

bool script_run(const struct script *s, const struct backend *b,
		const struct run_options *opt)
{
	static struct run r;

	r = (struct run){ .script = s,
			  .b = b,
			  .opt = opt,
			  .sockets = { .b = b, .is_v6 = opt->is_v6 } };
	for (unsigned i = 0; i < 256; i++)
		r.sockets.fds[i] = -1;
	flow_new(&r, DEFAULT_PORT, DEFAULT_PEER);
	r.last_ns = b->ops->now(b->self);
	if (opt->records)
		return script_record(&r);
	for (uint32_t i = 0; i < s->n_events; i++)
		if (!play_event(&r, &s->events[i]))
			return false;
	return play_end(&r);
}
