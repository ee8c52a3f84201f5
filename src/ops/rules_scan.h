/* SPDX-License-Identifier: MIT */
/*
 * ops/rules_scan.h - the bytes and words of a rule file
 *
 *     text -> scan_word(), scan_number(), ... -> rules_parse.c, rules_tuple.c
 *
 * There is no token list between text and parser: what a byte means depends on
 * where it stands, "[a-c]*" being a program in one place and the start of an
 * address in another.
 *
 * The text is input: never trusted, never written, never read past its end.
 *
 * On return of every function that scans or parses:
 *   I1  at is within text and end, and on line: only the end of a statement
 *       goes on to the next
 *   I2  0 or true, and the bytes the function is named for are taken; or -EINVAL
 *       and err says what was expected where; or -ENOMEM
 *
 * Bytes that can stand nowhere (NUL, other controls, non-ASCII) need no check
 * of their own: no function takes them, so some function reports them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/rules_set.h"

/* The text, and how far it is read. */
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

static inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Where a statement can end. */
bool scan_is_stop(const char *at, const char *end);
void scan_blanks(struct parser *ps);
struct span scan_peek(struct parser *ps);
struct span scan_word(struct parser *ps);
/* The longest run of bytes that are all in @set. */
struct span scan_run(struct parser *ps, const char *set);
bool scan_byte(struct parser *ps, char c);
bool span_is(struct span s, const char *word);
/* @dst has room for @size bytes; false when the word and its NUL have not. */
bool span_copy(struct span s, char *dst, size_t size);
int scan_fail_found(struct parser *ps, const char *at, const char *expected,
		    const char *found);
int scan_fail(struct parser *ps, struct span found, const char *expected);
int scan_fail_here(struct parser *ps, const char *expected);
/* A decimal number.  One that is too large counts as the largest, which is
 * above @max or allowed. */
int scan_number(struct parser *ps, const char *expected, uint32_t max,
		uint32_t *out);

/* rules_tuple.c: one side of a tuple, ADDR ":" PORTS. */
int rules_parse_side(struct parser *ps, struct rule_addr *ra);
