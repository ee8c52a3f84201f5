/* SPDX-License-Identifier: MIT */
/*
 * base/fds.c - see base/fds.h
 *
 * Ours are kept as bits over the top FDS_WINDOW numbers below the limit at the
 * time of the first call; what lies outside the window is kept in no record and
 * is merely not spared.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/fds.h"
#include "base/libc.h"

#define FDS_WINDOW 32768
#define FDS_TOP_MAX (1 << 20) /* a table this big is 8 MB of kernel memory */

static int base_fd = -1; /* number of bit 0 */
static uint64_t ours[FDS_WINDOW / 64];
static int next_min; /* where to look for a free number first */

static void window_set(void)
{
	struct rlimit rl;
	int top = 1024;

	if (!getrlimit(RLIMIT_NOFILE, &rl) && rl.rlim_cur > 0)
		top =
		    rl.rlim_cur > FDS_TOP_MAX ? FDS_TOP_MAX : (int)rl.rlim_cur;
	/* The kernel grows its table by doubling: stay within 64 Ki numbers
	 * unless the program itself is up there. */
	if (top > 65536)
		top = 65536;
	base_fd = top > FDS_WINDOW ? top - FDS_WINDOW : 0;
	next_min = top - (top > 2048 ? 1024 : top / 4);
}

static bool in_window(int fd)
{
	return base_fd >= 0 && fd >= base_fd && fd < base_fd + FDS_WINDOW;
}

int fds_hide(int fd)
{
	if (fd < 0)
		return fd;
	if (base_fd < 0)
		window_set();
	int up = libc.fcntl(fd, F_DUPFD_CLOEXEC, next_min);
	if (up < 0) /* the top is full: try all of the window */
		up = libc.fcntl(fd, F_DUPFD_CLOEXEC, base_fd);
	if (up < 0)
		up = fd;
	else
		libc.close(fd);
	if (in_window(up))
		fetch_or(&ours[(up - base_fd) / 64],
			 UINT64_C(1) << ((up - base_fd) % 64));
	return up;
}

void fds_close(int fd)
{
	if (fd < 0)
		return;
	if (in_window(fd))
		fetch_and(&ours[(fd - base_fd) / 64],
			  ~(UINT64_C(1) << ((fd - base_fd) % 64)));
	libc.close(fd);
}

bool fds_is_ours(int fd)
{
	return in_window(fd) &&
	       load_rlx(&ours[(fd - base_fd) / 64]) >> ((fd - base_fd) % 64) &
		   1;
}

uint64_t fds_inode(int fd)
{
	struct stat st;
	int saved = errno;
	bool is_open = fd >= 0 && !libc.fstat(fd, &st);

	errno = saved;
	return is_open ? st.st_ino : 0;
}

int fds_next(int from)
{
	if (base_fd < 0 || from >= base_fd + FDS_WINDOW)
		return -1;
	int i = from > base_fd ? from - base_fd : 0;
	uint64_t word = load_rlx(&ours[i / 64]) >> (i % 64);
	if (word)
		return base_fd + i + __builtin_ctzll(word);
	for (i = i / 64 + 1; i < FDS_WINDOW / 64; i++)
		if ((word = load_rlx(&ours[i])))
			return base_fd + i * 64 + __builtin_ctzll(word);
	return -1;
}

/* Is @link among the descriptors of process @pid? */
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
		libc.close(dir);
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
