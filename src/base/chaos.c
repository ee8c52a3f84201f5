/* SPDX-License-Identifier: MIT */
/*
 * base/chaos.c - which places wait, how often, and how long
 *
 * It is called from everywhere: in signal handlers, before constructors, and in a child
 * that clone() has made alone.  So it enters libc only for the time, takes no lock, and
 * makes its system calls itself.  Two threads may read the settings at once; both write
 * the same values.
 */
#include "base/chaos.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

extern char **environ;

enum { SEED, RATE, FOCUS, FOCUS_RATE, MAX_US, N_SETTINGS };

static uint32_t settings[N_SETTINGS] = { 0, 600, 24, 6, 20000 };
static volatile bool is_on, is_read;

static void settings_read(void)
{
	const char *text = NULL;

	for (char **e = environ; e && *e; e++)
		if (!strncmp(*e, "OSF_CHAOS=", 10))
			text = *e + 10;
	for (int i = 0; text && i < N_SETTINGS; i++) {
		uint32_t n = 0;

		while (*text >= '0' && *text <= '9')
			n = n * 10 + (uint32_t)(*text++ - '0');
		settings[i] = n + (i && !n);
		is_on = true;
		text = *text == ',' ? text + 1 : NULL;
	}
	is_read = environ;
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static enum chaos_place place_choose(const char *file, int line)
{
	uint64_t h = mix(settings[SEED]);

	if (!is_on)
		return PLACE_NEVER;
	for (; *file; file++)
		h = mix(h ^ (uint8_t)*file);
	h = mix(h ^ (uint32_t)line);
	return h % settings[FOCUS] ? PLACE_USUAL : PLACE_FOCUS;
}

/* Yields, spins or sleeps, by @r. */
static void wait_some(uint64_t r)
{
	unsigned how = r % 8;
	struct timespec ts = { 0 };

	r /= 8;
	if (how < 3) {
		(rawcall6)(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
		return;
	}
	if (how < 5) {
		for (volatile uint64_t i = r % 60000; i; i--)
			;
		return;
	}
	ts.tv_nsec = (long)(how < 7 ? r % 300000 : r % settings[MAX_US] * 1000);
	(rawcall6)(SYS_nanosleep, (long)&ts, 0, 0, 0, 0, 0);
}

void chaos(uint8_t *place, const char *file, int line)
{
	struct timespec now;

	if (!is_read)
		settings_read();
	if (!is_read || *place == PLACE_NEVER)
		return;
	if (*place == PLACE_NEW)
		*place = place_choose(file, line);
	if (*place == PLACE_NEVER)
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	uint64_t r = mix((uint64_t)now.tv_nsec ^ (uintptr_t)&now);
	if (r % settings[*place == PLACE_FOCUS ? FOCUS_RATE : RATE] == 0)
		wait_some(r >> 32);
}
