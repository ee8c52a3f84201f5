/* SPDX-License-Identifier: MIT */
/*
 * tests/script/record.c - plays a script, and writes it with the results of this run
 *
 * It plays calls and packets to us at their times, and writes results and packets from
 * us as they came, with times rounded to 10 ms.  The output is a proposal: compare it
 * with the RFC before you keep it.
 */
#include "base/clock.h"
#include "run.h"

#define RECORD_AFTER_NS (3 * NS_PER_MS)

/* Prints "+0.12 ", or nothing if there was no delay. */
static void print_delta(FILE *out, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t ms = (to_ns - from_ns + 5 * NS_PER_MS) / NS_PER_MS / 10 * 10;

	if (to_ns > from_ns && ms)
		fprintf(out, "+%.2f ", (double)ms / 1e3);
}

/* A PSH that is not at the end of a write has no meaning. */
static bool is_end_of_write(const struct run *r, const struct packet *p)
{
	for (unsigned i = 0; i < 256; i++)
		if (r->sockets.n_sent[i] &&
		    r->sockets.n_sent[i] == p->seq + p->len - 1)
			return true;
	return false;
}

/* Writes all packets that come out before @until_ns. */
static bool record_packets(struct run *r, uint64_t until_ns)
{
	static const struct packet syn = {
		.n_options = 1, .options = { { .kind = OPT_TS, .v = { 100 } } }
	};
	struct packet got;
	uint64_t at;
	int n;

	while ((n = run_next_packet(r, NULL, &syn, until_ns, &got, &at)) > 0) {
		print_delta(r->opt->out, r->last_ns, at);
		if (!(got.flags & TCP_SYN) || got.flags & TCP_RST)
			got.win = -1;
		if (!is_end_of_write(r, &got))
			got.flags &= (uint8_t)~TCP_PSH;
		got.is_tagged = run_is_other_flow(r, &got);
		packet_print(r->opt->out, &got);
		fputc('\n', r->opt->out);
		r->last_ns = at;
	}
	return !n;
}

static void record_call(struct run *r, const struct event *e)
{
	const char *at = strchr(e->text, ')');
	const char *name = strstr(e->text, e->call.name);
	int64_t v;
	char why[256];
	bool is_good = call_play(&r->sockets, &e->call, why);

	if (r->sockets.called)
		run_note_connect(r);
	v = r->sockets.result;
	if (is_good)
		fprintf(r->opt->out, "%s\n", name);
	else if (v < 0)
		fprintf(r->opt->out, "%.*s = -1 %s\n", (int)(at + 1 - name),
			name, name_errno((int)-v));
	else
		fprintf(r->opt->out, "%.*s = %lld\n", (int)(at + 1 - name),
			name, (long long)v);
}

static bool record_event(struct run *r, const struct event *e,
			 uint64_t *input_ns)
{
	uint64_t at = *input_ns + e->from_ns;

	if (!record_packets(r, at))
		return false;
	*input_ns = at;
	if (!e->is_call && e->packet->is_out && !e->packet->is_none)
		return true; /* what really comes is written instead */
	r->b->ops->wait_until(r->b->self, at);
	print_delta(r->opt->out, r->last_ns, at);
	r->last_ns = *input_ns = r->b->ops->now(r->b->self);
	if (e->is_call) {
		record_call(r, e);
	} else {
		fprintf(r->opt->out, "%s\n", strpbrk(e->text, "<>"));
		if (!e->packet->is_out && !run_inject(r, e))
			return false;
	}
	return record_packets(r, r->last_ns + RECORD_AFTER_NS);
}

bool script_record(struct run *r)
{
	const struct script *s = r->script;
	uint64_t input_ns = r->last_ns;
	uint32_t next = 0;

	for (uint32_t i = 0; i < s->n_lines; i++) {
		const struct event *e = &s->events[next];

		if (next < s->n_events && e->line == i + 1) {
			if (!record_event(r, e, &input_ns))
				return false;
			next++;
		} else if (*s->lines[i] || i + 1 < s->n_lines) {
			fprintf(r->opt->out, "%s\n", s->lines[i]);
		}
	}
	return record_packets(r, r->last_ns + RECORD_AFTER_NS);
}
