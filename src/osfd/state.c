/* SPDX-License-Identifier: MIT */
/* osfd/state.c - see state.h */
#include "osfd/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STATE_DIR "/run/osf"
#define PREFIX "ports-"
#define OLD_S (24 * 3600)

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

/* If the lock can be had, no osfd has the file open. */
static void remove_if_old(int dir, const char *name)
{
	struct stat st;
	int fd = openat(dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 &&
	    (!st.st_size || time(NULL) - st.st_mtime > OLD_S))
		unlinkat(dir, name, 0);
	close(fd);
}

static void sweep(void)
{
	DIR *dir = opendir(STATE_DIR);
	const struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) == 0)
			remove_if_old(dirfd(dir), e->d_name);
	if (dir)
		closedir(dir);
}

/* Another osfd may have removed the file between our open() and our lock. */
static int open_locked(const char *path)
{
	struct stat st;

	for (;;) {
		int fd =
		    open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0)
			return -errno;
		if (flock(fd, LOCK_EX) == 0 && fstat(fd, &st) == 0 &&
		    st.st_nlink)
			return fd;
		close(fd);
	}
}

int state_open(int any_socket, char *path, size_t size)
{
	uint64_t cookie;
	socklen_t len = sizeof(cookie);

	if (getsockopt(any_socket, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len))
		return -errno;
	if (mkdir(STATE_DIR, 0755) < 0 && errno != EEXIST)
		return -errno;
	snprintf(path, size, STATE_DIR "/" PREFIX "%llu",
		 (unsigned long long)cookie);
	/* Lock our own file first: the sweep then leaves it alone, however old it is. */
	int fd = open_locked(path);
	if (fd >= 0)
		sweep();
	return fd;
}
