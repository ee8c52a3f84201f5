/* SPDX-License-Identifier: MIT */
/* sock/stats_file.c - see sock/stats_file.h */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/libc.h"
#include "base/nocancel.h"
#include "base/setting.h"
#include "sock/stats_file.h"

#define FILE_STEP ((size_t)256 * 1024)

static_assert(sizeof(struct osf_stats_header) <= OSF_STATS_LOG_AT &&
		  OSF_STATS_LOG_AT + sizeof(struct osf_stats_log) <=
		      STATS_PAGE_BYTES,
	      "header grew");
static_assert(OSF_STATS_PACKETS_AT == STATS_PAGE_BYTES &&
		  STATS_HEADER_BYTES % STATS_PAGE_BYTES == 0,
	      "whole pages");

/* All bytes from @at to @end have a place: to store into a page that a full file
 * system has no place for would raise SIGBUS.  In steps, because a signal ends a
 * step of a memfd without result. */
int stats_file_fill(int fd, size_t at, size_t end)
{
	for (size_t n; at < end; at += n) {
		n = MIN(end - at, FILE_STEP);
		int err = posix_fallocate(fd, (off_t)at, (off_t)n);
		if (err == EINTR)
			n = 0;
		else if (err)
			return -err;
	}
	return 0;
}

/* The file has @bytes.  The table of packets stays a hole until it is used. */
int stats_file_resize(int fd, size_t bytes)
{
	struct rlimit rl;
	struct stat st;

	/* A file that becomes longer than allowed raises SIGXFSZ. */
	if (!getrlimit(RLIMIT_FSIZE, &rl) && rl.rlim_cur < bytes)
		return -EFBIG;
	if (libc.fstat(fd, &st))
		return -errno;
	size_t has = (size_t)st.st_size;
	if (has < STATS_PAGE_BYTES) {
		int err = stats_file_fill(fd, 0, STATS_PAGE_BYTES);
		if (err)
			return err;
	}
	return stats_file_fill(fd, MAX(has, STATS_HEADER_BYTES), bytes);
}

/* A file of that name with @bytes: 0 or -errno. */
static int make(const char *path, size_t bytes, int *pfd)
{
	int fd =
	    nocancel_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	int err = stats_file_resize(fd, bytes);
	if (err) {
		unlink(path);
		nocancel_close(fd);
		return err;
	}
	flock(fd, LOCK_SH | LOCK_NB); /* who cleans up sees that we live */
	*pfd = fd;
	return 0;
}

static const char *named(void)
{
	const char *dir = secure_getenv("OSF_STATS_DIR");

	return dir && *dir ? dir : NULL;
}

bool stats_file_is_named(void) { return named() != NULL; }

int stats_file_open(size_t bytes)
{
	const char *dir = named();
	char path[512];

	if (!dir)
		return memfd_create(OSF_STATS_MEMFD, MFD_CLOEXEC);
	int fd = -1, err = -EEXIST;
	for (int n = 0; n < 1000 && err == -EEXIST; n++) {
		snprintf(path, sizeof(path), "%s/%d.%d.osf", dir, (int)getpid(),
			 n);
		err = make(path, bytes, &fd);
	}
	if (!err)
		return fd;
	static bool has_warned; /* here, or in the process we were forked by */
	if (!has_warned)
		setting_warn("OSF_STATS_DIR: %s cannot be written: %s", path,
			     strerror(-err));
	has_warned = true;
	return -1;
}
