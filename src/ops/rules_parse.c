/* SPDX-License-Identifier: MIT */
/*
 * ops/rules_parse.c - from the text of a rule file to a rule set
 *
 *     text -> rules_parse() -> a set of its own -> rule_set_join()
 *
 * One function per line of the grammar in rules.h, top down: parse_text(),
 * parse_statement(), parse_use(), parse_addr() and so on.  There is no token
 * list between text and parser: what a byte means depends on where it stands,
 * "[a-c]*" being a program in one place and the start of an address in another.
 *
 * The text is input: never trusted, never written, never read past its end.
 *
 * On return of every parse_ and take_ function:
 *   I1  at is within text and end, and on line: only parse_stop() goes on to
 *       the next
 *   I2  0, and the bytes the function is named for are taken; or -EINVAL and
 *       err says what was expected where; or -ENOMEM
 *
 * Bytes that can stand nowhere (NUL, other controls, non-ASCII) need no check
 * of their own: no function takes them, so some function reports them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/rules_set.h"

/* Bounds what a hostile text costs to some 10 MB; real ones have 1 kB. */
#define TEXT_MAX (256 * 1024)

/* Bytes of the found word that an error quotes; the rest becomes "...". */
#define QUOTE_MAX 32

struct parser {
	const char *at;  /* the next byte */
	const char *end; /* one past the last */
	const char *line_start;
	unsigned line;                  /* from 1 */
	struct rule_set *set;           /* what this text adds */
	struct rule_instance *instance; /* NULL: none opened yet */
	rule_knows *knows;              /* NULL: any provider */
	struct rule_error err;
};

/* A word of the text; at is where it would have been when len is 0. */
struct span {
	const char *at;
	size_t len;
};

static const char *const role_names[ROLES] = {
	[ROLE_TCP_SERVER] = "tcp_server",
	[ROLE_TCP_CLIENT] = "tcp_client",
	[ROLE_UDP_SENDER] = "udp_sender",
	[ROLE_UDP_RECEIVER] = "udp_receiver",
	[ROLE_UDP_CONNECT] = "udp_connect",
};

/* ---- the scanner: bytes, words, what was found instead ---- */

