/* SPDX-License-Identifier: MIT */
/* rdma/export.c - see rdma/export.h */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/libc.h"
#include "rdma/export.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#define SEALS_OURS                                                             \
	(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)
/* What a reader needs: that reading a mapping cannot fail. */
#define SEALS_NEEDED (F_SEAL_SHRINK | F_SEAL_GROW)
#define BYTES_MAX (1u << 30)

int export_new(const char *name, size_t bytes, void **map)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	void *at = MAP_FAILED;
	if (!ftruncate(fd, (off_t)bytes))
		at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			  0);
	if (at == MAP_FAILED || libc.fcntl(fd, F_ADD_SEALS, SEALS_OURS)) {
		int err = -errno;

		if (at != MAP_FAILED)
			munmap(at, bytes);
		libc.close(fd);
		return err;
	}
	madvise(at, bytes, MADV_DONTDUMP);
	/* A child could write what its parent shows. */
	madvise(at, bytes, MADV_DONTFORK);
	*map = at;
	return fd;
}

/*
 * Open what process @pid has as descriptor @fd, if it is of type @type.  The first open()
 * has O_PATH and opens no file, so that a file of the peer's choice cannot make us wait.
 */
static int open_checked(int pid, int fd, mode_t type, int flags)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	int at = libc.open(path, O_PATH | O_CLOEXEC);
	if (at < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", at);
	int got = -EBADMSG;
	if (!libc.fstat(at, &st) && (st.st_mode & S_IFMT) == type) {
		got = libc.open(path, flags | O_CLOEXEC | O_NONBLOCK);
		if (got < 0)
			got = -errno;
	}
	libc.close(at);
	return got;
}

/* Memory files have no name in any file system.  A file on a disk or a network could make
 * us wait. */
static bool is_memory(int pid, int fd)
{
	char path[64], target[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = '\0';
	return !strncmp(target, "/memfd:", 7);
}

int import_map(int pid, int fd, const void **map, size_t *bytes)
{
	struct stat st;

	if (fd < 0 || !is_memory(pid, fd))
		return -EBADMSG;
	int got = open_checked(pid, fd, S_IFREG, O_RDONLY);
	if (got < 0)
		return got;
	int seals = libc.fcntl(got, F_GET_SEALS), err = -EBADMSG;
	if (seals >= 0 && (seals & SEALS_NEEDED) == SEALS_NEEDED &&
	    !libc.fstat(got, &st) && st.st_size > 0 && st.st_size < BYTES_MAX) {
		*bytes = (size_t)st.st_size;
		*map = mmap(NULL, *bytes, PROT_READ, MAP_SHARED, got, 0);
		err = *map == MAP_FAILED ? -errno : 0;
	}
	libc.close(got);
	return err;
}

int import_find(int pid, const char *name)
{
	char path[64], want[96], target[96];
	int found = -ENOENT;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	snprintf(want, sizeof(want), "/memfd:%s (deleted)", name);
	DIR *dir = opendir(path);
	if (!dir)
		return -errno;
	for (struct dirent *e; found < 0 && (e = readdir(dir));) {
		ssize_t n = readlinkat(dirfd(dir), e->d_name, target,
				       sizeof(target) - 1);

		target[n > 0 ? n : 0] = '\0';
		if (!strcmp(target, want))
			found = atoi(e->d_name);
	}
	closedir(dir);
	return found;
}

/* Also for reading, so that a write never meets a pipe without a reader (SIGPIPE). */
int import_pipe(int pid, int fd)
{
	return fd < 0 ? -ENOENT : open_checked(pid, fd, S_IFIFO, O_RDWR);
}
