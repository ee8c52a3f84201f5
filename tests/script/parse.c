/* SPDX-License-Identifier: MIT */
/*
 * tests/script/parse.c - parses a script's lines: settings, times, calls; see docs/scripts.md
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "script.h"

void fail(struct cursor *c, const char *why)
{
	if (!c->error)
		c->error = why;
}

void skip_blanks(struct cursor *c)
{
	while (*c->at == ' ' || *c->at == '\t')
		c->at++;
}

static bool is_word(char ch) { return isalnum((unsigned char)ch) || ch == '_'; }

bool take(struct cursor *c, const char *word)
{
	size_t n = strlen(word);

	skip_blanks(c);
	if (strncmp(c->at, word, n) ||
	    (is_word(word[n - 1]) && is_word(c->at[n])))
		return false;
	c->at += n;
	return true;
}

int64_t take_number(struct cursor *c)
{
	char *end;

	skip_blanks(c);
	int64_t v = strtoll(c->at, &end, 0);
	if (end == c->at)
		fail(c, "a number is missing");
	c->at = end;
	return v;
}

static void take_word(struct cursor *c, char *out, size_t cap)
{
	size_t n = 0;

	skip_blanks(c);
	while (is_word(c->at[n]))
		n++;
	if (!n || n >= cap)
		fail(c, "a name is missing, or is too long");
	n = n < cap ? n : cap - 1;
	memcpy(out, c->at, n);
	out[n] = 0;
	c->at += n;
}

/* Numbers and names, joined by |. */
static int64_t take_flags(struct cursor *c)
{
	char name[32];
	int64_t sum = 0, v;

	do {
		skip_blanks(c);
		if (isdigit((unsigned char)*c->at) || *c->at == '-') {
			sum |= take_number(c);
			continue;
		}
		take_word(c, name, sizeof(name));
		if (!c->error && !name_value(name, &v))
			fail(c, "no such name is known");
		sum |= c->error ? 0 : v;
	} while (!c->error && take(c, "|"));
	return sum;
}

/* --- times --- */

static uint64_t take_seconds(struct cursor *c)
{
	char *end;
	double s = strtod(c->at, &end);

	if (end == c->at || s < 0)
		fail(c, "a time is missing");
	c->at = end;
	return (uint64_t)(s * 1e9 + 0.5);
}

/* 1.5, +0.1, +0.1~+0.2, *; none: at once. */
static void parse_time(struct cursor *c, struct event *e)
{
	skip_blanks(c);
	e->is_relative = true;
	if (take(c, "*")) {
		e->is_any_time = true;
		return;
	}
	if (!isdigit((unsigned char)*c->at) && *c->at != '+')
		return;
	e->is_relative = take(c, "+");
	e->from_ns = e->to_ns = take_seconds(c);
	if (!take(c, "~"))
		return;
	e->is_range = true;
	if (take(c, "+") != e->is_relative)
		fail(c, "both ends of a range are relative, or none");
	e->to_ns = take_seconds(c);
}

/* --- calls --- */

static void parse_string(struct cursor *c, struct arg *a)
{
	const char *end = strchr(c->at, '"');

	a->kind = ARG_STRING;
	if (!end || end - c->at >= (long)sizeof(a->text)) {
		fail(c, "a string has no end, or is too long");
		return;
	}
	memcpy(a->text, c->at, (size_t)(end - c->at));
	c->at = end + 1;
}

static void parse_arg(struct cursor *c, struct arg *a)
{
	if (take(c, "...")) {
		a->kind = ARG_ANY;
	} else if (take(c, "\"")) {
		parse_string(c, a);
	} else if (take(c, "{")) {
		a->kind = ARG_PAIR;
		a->v = take_flags(c);
		if (!take(c, ","))
			fail(c, "a pair is {a, b}");
		a->w = take_flags(c);
		if (!take(c, "}"))
			fail(c, "a pair is {a, b}");
	} else if (take(c, "local:") || take(c, "remote:")) {
		a->kind = ARG_ADDR;
		a->v = take_number(c);
	} else if (!strncmp(c->at, "tcpi_", 5)) {
		a->kind = ARG_STRING;
		take_word(c, a->text, sizeof(a->text));
	} else {
		a->kind = ARG_INT;
		a->v = take_flags(c);
	}
}

static void parse_result(struct cursor *c, struct call *call)
{
	char name[32];

	call->result = RESULT_RANGE;
	if (take(c, "*")) {
		call->result = RESULT_ANY;
	} else if (take(c, ">=")) {
		call->from = take_flags(c);
		call->to = INT64_MAX;
	} else if (take(c, "<=")) {
		call->from = 0;
		call->to = take_flags(c);
	} else if (take(c, "-1")) {
		call->result = RESULT_ERRNO;
		take_word(c, name, sizeof(name));
		call->from = errno_value(name);
		if (!c->error && !call->from)
			fail(c, "no such errno is known");
	} else {
		call->result = RESULT_IS;
		call->from = call->to = take_flags(c);
		if (take(c, "~")) {
			call->result = RESULT_RANGE;
			call->to = take_flags(c);
		}
	}
}

