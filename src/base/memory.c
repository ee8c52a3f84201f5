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
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/rawcall.h"

#define LOOK_NS (100 * NS_PER_MS)
#define NO_LIMIT (UINT64_C(1) << 60) /* version 1 says a number as large */
#define LEVELS_MAX 16
#define TEXT_MAX 4096

/* What a look needs is not on the stack: the program's thread may have one of 16 KiB. */
struct scratch {
	char lines[TEXT_MAX]; /* of /proc/self/cgroup */
	char dir[PATH_MAX], path[PATH_MAX], text[TEXT_MAX];
};

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

/* @dir/@file becomes s->text. */
static bool read_in(struct scratch *s, const char *dir, const char *file)
{
	return snprintf(s->path, sizeof(s->path), "%s/%s", dir, file) <
		   (int)sizeof(s->path) &&
	       text_of(s->path, s->text);
}

/* The number in @dir/@file; UINT64_MAX: there is none, as in "max". */
static uint64_t number_in(struct scratch *s, const char *dir, const char *file)
{
	if (!read_in(s, dir, file) || s->text[0] < '0' || s->text[0] > '9')
		return UINT64_MAX;
	return strtoull(s->text, NULL, 10);
}

/* The kernel frees its cache of files before it kills a process, so the cache does not
 * count. */
static uint64_t cached_in(struct scratch *s, bool is_v2)
{
	static const char *const keys[2][2] = {
		{ "\ntotal_inactive_file ", "\ntotal_active_file " },
		{ "\ninactive_file ", "\nactive_file " },
	};
	uint64_t sum = 0;

	if (!read_in(s, s->dir, "memory.stat"))
		return 0;
	for (int i = 0; i < 2; i++) {
		const char *at = strstr(s->text, keys[is_v2][i]);

		sum += at ? strtoull(at + strlen(keys[is_v2][i]), NULL, 10) : 0;
	}
	return sum;
}

/* In the cgroup s->dir. */
static uint64_t room_in(struct scratch *s, bool is_v2)
{
	uint64_t limit = number_in(
	    s, s->dir, is_v2 ? "memory.max" : "memory.limit_in_bytes");

	if (limit >= NO_LIMIT)
		return UINT64_MAX;
	uint64_t used = number_in(
	    s, s->dir, is_v2 ? "memory.current" : "memory.usage_in_bytes");
	if (used == UINT64_MAX)
		return UINT64_MAX;
	limit += cached_in(s, is_v2);
	return limit > used ? limit - used : 0;
}

/* The cgroup @name below @root, and all that it is part of. */
static uint64_t room_from(struct scratch *s, const char *root, const char *name,
			  bool is_v2)
{
	size_t bottom = strlen(root);
	uint64_t least = UINT64_MAX;

	if (snprintf(s->dir, sizeof(s->dir), "%s%s", root, name) >=
	    (int)sizeof(s->dir))
		return UINT64_MAX;
	for (int i = 0; i < LEVELS_MAX; i++) {
		uint64_t here = room_in(s, is_v2);
		char *end = strrchr(s->dir + bottom, '/');

		least = here < least ? here : least;
		if (!end)
			break;
		*end = '\0';
	}
	return least;
}

/* A line of /proc/self/cgroup: NUMBER:CONTROLLERS:NAME; version 2 has no controllers. */
static uint64_t room_of_line(struct scratch *s, char *line)
{
	char *of = strchr(line, ':'), *name = of ? strchr(of + 1, ':') : NULL;

	if (!name)
		return UINT64_MAX;
	*name++ = '\0';
	if (!of[1])
		return room_from(s, "/sys/fs/cgroup", name, true);
	return strcmp(of + 1, "memory")
		   ? UINT64_MAX
		   : room_from(s, "/sys/fs/cgroup/memory", name, false);
}

static uint64_t look_with(struct scratch *s)
{
	uint64_t least = UINT64_MAX;

	if (number_in(s, "/proc/sys/vm", "overcommit_memory") == 2)
		return 0;
	if (!text_of("/proc/self/cgroup", s->lines))
		return UINT64_MAX;
	for (char *line = s->lines, *end; *line; line = end) {
		end = line + strcspn(line, "\n");
		if (*end)
			*end++ = '\0';
		uint64_t here = room_of_line(s, line);
		least = here < least ? here : least;
	}
	return least;
}

static uint64_t look(void)
{
	struct scratch *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (s == MAP_FAILED)
		return 0;
	uint64_t least = look_with(s);

	munmap(s, sizeof(*s));
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
