/* SPDX-License-Identifier: MIT */
/* base/env.c - see base/env.h */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/env.h"
#include "base/log.h"

/* The power of 1024 that a suffix stands for; -1: it is none. */
static int magnitude(const char *suffix)
{
	static const char letters[] = "bkmg";
	const char *at = *suffix ? strchr(letters, tolower(*suffix)) : letters;

	if (!at || (suffix[0] && suffix[1] && strcasecmp(suffix + 1, "b")))
		return -1;
	return (int)(at - letters);
}

uint64_t env_number(const char *name, uint64_t otherwise)
{
	const char *s = getenv(name);
	char *end;

	if (!s || !*s)
		return otherwise;
	uint64_t n = strtoull(s, &end, 0);
	int power = magnitude(end);
	if (power < 0 || end == s) {
		log_warn("%s is '%s', want a number", name, s);
		return otherwise;
	}
	return n << (10 * power);
}
