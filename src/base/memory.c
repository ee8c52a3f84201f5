/* SPDX-License-Identifier: MIT */
/*
 * base/memory.c - see base/memory.h
 *
 * A cgroup of version 1 or 2 is found at the usual places.  The limits of its parents
 * count, too.  What a container cannot see, its own root has.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/rawcall.h"

#define LOOK_NS (100 * NS_PER_MS)
#define NO_LIMIT (UINT64_C(1) << 60) /* version 1 says a number as large */
#define LEVELS_MAX 16
#define TEXT_MAX 4096

static uint64_t room = UINT64_MAX, looked_ns;

static bool text_of(const char *path, char text[TEXT_MAX])
{
	long fd = rawcall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	long n = rawcall(SYS_read, fd, text, TEXT_MAX - 1);
	rawcall(SYS_close, fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* The number in @dir/@file; UINT64_MAX: there is none, as in "max". */
static uint64_t number_in(const char *dir, const char *file)
{
	char path[PATH_MAX], text[TEXT_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", dir, file) >=
		(int)sizeof(path) ||
	    !text_of(path, text) || text[0] < '0' || text[0] > '9')
		return UINT64_MAX;
	return strtoull(text, NULL, 10);
}

/* The kernel frees its cache of files before it kills a process, so the cache does not
 * count. */
static uint64_t cached_in(const char *dir, bool is_v2)
{
	static const char *const keys[2][2] = {
		{ "\ntotal_inactive_file ", "\ntotal_active_file " },
		{ "\ninactive_file ", "\nactive_file " },
	};
	char path[PATH_MAX], text[TEXT_MAX];
	uint64_t sum = 0;

	if (snprintf(path, sizeof(path), "%s/memory.stat", dir) >=
		(int)sizeof(path) ||
	    !text_of(path, text))
		return 0;
	for (int i = 0; i < 2; i++) {
		const char *at = strstr(text, keys[is_v2][i]);

		sum += at ? strtoull(at + strlen(keys[is_v2][i]), NULL, 10) : 0;
	}
	return sum;
}

static uint64_t room_in(const char *dir, bool is_v2)
{
	uint64_t limit =
	    number_in(dir, is_v2 ? "memory.max" : "memory.limit_in_bytes");

	if (limit >= NO_LIMIT)
		return UINT64_MAX;
	uint64_t used =
	    number_in(dir, is_v2 ? "memory.current" : "memory.usage_in_bytes");
	if (used == UINT64_MAX)
		return UINT64_MAX;
	limit += cached_in(dir, is_v2);
	return limit > used ? limit - used : 0;
}

/* The cgroup @name below @root, and all that it is part of. */
static uint64_t room_from(const char *root, const char *name, bool is_v2)
{
	char dir[PATH_MAX];
	size_t bottom = strlen(root);
	uint64_t least = UINT64_MAX;

	if (snprintf(dir, sizeof(dir), "%s%s", root, name) >= (int)sizeof(dir))
		return UINT64_MAX;
	for (int i = 0; i < LEVELS_MAX; i++) {
		uint64_t here = room_in(dir, is_v2);
		char *end = strrchr(dir + bottom, '/');

		least = here < least ? here : least;
		if (!end)
			break;
		*end = '\0';
	}
	return least;
}

/* A line of /proc/self/cgroup: NUMBER:CONTROLLERS:NAME; version 2 has no controllers. */
static uint64_t room_of_line(char *line)
{
	char *of = strchr(line, ':'), *name = of ? strchr(of + 1, ':') : NULL;

	if (!name)
		return UINT64_MAX;
	*name++ = '\0';
	if (!of[1])
		return room_from("/sys/fs/cgroup", name, true);
	return strcmp(of + 1, "memory")
		   ? UINT64_MAX
		   : room_from("/sys/fs/cgroup/memory", name, false);
}

static uint64_t look(void)
{
	char text[TEXT_MAX];
	uint64_t least = UINT64_MAX;

	if (number_in("/proc/sys/vm", "overcommit_memory") == 2)
		return 0;
	if (!text_of("/proc/self/cgroup", text))
		return UINT64_MAX;
	for (char *line = text, *end; *line; line = end) {
		end = line + strcspn(line, "\n");
		if (*end)
			*end++ = '\0';
		uint64_t here = room_of_line(line);
		least = here < least ? here : least;
	}
	return least;
}

uint64_t memory_room(void)
{
	uint64_t now = coarse_ns(), last = load_rlx(&looked_ns);

	if (!last || now - last > LOOK_NS) {
		store_rlx(&looked_ns, now);
		store_rlx(&room, look());
	}
	return load_rlx(&room);
}