static void parse_call(struct cursor *c, struct call *call)
{
	take_word(c, call->name, sizeof(call->name));
	if (!take(c, "("))
		fail(c, "a call has (");
	while (!c->error && !take(c, ")")) {
		if (call->n_args && !take(c, ",")) {
			fail(c, "a , or ) is missing");
			return;
		}
		if (call->n_args == CALL_ARGS) {
			fail(c, "too many arguments");
			return;
		}
		parse_arg(c, &call->args[call->n_args++]);
	}
	if (!take(c, "="))
		fail(c, "a call's result stands behind =");
	if (!c->error)
		parse_result(c, call);
}

/* --- lines --- */

static void parse_event(struct cursor *c, struct event *e)
{
	parse_time(c, e);
	skip_blanks(c);
	e->is_call = *c->at != '<' && *c->at != '>';
	if (e->is_call) {
		parse_call(c, &e->call);
		if (e->is_any_time || e->is_range)
			fail(c, "a call has one time");
	} else {
		e->packet = calloc(1, sizeof(*e->packet));
		if (!e->packet)
			abort();
		parse_packet(c, e->packet);
		if (!e->packet->is_out && (e->is_any_time || e->is_range))
			fail(c, "a packet that is sent to us has one time");
	}
}

static void parse_setting(struct cursor *c, struct script *s)
{
	const char *value = strchr(c->at, '=');

	skip_blanks(c);
	if (!value || s->n_settings == SCRIPT_SETTINGS) {
		fail(c, "a setting is NAME=VALUE, and there are few");
		return;
	}
	s->settings[s->n_settings++] =
	    (struct backend_setting){ strndup(c->at, (size_t)(value - c->at)),
				      strdup(value + 1) };
	c->at = value + strlen(value);
}

static bool parse_remark(struct cursor *c, const char *name)
{
	if (!take(c, name))
		return false;
	bool has_colon = take(c, ":");
	skip_blanks(c);
	if (!has_colon || !*c->at)
		fail(c, "a remark that leaves something out has a reason");
	return true;
}

static void parse_line(struct cursor *c, struct script *s, uint32_t line,
		       char *text)
{
	if (take(c, "#")) {
		if (parse_remark(c, "kernel-only"))
			s->is_kernel_only = true;
		else if (parse_remark(c, "engine-only"))
			s->is_engine_only = true;
		else if (parse_remark(c, "v4-only"))
			s->is_v4_only = true;
		return;
	}
	skip_blanks(c);
	if (!*c->at)
		return;
	if (take(c, "set")) {
		parse_setting(c, s);
		return;
	}
	if (take(c, "mtu")) {
		s->mtu = (uint32_t)take_number(c);
		return;
	}
	if (s->n_events == SCRIPT_EVENTS) {
		fail(c, "too many events");
		return;
	}
	struct event *e = &s->events[s->n_events++];
	e->line = line;
	e->text = text;
	parse_event(c, e);
	skip_blanks(c);
	if (*c->at && !take(c, "#") && !take(c, "//"))
		fail(c, "more stands there than is understood");
}

static char *file_text(const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t n = 0, cap = 0;

	if (!f)
		return NULL;
	do {
		if (n + 4096 > cap)
			text = realloc(text, cap = cap * 2 + 4096);
		if (!text)
			abort();
		n += fread(text + n, 1, cap - n - 1, f);
	} while (!feof(f) && !ferror(f));
	text[n] = 0;
	fclose(f);
	return text;
}

static bool parse_all(struct script *s, FILE *out)
{
	char *next = s->source;

	for (uint32_t line = 1; next; line++) {
		char *text = next, *end = strchr(next, '\n');

		next = end ? end + 1 : NULL;
		if (end)
			*end = 0;
		struct cursor c = { .at = text };
		if (s->n_lines == SCRIPT_LINES) {
			fprintf(out, "%s: too many lines\n", s->path);
			return false;
		}
		s->lines[s->n_lines++] = text;
		parse_line(&c, s, line, text);
		if (c.error) {
			fprintf(out, "%s:%u: %s\n  %s\n  %*s^\n", s->path, line,
				c.error, text, (int)(c.at - text), "");
			return false;
		}
	}
	return true;
}

struct script *script_read(const char *path, FILE *out)
{
	struct script *s = calloc(1, sizeof(*s));

	if (!s)
		abort();
	s->path = path;
	s->mtu = 1500;
	s->source = file_text(path);
	if (!s->source)
		fprintf(out, "%s: %s\n", path, strerror(errno));
	if (!s->source || !parse_all(s, out)) {
		script_free(s);
		return NULL;
	}
	return s;
}

void script_free(struct script *s)
{
	for (uint32_t i = 0; i < s->n_events; i++)
		free(s->events[i].packet);
	for (uint32_t i = 0; i < s->n_settings; i++) {
		free((char *)s->settings[i].name);
		free((char *)s->settings[i].value);
	}
	free(s->source);
	free(s);
}