static bool is_word_byte(char c)
{
	return c > ' ' && c < 0x7f && c != ';' && c != '#';
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* A carriage return is a line's end only before a line feed or at the end. */
static bool is_newline(const char *at, const char *end)
{
	if (*at == '\r')
		at++;
	return at == end || *at == '\n';
}

/* Where a statement can end. */
static bool is_stop(const char *at, const char *end)
{
	return at == end || *at == ';' || *at == '#' || is_newline(at, end);
}

static void skip_blanks(struct parser *ps)
{
	while (ps->at < ps->end && (*ps->at == ' ' || *ps->at == '\t'))
		ps->at++;
}

static struct span peek_word(struct parser *ps)
{
	skip_blanks(ps);

	struct span word = { .at = ps->at };
	const char *p = ps->at;

	while (p < ps->end && is_word_byte(*p))
		p++;
	word.len = (size_t)(p - ps->at);
	return word;
}

static struct span take_word(struct parser *ps)
{
	struct span word = peek_word(ps);

	ps->at += word.len;
	return word;
}

/* The longest run of bytes that are all in @set. */
static struct span take_run(struct parser *ps, const char *set)
{
	skip_blanks(ps);

	struct span run = { .at = ps->at };

	while (ps->at < ps->end && *ps->at && strchr(set, *ps->at))
		ps->at++;
	run.len = (size_t)(ps->at - run.at);
	return run;
}

static bool take_byte(struct parser *ps, char c)
{
	skip_blanks(ps);
	if (ps->at == ps->end || *ps->at != c)
		return false;
	ps->at++;
	return true;
}

static bool span_is(struct span s, const char *word)
{
	return s.len == strlen(word) && !memcmp(s.at, word, s.len);
}

/* @dst has room for @size bytes; false when the word and its NUL have not. */
static bool span_copy(struct span s, char *dst, size_t size)
{
	if (s.len >= size)
		return false;
	memcpy(dst, s.at, s.len);
	dst[s.len] = '\0';
	return true;
}

static void describe(const struct parser *ps, struct span s, char *out,
		     size_t size)
{
	if (s.len > QUOTE_MAX)
		snprintf(out, size, "'%.*s...'", QUOTE_MAX, s.at);
	else if (s.len)
		snprintf(out, size, "'%.*s'", (int)s.len, s.at);
	else if (s.at == ps->end)
		snprintf(out, size, "the end of the text");
	else if (is_newline(s.at, ps->end))
		snprintf(out, size, "the end of the line");
	else if (*s.at == ';')
		snprintf(out, size, "';'");
	else if (*s.at == '#')
		snprintf(out, size, "a comment");
	else
		snprintf(out, size, "byte 0x%02x", (unsigned char)*s.at);
}

static int fail_found(struct parser *ps, const char *at, const char *expected,
		      const char *found)
{
	ps->err.line = ps->line;
	ps->err.column = (unsigned)(at - ps->line_start) + 1;
	snprintf(ps->err.text, sizeof(ps->err.text), "expected %s, found %s",
		 expected, found);
	return -EINVAL;
}

static int fail(struct parser *ps, struct span found, const char *expected)
{
	char what[QUOTE_MAX + sizeof("'...'")];

	describe(ps, found, what, sizeof(what));
	return fail_found(ps, found.at, expected, what);
}

static int fail_here(struct parser *ps, const char *expected)
{
	return fail(ps, peek_word(ps), expected);
}

/* A decimal number.  One that is too large counts as the largest, which is
 * above @max or allowed. */
static int take_number(struct parser *ps, const char *expected, uint32_t max,
		       uint32_t *out)
{
	struct span run = take_run(ps, "0123456789");
	uint32_t v = 0;

	if (!run.len)
		return fail_here(ps, expected);
	for (size_t i = 0; i < run.len; i++)
		v = v < UINT32_MAX / 10 ? v * 10 + (uint32_t)(run.at[i] - '0')
					: UINT32_MAX;
	if (v > max)
		return fail(ps, run, expected);
	*out = v;
	return 0;
}

/* ---- TUPLE ---- */

static int parse_port(struct parser *ps, uint16_t low, uint16_t *out)
{
	struct span word = peek_word(ps);
	char expected[sizeof("a port from 65535 to 65535")];
	uint32_t port;

	snprintf(expected, sizeof(expected), "a port from %u to 65535", low);

	int err = take_number(ps, expected, UINT16_MAX, &port);
	if (err)
		return err;
	if (port < low)
		return fail(ps, (struct span){ word.at, ps->at - word.at },
			    expected);
	*out = (uint16_t)port;
	return 0;
}

/* PORTS := '*' | PORT | PORT '-' PORT */
static int parse_ports(struct parser *ps, struct rule_addr *ra)
{
	if (take_byte(ps, '*')) {
		ra->port_low = 0;
		ra->port_high = UINT16_MAX;
		return 0;
	}

	skip_blanks(ps);
	if (ps->at == ps->end || !is_digit(*ps->at))
		return fail_here(ps, "'*' or a port from 0 to 65535");

	int err = parse_port(ps, 0, &ra->port_low);
	if (err)
		return err;
	ra->port_high = ra->port_low;
	if (take_byte(ps, '-'))
		return parse_port(ps, ra->port_low, &ra->port_high);
	return 0;
}

/* [ '/' PLEN ]; without it the whole address, @max bits, counts.  libvma takes
 * an IPv4 length above 32 as 32, and so do we. */
static int parse_plen(struct parser *ps, struct rule_addr *ra, uint32_t max)
{
	uint32_t plen = max;

	if (take_byte(ps, '/')) {
		bool is_v6 = ra->family == AF_INET6;
		int err = take_number(ps,
				      is_v6 ? "a prefix length from 0 to 128"
					    : "a prefix length from 0 to 32",
				      is_v6 ? max : UINT32_MAX, &plen);
		if (err)
			return err;
	}
	ra->plen = (uint8_t)(plen < max ? plen : max);
	return 0;
}

static int parse_ipv4(struct parser *ps, struct rule_addr *ra)
{
	struct span run = take_run(ps, "0123456789.");
	char text[INET_ADDRSTRLEN];

	if (!span_copy(run, text, sizeof(text)) ||
	    inet_pton(AF_INET, text, ra->addr) != 1)
		return fail(ps, run, "'*', an IPv4 address or '['");
	ra->family = AF_INET;
	return parse_plen(ps, ra, 32);
}

/* ::ffff:a.b.c.d of which all of the mapping counts is an IPv4 address. */
static void unmap(struct rule_addr *ra)
{
	static const uint8_t mapping[12] = { [10] = 0xff, [11] = 0xff };

	if (ra->plen < 96 || memcmp(ra->addr, mapping, sizeof(mapping)))
		return;
	ra->family = AF_INET;
	ra->plen -= 96;
	memcpy(ra->addr, ra->addr + 12, 4);
}

/* After '['. */
static int parse_ipv6(struct parser *ps, struct rule_addr *ra)
{
	struct span run = take_run(ps, "0123456789abcdefABCDEF:.");
	char text[INET6_ADDRSTRLEN];

	if (!run.len)
		return fail_here(ps, "an IPv6 address");
	if (!take_byte(ps, ']'))
		return fail_here(ps, "']' after the IPv6 address");
	if (!span_copy(run, text, sizeof(text)) ||
	    inet_pton(AF_INET6, text, ra->addr) != 1)
		return fail(ps, run, "an IPv6 address");
	ra->family = AF_INET6;

	int err = parse_plen(ps, ra, 128);
	if (!err)
		unmap(ra);
	return err;
}

/* ADDR := '*' | IPV4 [ '/' PLEN ] | '[' IPV6 ']' [ '/' PLEN ] */
static int parse_addr(struct parser *ps, struct rule_addr *ra)
{
	*ra = RULE_ADDR_ANY;
	if (take_byte(ps, '*'))
		return 0;
	if (take_byte(ps, '['))
		return parse_ipv6(ps, ra);
	if (ps->at < ps->end && is_digit(*ps->at))
		return parse_ipv4(ps, ra);
	return fail_here(ps, "'*', an IPv4 address or '['");
}

/* ADDR ':' PORTS */
static int parse_side(struct parser *ps, struct rule_addr *ra)
{
	int err = parse_addr(ps, ra);

	if (err)
		return err;
	if (!take_byte(ps, ':'))
		return fail_here(ps, "':' and ports after the address");
	return parse_ports(ps, ra);
}

/* ---- statements ---- */

static int open_instance(struct parser *ps)
{
	struct rule_instance *ri = rule_set_add_instance(ps->set);

	if (!ri)
		return -ENOMEM;
	ps->instance = ri;
	return 0;
}

/* The instance of statements that come before any application-id. */
static int open_implicit(struct parser *ps)
{
	int err = open_instance(ps);

	if (err)
		return err;
	ps->instance->is_implicit = true;
	strcpy(ps->instance->program, "*");
	strcpy(ps->instance->id, "*");
	return 0;
}

/* 'application-id' PROGRAM ID */
static int parse_application_id(struct parser *ps)
{
	struct span program = take_word(ps);
	struct rule_instance *ri;

	int err = open_instance(ps);
	if (err)
		return err;
	ri = ps->instance;
	if (!program.len ||
	    !span_copy(program, ri->program, sizeof(ri->program)))
		return fail(ps, program,
			    "a program name or pattern of 1 to 254 bytes");

	struct span id = take_word(ps);
	if (!id.len || !span_copy(id, ri->id, sizeof(ri->id)) ||
	    (id.len > 1 && memchr(id.at, '*', id.len)))
		return fail(
		    ps, id,
		    "an application id of 1 to 254 bytes, or '*' alone");
	return 0;
}

static bool is_built_in(const char *provider)
{
	static const char *const names[] = { "os",  "inet", "osf", "shm",
					     "tcp", "sdp",  "sa" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(provider, names[i]))
			return true;
	return false;
}

/* All names of the library itself are one provider. */
static int parse_provider(struct parser *ps, char *provider)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
	const char *want = ps->knows
			       ? "a provider (os, inet, osf, vma, xlio, shm, "
				 "tcp, sdp, sa, '*' or a module's name)"
			       : "a provider ('*' or 1 to 15 of a-z 0-9 _ -)";
	struct span word = take_word(ps);

	if (span_is(word, "*") || span_is(word, "vma") ||
	    span_is(word, "xlio")) {
		strcpy(provider, "osf");
		return 0;
	}
	if (!word.len || !span_copy(word, provider, RULE_PROVIDER_MAX) ||
	    strspn(provider, allowed) != word.len ||
	    (ps->knows && !is_built_in(provider) && !ps->knows(provider)))
		return fail(ps, word, want);
	return 0;
}

