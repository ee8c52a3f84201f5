/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/units.c - numbers for people, complaints, and memory or the end
 *
 * All functions return by value, so that two of them fit in one printf().  Quantities are
 * decimal: 1.2k is 1200.
 */
#include "osf.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void complain(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *text = xvasprintf(fmt, ap);
	va_end(ap);

	fflush(stdout); /* in a common file, lines stand in their order */
	dprintf(STDERR_FILENO, "osf: %s\n", text);
	free(text);
}

static void *or_die(void *p)
{
	static const char msg[] = "osf: out of memory\n";

	if (!p) {
		(void)!write(STDERR_FILENO, msg, sizeof(msg) - 1);
		_exit(EXIT_FAILURE);
	}
	return p;
}

void *xcalloc(size_t n, size_t size) { return or_die(calloc(n ? n : 1, size)); }

void *xgrow(void *array, size_t n_used, size_t size)
{
	if (n_used & (n_used - 1))
		return array; /* there is room up to the next power of two */
	return or_die(reallocarray(array, n_used ? 2 * n_used : 1, size));
}

char *xstrdup(const char *s) { return or_die(strdup(s)); }

char *xvasprintf(const char *fmt, va_list ap)
{
	char *text = NULL;

	return or_die(vasprintf(&text, fmt, ap) < 0 ? NULL : text);
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *text = xvasprintf(fmt, ap);
	va_end(ap);
	return text;
}

struct unit_text unit_count(uint64_t n)
{
	static const char unit[] = " kMGTPE";
	struct unit_text t;
	double v = (double)n;
	unsigned i = 0;

	for (; v >= 999.5; v /= 1000)
		i++;
	if (i == 0)
		snprintf(t.s, sizeof(t.s), "%" PRIu64, n);
	else
		snprintf(t.s, sizeof(t.s), "%.*f%c", v < 9.95, v, unit[i]);
	return t;
}

struct unit_text unit_bytes(uint64_t bytes) { return unit_count(bytes); }

struct unit_text unit_age(uint64_t age_ns)
{
	uint64_t s = age_ns / 1000000000;
	struct unit_text t;

	if (s < 60)
		snprintf(t.s, sizeof(t.s), "%" PRIu64 "s", s);
	else if (s < 3600)
		snprintf(t.s, sizeof(t.s), "%" PRIu64 "m%02" PRIu64 "s", s / 60,
			 s % 60);
	else if (s < 86400)
		snprintf(t.s, sizeof(t.s), "%" PRIu64 "h%02" PRIu64 "m",
			 s / 3600, s / 60 % 60);
	else
		snprintf(t.s, sizeof(t.s), "%" PRIu64 "d%02" PRIu64 "h",
			 s / 86400, s / 3600 % 24);
	return t;
}

struct unit_text unit_figure(double value)
{
	struct unit_text t;
	int decimals = 3;

	for (double v = value < 0 ? -value : value; v >= 10 && decimals;
	     v /= 10)
		decimals--;
	snprintf(t.s, sizeof(t.s), "%.*f", decimals, value);
	return t;
}

struct unit_text unit_clock(uint64_t wall_ns)
{
	time_t sec = (time_t)(wall_ns / 1000000000);
	struct unit_text t = { "?" };
	struct tm tm;

	if (localtime_r(&sec, &tm))
		strftime(t.s, sizeof(t.s), "%H:%M:%S", &tm);
	return t;
}

struct unit_text unit_rfc3339(uint64_t wall_ns)
{
	time_t sec = (time_t)(wall_ns / 1000000000);
	struct unit_text t = { "" };
	struct tm tm;
	size_t n = 0;

	if (gmtime_r(&sec, &tm))
		n = strftime(t.s, sizeof(t.s), "%Y-%m-%dT%H:%M:%S", &tm);
	if (n + sizeof(".123Z") <= sizeof(t.s))
		snprintf(t.s + n, sizeof(t.s) - n, ".%03uZ",
			 (unsigned)(wall_ns / 1000000 % 1000));
	return t;
}

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

uint64_t now_wall_ns(void) { return clock_ns(CLOCK_REALTIME); }

uint64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
