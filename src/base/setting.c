/* SPDX-License-Identifier: MIT */
/* base/setting.c - see base/setting.h */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/libc.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "base/setting.h"

#define QUOTE_MAX 100 /* bytes of a wrong value that a warning repeats */

void setting_warn(const char *fmt, ...)
{
	int saved = errno;
	char text[480], line[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (char *c = text; *c; c++) /* it may go to a terminal */
		if (*c < ' ' || *c > '~')
			*c = '?';
	if (log_level() >= LOG_LEVEL_ERR) {
		log_err("%s", text);
		return;
	}
	int n = snprintf(line, sizeof(line), "osf: %s\n", text);
	if (nocancel_write(STDERR_FILENO, line, (size_t)n) < 0)
		n = 0; /* nobody can be told */
	errno = saved;
}

void setting_wrong(const char *name, const char *want)
{
	const char *value = env_text(name);

	setting_warn("%s is '%.*s', where %s is expected", env_name(name),
		     QUOTE_MAX, value ? value : "", want);
}

static bool is_one_of(const char *s, const char *const *words)
{
	while (*words && strcmp(s, *words))
		words++;
	return *words;
}

bool setting_bool(const char *name, bool unset, bool wrong)
{
	static const char *const on[] = { "1", "yes", "true", "on", NULL };
	static const char *const off[] = { "0", "no", "false", "off", NULL };
	const char *s = env_text(name);

	if (!s)
		return unset;
	if (is_one_of(s, on))
		return true;
	if (is_one_of(s, off))
		return false;
	setting_wrong(name, "0 or 1");
	return wrong;
}

bool setting_parse(const char *text, uint64_t *number)
{
	static const char units[] = "kmg";
	unsigned shift = 0;
	char *end;

	if (*text < '0' || *text > '9')
		return false; /* strtoull() takes blanks and signs */
	errno = 0;
	uint64_t n = strtoull(text, &end, 0);
	if (errno)
		return false;
	const char *unit = *end ? strchr(units, *end | 0x20) : NULL;
	if (unit) {
		shift = 10 * (unsigned)(unit - units + 1);
		end++;
	}
	if ((*end | 0x20) == 'b')
		end++;
	if (*end || n > UINT64_MAX >> shift)
		return false;
	*number = n << shift;
	return true;
}

uint64_t setting_number(const char *name, uint64_t otherwise, uint64_t least,
			uint64_t most)
{
	const char *s = env_text(name);
	int saved = errno;
	uint64_t n = 0;
	char want[80];

	if (!s)
		return otherwise;
	bool is_number = setting_parse(s, &n);
	errno = saved;
	if (is_number && n >= least && n <= most)
		return n;
	snprintf(want, sizeof(want), "a number from %" PRIu64 " to %" PRIu64,
		 least, most);
	setting_wrong(name, want);
	return otherwise;
}