static int parse_role(struct parser *ps, enum rule_role *role)
{
	struct span word = take_word(ps);

	for (unsigned i = 0; i < ROLES; i++)
		if (span_is(word, role_names[i])) {
			*role = (enum rule_role)i;
			return 0;
		}
	return fail(ps, word,
		    "a role (tcp_server, tcp_client, udp_sender, udp_receiver "
		    "or udp_connect)");
}

/* 'use' PROVIDER ROLE TUPLE */
static int parse_use(struct parser *ps)
{
	struct rule rule = { .second = RULE_ADDR_ANY };
	enum rule_role role = ROLES;
	int err;

	if ((err = parse_provider(ps, rule.provider)) ||
	    (err = parse_role(ps, &role)) ||
	    (err = parse_side(ps, &rule.first)))
		return err;
	if (take_byte(ps, ':') && (err = parse_side(ps, &rule.second)))
		return err;
	if (!ps->instance && (err = open_implicit(ps)))
		return err;
	return rule_instance_add(ps->instance, role, &rule);
}

/* 'stderr' | 'syslog' | 'file' NAME: checked, and not kept */
static int parse_log_destination(struct parser *ps)
{
	struct span word = take_word(ps);

	if (span_is(word, "stderr") || span_is(word, "ystderr") ||
	    span_is(word, "syslog"))
		return 0;
	if (!span_is(word, "file") && !span_is(word, "yfile"))
		return fail(ps, word, "stderr, syslog or file and a file name");

	struct span name = take_word(ps);
	if (!name.len || name.len >= PATH_MAX)
		return fail(ps, name, "a file name of 1 to 4095 bytes");
	return 0;
}

