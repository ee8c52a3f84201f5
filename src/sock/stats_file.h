/* SPDX-License-Identifier: MIT */
/*
 * sock/stats_file.h - the file behind a process's statistics segment
 *
 *     stats_file_open()  ->  a memfd, or a file of OSF_STATS_DIR, that the arena maps
 *     stats_file_resize()  <-  the arena needs more entries
 *
 * Every byte that somebody may store to has a place in the file: to store into a page
 * that a full file system has no place for would raise SIGBUS.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "osf/stats.h"

#define STATS_PAGE_BYTES 4096
#define STATS_HEADER_BYTES                                                     \
	(OSF_STATS_PACKETS_AT +                                                \
	 OSF_STATS_PACKETS_MAX * sizeof(struct osf_stats_packets))

/* A new file of @bytes, or a memfd without length.  Its descriptor; -1: the directory that
 * the user has named cannot be written, and the user has been warned. */
MUST_CHECK int stats_file_open(size_t bytes);
/* Does the user want to see what processes have counted that have ended? */
bool stats_file_is_named(void);
/* It has @bytes.  The table of packets stays a hole until it is used.  0 or -errno. */
MUST_CHECK int stats_file_resize(int fd, size_t bytes);
/* All bytes from @at to @end have a place.  0 or -errno. */
MUST_CHECK int stats_file_fill(int fd, size_t at, size_t end);
