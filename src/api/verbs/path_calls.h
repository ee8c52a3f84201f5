/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/path_calls.h - the files by which programs look for osf0
 *
 * UCX uses a device only if it has a character device in /dev/infiniband that the process may
 * read and write.  It never opens it: libibverbs does that for devices of the kernel.  Of
 * each GID it reads type and interface from sysfs, as the kernel shows them.
 */
#pragma once

/* A file of sysfs that describes a GID of osf0, to read: its descriptor.  -1: any other path,
 * with errno as it was. */
int path_open(const char *path, int flags);
