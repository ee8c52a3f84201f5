/* SPDX-License-Identifier: MIT */
/*
 * sock/region.h - memory of this process that may be sent in place
 *
 * A region is a memfd that cannot shrink.  Another process may map it and read
 * there what it was sent by reference (sock/lend.h).  Reading cannot fail,
 * because the file keeps its size.
 *
 * Thread-safe.
 */
#pragma once

#include <stdint.h>
#include <sys/stat.h>

#include "base/compiler.h"

/* Type-stable: a stale pointer still points at a region, but it may now be
 * another file's, with another @id. */
struct region {
	int32_t fd; /* -1: closed */
	uint32_t n_users;
	uint64_t id;
	uint64_t dev, ino, size;
	uint64_t
	    born_ns; /* of the file: inode numbers are reused; 0: unknown */
};

/* Return the region of @fd's file; the caller keeps @fd.  There is one object
 * per file until each user has closed it.  -EBADMSG: not a memfd, or it may
 * shrink.  -ENOSPC, -errno. */
MUST_CHECK int region_open(int fd, struct region **out);
void region_close(struct region *r);

/* Is @fd a memfd that can no longer shrink?  0 and *@st; -EBADMSG; -errno. */
MUST_CHECK int region_check(int fd, struct stat *st);
