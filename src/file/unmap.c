/* SPDX-License-Identifier: MIT */
/*
 * file/unmap.c - see file/unmap.h
 *
 * It reads the list byte by byte, because a line may be longer than the buffer.  The
 * kernel finds the next line by an address, so that what is unmapped meanwhile does not
 * matter.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/rawcall.h"
#include "file/unmap.h"

/* A read brings a line at least; twice what a process may have (vm.max_map_count). */
#define READS_MAX (2u * 65530)
#define NAME_BYTES 12 /* of a name, enough to know it */

/* Before the name a line has five words: from-to, rights, offset, device, file. */
struct line {
	uintptr_t at[2]; /* from, to */
	unsigned n_words;
	unsigned n_name;
	bool in_word, is_to;
	char name[NAME_BYTES];
};

static void address_take(struct line *l, char c)
{
	uintptr_t *at = &l->at[l->is_to];

	if (c == '-')
		l->is_to = true;
	else if (c >= '0' && c <= '9')
		*at = *at << 4 | (uintptr_t)(c - '0');
	else if (c >= 'a' && c <= 'f')
		*at = *at << 4 | (uintptr_t)(c - 'a' + 10);
}

static void byte_take(struct line *l, char c)
{
	bool starts = c != ' ' && !l->in_word;

	l->in_word = c != ' ';
	l->n_words += starts;
	if (l->n_words == 1)
		address_take(l, c);
	else if (l->n_words >= 6 && l->n_name < NAME_BYTES)
		l->name[l->n_name++] = c;
}

static bool begins(const struct line *l, const char *with)
{
	for (unsigned i = 0; with[i]; i++)
		if (i >= l->n_name || l->name[i] != with[i])
			return false;
	return true;
}

/* No file of the program can be called that: its path begins with a slash. */
static bool is_object(const struct line *l)
{
	return begins(l, "anon_inode:") || begins(l, "socket:");
}

static void line_end(struct line *l)
{
	if (is_object(l) && l->at[1] > l->at[0])
		rawcall(SYS_munmap, l->at[0], l->at[1] - l->at[0]);
	*l = (struct line){ .n_words = 0 };
}

void unmap_objects(char *buf, size_t bytes)
{
	struct line l = { .n_words = 0 };
	int fd = (int)rawcall(SYS_openat, AT_FDCWD, "/proc/self/maps",
			      O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	for (uint32_t i = 0; i < READS_MAX; i++) {
		long n = rawcall(SYS_read, fd, buf, bytes);

		for (long k = 0; k < n; k++) {
			if (buf[k] == '\n')
				line_end(&l);
			else
				byte_take(&l, buf[k]);
		}
		if (n <= 0)
			break;
	}
	rawcall(SYS_close, fd);
}
