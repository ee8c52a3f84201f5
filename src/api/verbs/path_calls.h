/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/path_calls.h - the files by which programs look for osf0
 *
 * UCX uses a device only if it has a character device in /dev/infiniband that the process
 * may read and write.  UCX never opens it: libibverbs opens such files, and only for
 * devices of the kernel.  UCX reads the type and the interface of each GID from sysfs,
 * where the kernel shows them.
 */
#pragma once

/* Opens a file of sysfs that describes a GID of osf0, for reading.  Return: its descriptor;
 * -1: @path is none of these, and errno is as it was */
int path_open(const char *path, int flags);
