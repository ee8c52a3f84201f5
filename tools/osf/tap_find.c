/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/tap_find.c - finds the taps of running programs; see tap.h
 *
 * A child inherits its parent's descriptors.  So a tap counts only if the process that has
 * it open is the process whose number is in it.  Processes come and go during the search,
 * so it is no error if one has vanished.
 */
#include "osf.h"
#include "seg.h"
#include "tap.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINK "/memfd:" TAP_MEMFD " (deleted)"

static bool is_known(const struct tap_sources *s, const struct stat *st)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->of[i].dev == st->st_dev && s->of[i].ino == st->st_ino)
			return true;
	return false;
}

static void source_add(struct tap_sources *s, pid_t pid, struct tap_reader *r,
		       const struct stat *st)
{
	struct tap_source new = {
		.reader = *r, .dev = st->st_dev, .ino = st->st_ino, .pid = pid
	};

	snprintf(new.name, sizeof(new.name), "%s (%d)", r->info.program,
		 (int)pid);
	s->of = xgrow(s->of, s->n, sizeof(new));
	s->of[s->n++] = new;
}

/* Owns @fd. */
static void consider(struct tap_sources *s, pid_t pid, int fd)
{
	struct tap_reader r;
	struct stat st;

	if (fstat(fd, &st) || is_known(s, &st)) {
		close(fd);
		return;
	}
	if (tap_reader_open(&r, fd))
		return;
	if ((s->dev && strcmp(s->dev, r.info.dev) != 0) ||
	    !seg_is_own_pid(pid, r.info.pid))
		tap_reader_close(&r);
	else
		source_add(s, pid, &r, &st);
}

/* Return: 0 or a negative errno. */
static int find_of(struct tap_sources *s, pid_t pid)
{
	char path[64], to[64];
	struct dirent *e;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	DIR *dir = opendir(path);
	if (!dir)
		return -errno;
	while ((e = readdir(dir))) {
		ssize_t n =
		    readlinkat(dirfd(dir), e->d_name, to, sizeof(to) - 1);

		if (n != sizeof(LINK) - 1 || memcmp(to, LINK, (size_t)n) != 0)
			continue;
		int fd = openat(dirfd(dir), e->d_name,
				O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		if (fd >= 0)
			consider(s, pid, fd);
	}
	closedir(dir);
	return 0;
}

/* Is process PID in our network namespace?  A device's name has a meaning in one namespace
 * only, and the user means ours.  Also true if the process has ended or the caller may not
 * see it. */
static bool is_near(const char *pid)
{
	struct stat ours, its;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%s/ns/net", pid);
	return stat("/proc/self/ns/net", &ours) || stat(path, &its) ||
	       (ours.st_dev == its.st_dev && ours.st_ino == its.st_ino);
}

static void find_all(struct tap_sources *s)
{
	struct dirent *e;
	char *end;
	DIR *proc = opendir("/proc");

	while (proc && (e = readdir(proc))) {
		long pid = strtol(e->d_name, &end, 10);

		if (pid > 0 && !*end && is_near(e->d_name))
			(void)find_of(s, (pid_t)pid); /* or may not */
	}
	if (proc)
		closedir(proc);
}

void tap_sources_find(struct tap_sources *s)
{
	if (!s->n_pids)
		find_all(s);
	s->n_denied = 0;
	for (size_t i = 0; i < s->n_pids; i++)
		s->n_denied += find_of(s, s->pids[i]) == -EACCES;
}

void tap_sources_check(struct tap_sources *s)
{
	size_t n_left = 0;

	for (size_t i = 0; i < s->n; i++) {
		struct tap_source *at = &s->of[i];

		if (at->has_ended) {
			tap_reader_close(&at->reader);
			continue;
		}
		at->has_ended = kill(at->pid, 0) && errno == ESRCH;
		s->of[n_left++] = *at;
	}
	s->n = n_left;
}

void tap_sources_free(struct tap_sources *s)
{
	for (size_t i = 0; i < s->n; i++)
		tap_reader_close(&s->of[i].reader);
	free(s->of);
	s->of = NULL;
	s->n = 0;
}
