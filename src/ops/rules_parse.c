/* SPDX-License-Identifier: MIT */
/*
 * ops/rules_parse.c - from the text of a rule file to a rule set
 *
 *     text -> rules_parse() -> a set of its own -> rule_set_join()
 *
 * One function per line of the grammar in rules.h, top down: parse_text(),
 * parse_statement(), parse_use() and so on.  What holds on return stands in
 * rules_scan.h.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ops/rules_scan.h"

/* Bounds what a hostile text costs to some 10 MB; real ones have 1 kB. */
#define TEXT_MAX (256 * 1024)

static const char *const role_names[ROLES] = {
	[ROLE_TCP_SERVER] = "tcp_server",
	[ROLE_TCP_CLIENT] = "tcp_client",
	[ROLE_UDP_SENDER] = "udp_sender",
	[ROLE_UDP_RECEIVER] = "udp_receiver",
	[ROLE_UDP_CONNECT] = "udp_connect",
};

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
	struct span program = scan_word(ps);
	struct rule_instance *ri;

	int err = open_instance(ps);
	if (err)
		return err;
	ri = ps->instance;
	if (!program.len ||
	    !span_copy(program, ri->program, sizeof(ri->program)))
		return scan_fail(ps, program,
				 "a program name or pattern of 1 to 254 bytes");

	struct span id = scan_word(ps);
	if (!id.len || !span_copy(id, ri->id, sizeof(ri->id)) ||
	    (id.len > 1 && memchr(id.at, '*', id.len)))
		return scan_fail(
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
	struct span word = scan_word(ps);

	if (span_is(word, "*") || span_is(word, "vma") ||
	    span_is(word, "xlio")) {
		strcpy(provider, "osf");
		return 0;
	}
	if (!word.len || !span_copy(word, provider, RULE_PROVIDER_MAX) ||
	    strspn(provider, allowed) != word.len ||
	    (ps->knows && !is_built_in(provider) && !ps->knows(provider)))
		return scan_fail(ps, word, want);
	return 0;
}

static int parse_role(struct parser *ps, enum rule_role *role)
{
	struct span word = scan_word(ps);

	for (unsigned i = 0; i < ROLES; i++)
		if (span_is(word, role_names[i])) {
			*role = (enum rule_role)i;
			return 0;
		}
	return scan_fail(
	    ps, word,
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
	    (err = rules_parse_side(ps, &rule.first)))
		return err;
	if (scan_byte(ps, ':') && (err = rules_parse_side(ps, &rule.second)))
		return err;
	if (!ps->instance && (err = open_implicit(ps)))
		return err;
	return rule_instance_add(ps->instance, role, &rule);
}

/* 'stderr' | 'syslog' | 'file' NAME: checked, and not kept */
static int parse_log_destination(struct parser *ps)
{
	struct span word = scan_word(ps);

	if (span_is(word, "stderr") || span_is(word, "ystderr") ||
	    span_is(word, "syslog"))
		return 0;
	if (!span_is(word, "file") && !span_is(word, "yfile"))
		return scan_fail(ps, word,
				 "stderr, syslog or file and a file name");

	struct span name = scan_word(ps);
	if (!name.len || name.len >= PATH_MAX)
		return scan_fail(ps, name, "a file name of 1 to 4095 bytes");
	return 0;
}

/* 'log' LOGOPT { LOGOPT } */
static int parse_log(struct parser *ps)
{
	do {
		struct span word = scan_word(ps);
		uint32_t level;
		int err;

		if (span_is(word, "destination")) {
			err = parse_log_destination(ps);
		} else if (span_is(word, "min-level")) {
			err = scan_number(ps, "a level, a number from 0",
					  INT_MAX, &level);
			if (!err)
				ps->set->log_level = (int)level;
		} else {
			err = scan_fail(ps, word, "min-level or destination");
		}
		if (err)
			return err;
	} while (scan_peek(ps).len);
	return 0;
}

static int parse_statement(struct parser *ps)
{
	struct span word = scan_word(ps);

	if (span_is(word, "use"))
		return parse_use(ps);
	if (span_is(word, "application-id"))
		return parse_application_id(ps);
	if (span_is(word, "log"))
		return parse_log(ps);
	return scan_fail(ps, word, "a statement (application-id, use or log)");
}

/* Text in any encoding, up to the line's end. */
static int parse_comment(struct parser *ps)
{
	for (; ps->at < ps->end && *ps->at != '\n'; ps->at++)
		if (!*ps->at)
			return scan_fail(ps, (struct span){ .at = ps->at },
					 "a comment without NUL bytes");
	return 0;
}

/* NEWLINE, ';' or the text's end, and the comment before it. */
static int parse_stop(struct parser *ps)
{
	scan_blanks(ps);
	if (!scan_is_stop(ps->at, ps->end))
		return scan_fail_here(ps, "the end of the statement");

	if (scan_byte(ps, '#')) {
		int err = parse_comment(ps);
		if (err)
			return err;
	}
	if (scan_byte(ps, ';'))
		return 0;
	scan_byte(ps, '\r');
	if (scan_byte(ps, '\n')) {
		ps->line++;
		ps->line_start = ps->at;
	}
	return 0;
}

static int parse_text(struct parser *ps)
{
	while (ps->at < ps->end) {
		int err = 0;

		scan_blanks(ps);
		if (!scan_is_stop(ps->at, ps->end))
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
		return scan_fail_found(ps, ps->at, "a text of at most 256 KiB",
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
