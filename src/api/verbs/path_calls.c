/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/path_calls.c - see api/verbs/path_calls.h
 *
 *     stat("/dev/infiniband/osf0")     -> a character device, for everybody
 *     access("/dev/infiniband/osf0")   -> yes, but not to execute it
 *
 * Calls on any other path go on to the next library that defines the function: libosf.so,
 * or the C library.
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/verbs/front.h"
#include "api/verbs/path_calls.h"
#include "base/libc.h"

#define NODE "/dev/infiniband/osf0"
#define GID_FILES "/sys/class/infiniband/osf0/ports/1/gid_attrs/"

static bool is_node(const char *path)
{
	return !is_bad_ptr(path) && path[0] == '/' && !strcmp(path, NODE);
}

#define STAT(name, type)                                                       \
	OSF_API int name(const char *path, struct type *st)                    \
	{                                                                      \
		static int (*real)(const char *, struct type *);               \
                                                                               \
		if (unlikely(is_node(path))) {                                 \
			memset(st, 0, sizeof(*st));                            \
			st->st_mode = S_IFCHR | 0666;                          \
			st->st_nlink = 1;                                      \
			return 0;                                              \
		}                                                              \
		if (!load_acq(&real))                                          \
			store_rel(&real, (typeof(real))front_next(#name));     \
		if (real)                                                      \
			return real(path, st);                                 \
		errno = ENOSYS;                                                \
		return -1;                                                     \
	}
STAT(stat, stat)
STAT(stat64, stat64)

OSF_API int access(const char *path, int mode)
{
	static int (*real)(const char *, int);

	if (unlikely(is_node(path))) {
		errno = mode & X_OK ? EACCES : errno;
		return mode & X_OK ? -1 : 0;
	}
	if (!load_acq(&real))
		store_rel(&real, (typeof(real))front_next("access"));
	if (real)
		return real(path, mode);
	errno = ENOSYS;
	return -1;
}

/* The text of the file of @path below GID_FILES: 0, or -1 where there is none. */
static int gid_text(const char *path, char out[IF_NAMESIZE + 1])
{
	bool is_type = !strncmp(path, "types/", 6);
	uint32_t ifindex;
	char *end;

	if (!is_type && strncmp(path, "ndevs/", 6))
		return -1;
	unsigned long index = strtoul(path + 6, &end, 10);
	if (end == path + 6 || *end || index > INT32_MAX ||
	    device_gid((uint32_t)index, NULL, &ifindex))
		return -1;
	if (is_type)
		strcpy(out, "RoCE v2");
	else if (!if_indextoname(ifindex, out))
		return -1;
	strcat(out, "\n");
	return 0;
}

int path_open(const char *path, int flags)
{
	char text[IF_NAMESIZE + 1];
	int saved = errno;

	if (likely(strncmp(path, GID_FILES, sizeof(GID_FILES) - 1)) ||
	    (flags & O_ACCMODE) != O_RDONLY ||
	    gid_text(path + sizeof(GID_FILES) - 1, text))
		return -1;
	int fd =
	    memfd_create("osf-rdma-sysfs", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
	ssize_t length = (ssize_t)strlen(text);
	if (fd >= 0 && pwrite(fd, text, (size_t)length, 0) != length) {
		libc.close(fd);
		fd = -1;
	}
	errno = saved;
	return fd;
}
