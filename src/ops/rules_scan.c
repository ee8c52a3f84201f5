/* SPDX-License-Identifier: MIT */
/* ops/rules_scan.c - see ops/rules_scan.h */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ops/rules_scan.h"

/* Bytes of the found word that an error quotes; the rest becomes "...". */
#define QUOTE_MAX 32

static bool is_word_byte(char c)
{
	return c > ' ' && c < 0x7f && c != ';' && c != '#';
}

/* A carriage return is a line's end only before a line feed or at the end. */
static bool scan_is_newline(const char *at, const char *end)
{
	if (*at == '\r')
		at++;
	return at == end || *at == '\n';
}

bool scan_is_stop(const char *at, const char *end)
{
	return at == end || *at == ';' || *at == '#' ||
	       scan_is_newline(at, end);
}

void scan_blanks(struct parser *ps)
{
	while (ps->at < ps->end && (*ps->at == ' ' || *ps->at == '\t'))
		ps->at++;
}

struct span scan_peek(struct parser *ps)
{
	scan_blanks(ps);

	struct span word = { .at = ps->at };
	const char *p = ps->at;

	while (p < ps->end && is_word_byte(*p))
		p++;
	word.len = (size_t)(p - ps->at);
	return word;
}

struct span scan_word(struct parser *ps)
{
	struct span word = scan_peek(ps);

	ps->at += word.len;
	return word;
}

struct span scan_run(struct parser *ps, const char *set)
{
	scan_blanks(ps);

	struct span run = { .at = ps->at };

	while (ps->at < ps->end && *ps->at && strchr(set, *ps->at))
		ps->at++;
	run.len = (size_t)(ps->at - run.at);
	return run;
}

bool scan_byte(struct parser *ps, char c)
{
	scan_blanks(ps);
	if (ps->at == ps->end || *ps->at != c)
		return false;
	ps->at++;
	return true;
}

bool span_is(struct span s, const char *word)
{
	return s.len == strlen(word) && !memcmp(s.at, word, s.len);
}

bool span_copy(struct span s, char *dst, size_t size)
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
	else if (scan_is_newline(s.at, ps->end))
		snprintf(out, size, "the end of the line");
	else if (*s.at == ';')
		snprintf(out, size, "';'");
	else if (*s.at == '#')
		snprintf(out, size, "a comment");
	else
		snprintf(out, size, "byte 0x%02x", (unsigned char)*s.at);
}

int scan_fail_found(struct parser *ps, const char *at, const char *expected,
		    const char *found)
{
	ps->err.line = ps->line;
	ps->err.column = (unsigned)(at - ps->line_start) + 1;
	snprintf(ps->err.text, sizeof(ps->err.text), "expected %s, found %s",
		 expected, found);
	return -EINVAL;
}

int scan_fail(struct parser *ps, struct span found, const char *expected)
{
	char what[QUOTE_MAX + sizeof("'...'")];

	describe(ps, found, what, sizeof(what));
	return scan_fail_found(ps, found.at, expected, what);
}

int scan_fail_here(struct parser *ps, const char *expected)
{
	return scan_fail(ps, scan_peek(ps), expected);
}

int scan_number(struct parser *ps, const char *expected, uint32_t max,
		uint32_t *out)
{
	struct span run = scan_run(ps, "0123456789");
	uint32_t v = 0;

	if (!run.len)
		return scan_fail_here(ps, expected);
	for (size_t i = 0; i < run.len; i++)
		v = v < UINT32_MAX / 10 ? v * 10 + (uint32_t)(run.at[i] - '0')
					: UINT32_MAX;
	if (v > max)
		return scan_fail(ps, run, expected);
	*out = v;
	return 0;
}
