/* SPDX-License-Identifier: MIT */
/*
 * tests/script/parse_packet.c - a packet's line; see docs/scripts.md
 *
 *     < [:PORT[/OURS]] [tags] FLAGS SEQ:END(LEN) [ack N] [win N] [urg N] [<options>]
 *     < [:PORT[/OURS]] icmp KIND [mtu N] [seq N]
 *     > none
 */
#include "base/compiler.h"
#include "icmp_names.h"
#include "script.h"

static const struct {
	const char *name;
	uint8_t ecn;
} ecn_tags[] = {
	{ "[noecn]", 0 }, { "[ect1]", 1 }, { "[ect0]", 2 }, { "[ce]", 3 }
};

static void parse_tags(struct cursor *c, struct packet *p)
{
	for (unsigned i = 0; i < ARRAY_LEN(ecn_tags); i++)
		if (take(c, ecn_tags[i].name))
			p->ecn = ecn_tags[i].ecn;
	if (take(c, "[badsum]"))
		p->has_bad_sum = true;
	if (take(c, "[isn]"))
		p->has_new_isn = true;
}

static void parse_flags(struct cursor *c, struct packet *p)
{
	static const char letters[] = "FSRP.UEW";
	const char *start, *at;

	skip_blanks(c);
	start = c->at;
	if (take(c, "-"))
		return;
	if (take(c, "*")) {
		p->has_any_flags = true;
		return;
	}
	while (*c->at && (at = strchr(letters, *c->at))) {
		p->flags |= (uint8_t)(1 << (at - letters));
		c->at++;
	}
	if (c->at == start)
		fail(c, "flags are FSRP.UEW, or - for none");
}

/* --- options --- */

static void parse_ts(struct cursor *c, struct tcp_option *o)
{
	o->kind = OPT_TS;
	o->len = 10;
	o->n = 2;
	if (!take(c, "val"))
		fail(c, "TS is TS val N ecr N");
	if (take(c, "*"))
		o->any |= TS_ANY;
	else
		o->v[0] = (uint32_t)take_number(c);
	if (!take(c, "ecr"))
		fail(c, "TS is TS val N ecr N");
	if (take(c, "*"))
		o->any |= ECR_ANY;
	else
		o->v[1] = (uint32_t)take_number(c);
}

static void parse_sack(struct cursor *c, struct tcp_option *o)
{
	o->kind = OPT_SACK;
	skip_blanks(c);
	while (!c->error && *c->at != ',' && *c->at != '>') {
		if (o->n == 8) {
			fail(c, "there is room for four blocks");
			return;
		}
		o->v[o->n++] = (uint32_t)take_number(c);
		if (!take(c, ":"))
			fail(c, "a block is FROM:TO");
		o->v[o->n++] = (uint32_t)take_number(c);
		skip_blanks(c);
	}
	o->len = (uint8_t)(2 + 4 * o->n);
}

static void parse_number_option(struct cursor *c, struct tcp_option *o,
				int kind, int len)
{
	*o = (struct tcp_option){ .kind = (uint8_t)kind,
				  .len = (uint8_t)len,
				  .n = 1,
				  .v = { (uint32_t)take_number(c) } };
}

/* opt KIND LEN N: a kind, a length that need not be right, and N bytes of 0. */
static void parse_raw(struct cursor *c, struct tcp_option *o)
{
	o->kind = (uint8_t)take_number(c);
	o->len = (uint8_t)take_number(c);
	o->n = (uint8_t)take_number(c);
	o->any = UINT8_MAX;
}

static void parse_option(struct cursor *c, struct tcp_option *o)
{
	if (take(c, "mss"))
		parse_number_option(c, o, OPT_MSS, 4);
	else if (take(c, "wscale"))
		parse_number_option(c, o, OPT_WSCALE, 3);
	else if (take(c, "sackOK"))
		*o = (struct tcp_option){ .kind = OPT_SACK_OK, .len = 2 };
	else if (take(c, "sack"))
		parse_sack(c, o);
	else if (take(c, "TS"))
		parse_ts(c, o);
	else if (take(c, "nop"))
		o->kind = OPT_NOP;
	else if (take(c, "eol"))
		o->kind = OPT_EOL;
	else if (take(c, "opt"))
		parse_raw(c, o);
	else
		fail(c, "no such option is known");
}

static void parse_options(struct cursor *c, struct packet *p)
{
	if (take(c, "...>")) {
		p->has_any_options = true;
		return;
	}
	do {
		if (p->n_options == PACKET_OPTIONS) {
			fail(c, "too many options");
			return;
		}
		parse_option(c, &p->options[p->n_options++]);
	} while (!c->error && take(c, ","));
	if (!take(c, ">"))
		fail(c, "options end with >");
}

/* --- packets --- */

static void parse_numbers(struct cursor *c, struct packet *p)
{
	p->seq = (uint32_t)take_number(c);
	if (!take(c, ":"))
		fail(c, "numbers are SEQ:END(LEN)");
	uint32_t end = (uint32_t)take_number(c);
	if (!take(c, "("))
		fail(c, "numbers are SEQ:END(LEN)");
	p->len = (uint32_t)take_number(c);
	if (!take(c, ")") || (!c->error && end - p->seq != p->len))
		fail(c, "END is SEQ + LEN");
	if (take(c, "ack"))
		p->ack = (uint32_t)take_number(c);
	else if (p->flags & TCP_ACK)
		fail(c, "with the flag . there is ack N");
	if (take(c, "win"))
		p->win = take_number(c);
	if (take(c, "urg"))
		p->urg = take_number(c);
	if (take(c, "<"))
		parse_options(c, p);
}

static void parse_icmp(struct cursor *c, struct packet *p)
{
	p->is_icmp = true;
	for (p->icmp_kind = 0; p->icmp_kind < ARRAY_LEN(icmp_names);
	     p->icmp_kind++)
		if (take(c, icmp_names[p->icmp_kind].name))
			break;
	if (p->icmp_kind == ARRAY_LEN(icmp_names))
		fail(c, "no such ICMP message is known");
	if (take(c, "mtu"))
		p->icmp_mtu = (uint32_t)take_number(c);
	if (take(c, "seq"))
		p->seq = (uint32_t)take_number(c);
	else
		fail(c, "it quotes a segment: seq N");
	if (p->is_out)
		fail(c, "what goes out is TCP");
}

void parse_packet(struct cursor *c, struct packet *p)
{
	p->is_out = take(c, ">");
	p->win = p->urg = -1;
	if (!p->is_out && !take(c, "<"))
		fail(c, "a packet begins with < or >");
	if (p->is_out && take(c, "none")) {
		p->is_none = true;
		return;
	}
	if (take(c, ":")) {
		p->rport = (uint16_t)take_number(c);
		if (take(c, "/"))
			p->lport = (uint16_t)take_number(c);
	}
	parse_tags(c, p);
	if (take(c, "icmp")) {
		parse_icmp(c, p);
		return;
	}
	parse_flags(c, p);
	parse_numbers(c, p);
}
