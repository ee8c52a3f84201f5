/* SPDX-License-Identifier: MIT */
/*
 * base/fds.c - see base/fds.h
 *
 * A bit for each of the first FDS_WINDOW numbers tells which of them are ours.  Numbers
 * above have no record, and are not spared when the program closes ranges.
 *
 * The kernel compares a number with the soft limit only when it gives the number out.
 * So where the hard limit allows, our descriptors lie above the soft limit, and the
 * program has its whole limit for itself.  Otherwise they lie at the top of the table, or
 * lower if the limit is large: a fork copies the table up to the highest number in use.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/fds.h"
#include "base/libc.h"
#include "base/lock.h"
#include "base/nocancel.h"

uint64_t fds_ours[FDS_WINDOW / 64];
static bool in_window(int fd) { return fd >= 0 && fd < FDS_WINDOW; }

#define LARGE_LIMIT 2048 /* select() ends at half of it */

static struct lock lock; /* held while the soft limit is raised */
static int reach = INT_MAX;

int fds_reach(void) { return load_rlx(&reach); }

/* Duplicates @fd to a number above @rl's soft limit, which is raised for a moment. */
static int dup_above(int fd, const struct rlimit *rl)
{
	struct rlimit high = { MIN(rl->rlim_max, (rlim_t)FDS_WINDOW),
			       rl->rlim_max };

	if (rl->rlim_cur >= high.rlim_cur)
		return -1;
	GUARD(&lock);
	if (setrlimit(RLIMIT_NOFILE, &high))
		return -1;
	int up = libc.fcntl(fd, F_DUPFD_CLOEXEC, (int)rl->rlim_cur);
	setrlimit(RLIMIT_NOFILE, rl);
	return up;
}

static int dup_high(int fd)
{
	struct rlimit rl = { 1024, 1024 };

	getrlimit(RLIMIT_NOFILE, &rl);
	int up = dup_above(fd, &rl);
	if (up >= 0)
		return up;
	int top = (int)MIN(rl.rlim_cur, (rlim_t)FDS_WINDOW);
	int min = top - (top > LARGE_LIMIT ? 1024 : top / 4);
	up = libc.fcntl(fd, F_DUPFD_CLOEXEC, MIN(min, LARGE_LIMIT / 2));
	if (up >= 0 && load_rlx(&reach) > min)
		store_rlx(&reach, min);
	return up;
}

static void note_ours(int fd)
{
	if (in_window(fd))
		fetch_or(&fds_ours[fd / 64], UINT64_C(1) << (fd % 64));
}

int fds_hide(int fd)
{
	if (fd < 0)
		return fd;
	int saved = errno, up = dup_high(fd);
	if (up < 0)
		up = fd;
	else
		nocancel_close(fd);
	note_ours(up);
	errno = saved;
	return up;
}

int fds_hide_spare(int fd)
{
	if (fd < 0)
		return fd;
	int saved = errno, up = dup_high(fd);
	nocancel_close(fd);
	note_ours(up);
	errno = saved;
	return up < 0 ? -EMFILE : up;
}

void fds_close(int fd)
{
	if (fd <= 0) /* none */
		return;
	if (in_window(fd))
		fetch_and(&fds_ours[fd / 64], ~(UINT64_C(1) << (fd % 64)));
	nocancel_close(fd);
}

uint64_t fds_cookie(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);
	int saved = errno;

	if (fd >= 0)
		libc.getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len);
	errno = saved;
	return cookie;
}

int fds_next(int from)
{
	if (from >= FDS_WINDOW)
		return -1;
	int i = from > 0 ? from : 0;
	uint64_t word = load_rlx(&fds_ours[i / 64]) >> (i % 64);
	if (word)
		return i + __builtin_ctzll(word);
	for (i = i / 64 + 1; i < FDS_WINDOW / 64; i++)
		if ((word = load_rlx(&fds_ours[i])))
			return i * 64 + __builtin_ctzll(word);
	return -1;
}

/* Whether a descriptor of process @pid is @link. */
static bool has_link(int proc, const char *pid, const char *link, size_t len)
{
	char path[32], at[64];
	bool found = false;

	snprintf(path, sizeof(path), "%.16s/fd", pid);
	int dir = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = dir < 0 ? NULL : fdopendir(dir);
	for (struct dirent *e; d && !found && (e = readdir(d));)
		found = readlinkat(dir, e->d_name, at, sizeof(at)) ==
			    (ssize_t)len &&
			!memcmp(at, link, len);
	if (d)
		closedir(d);
	else if (dir >= 0)
		nocancel_close(dir);
	return found;
}

bool fds_is_sole(int fd)
{
	struct stat st;
	char link[64];
	bool found = false;
	int saved = errno;

	if (libc.fstat(fd, &st))
		return false;
	size_t len = (size_t)snprintf(link, sizeof(link), "socket:[%llu]",
				      (unsigned long long)st.st_ino);
	DIR *proc = opendir("/proc");
	for (struct dirent *e; proc && !found && (e = readdir(proc));)
		found = isdigit((unsigned char)e->d_name[0]) &&
			atoi(e->d_name) != getpid() &&
			has_link(dirfd(proc), e->d_name, link, len);
	bool looked = proc != NULL;
	if (proc)
		closedir(proc);
	errno = saved;
	return looked && !found;
}
