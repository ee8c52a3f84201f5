/* SPDX-License-Identifier: MIT */
/* tests/fuzz/fuzz_script.h - the input as a script: its next bytes, which are 0 behind its end */
#pragma once

#include <assert.h>
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>

static struct {
	const uint8_t *at, *end;
} script;

static inline void script_begin(const uint8_t *data, size_t size)
{
	script.at = data;
	script.end = data + size;
}

static inline uint8_t next(void)
{
	return script.at < script.end ? *script.at++ : 0;
}

/* A number of @n bytes, the lowest one first. */
static inline uint32_t take(size_t n)
{
	uint32_t value = 0;

	for (size_t i = 0; i < n; i++)
		value |= (uint32_t)next() << (8 * i);
	return value;
}

static inline void take_bytes(void *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)to)[i] = next();
}

/* Open descriptors of this process. */
static inline int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	assert(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}