/* 'log' LOGOPT { LOGOPT } */
static int parse_log(struct parser *ps)
{
	do {
		struct span word = take_word(ps);
		uint32_t level;
		int err;

		if (span_is(word, "destination")) {
			err = parse_log_destination(ps);
		} else if (span_is(word, "min-level")) {
			err = take_number(ps, "a level, a number from 0",
					  INT_MAX, &level);
			if (!err)
				ps->set->log_level = (int)level;
		} else {
			err = fail(ps, word, "min-level or destination");
		}
		if (err)
			return err;
	} while (peek_word(ps).len);
	return 0;
}

static int parse_statement(struct parser *ps)
{
	struct span word = take_word(ps);

	if (span_is(word, "use"))
		return parse_use(ps);
	if (span_is(word, "application-id"))
		return parse_application_id(ps);
	if (span_is(word, "log"))
		return parse_log(ps);
	return fail(ps, word, "a statement (application-id, use or log)");
}

/* Text in any encoding, up to the line's end. */
static int parse_comment(struct parser *ps)
{
	for (; ps->at < ps->end && *ps->at != '\n'; ps->at++)
		if (!*ps->at)
			return fail(ps, (struct span){ .at = ps->at },
				    "a comment without NUL bytes");
	return 0;
}

/* NEWLINE, ';' or the text's end, and the comment before it. */
static int parse_stop(struct parser *ps)
{
	skip_blanks(ps);
	if (!is_stop(ps->at, ps->end))
		return fail_here(ps, "the end of the statement");

	if (take_byte(ps, '#')) {
		int err = parse_comment(ps);
		if (err)
			return err;
	}
	if (take_byte(ps, ';'))
		return 0;
	take_byte(ps, '\r');
	if (take_byte(ps, '\n')) {
		ps->line++;
		ps->line_start = ps->at;
	}
	return 0;
}

static int parse_text(struct parser *ps)
{
	while (ps->at < ps->end) {
		int err = 0;

		skip_blanks(ps);
		if (!is_stop(ps->at, ps->end))
			err = parse_statement(ps);
		if (!err)
			err = parse_stop(ps);
		if (err)
			return err;
	}
	return 0;
}

/* All of the text, into a set of its own. */
static int parse_set(struct parser *ps)
{
	if (ps->end - ps->at > TEXT_MAX)
		return fail_found(ps, ps->at, "a text of at most 256 KiB",
				  "a longer one");

	ps->set = rule_set_new();
	return ps->set ? parse_text(ps) : -ENOMEM;
}

int rules_parse(struct rule_set **prs, const char *text, size_t len,
		rule_knows *knows, struct rule_error *err)
{
	if (!len)
		text = "";

	struct parser ps = {
		.at = text,
		.end = text + len,
		.line_start = text,
		.line = 1,
		.knows = knows,
	};
	int rc = parse_set(&ps);

	if (rc) {
		rules_free(ps.set);
		if (err && rc == -EINVAL)
			*err = ps.err;
		return rc;
	}
	if (*prs)
		rule_set_join(*prs, ps.set);
	else
		*prs = ps.set;
	return 0;
}
