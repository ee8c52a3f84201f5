/* SPDX-License-Identifier: MIT */
/*
 * file/unmap.h - removes mappings of kernel objects from a copy of a process
 *
 *     a process made by clone()  ->  unmap_objects()
 *
 * A mapping of an io_uring, of a packet socket's ring or of a performance counter holds
 * the object itself.  Such an object may hold others: an io_uring holds its registered
 * files.  A process that lives on with a copy of the program's memory would keep all of
 * them open, with every connection among them.
 */
#pragma once

#include <stddef.h>

/* Unmap what /proc/self/maps calls "anon_inode:" or "socket:".  @buf has @bytes to work
 * in.  System calls only; without /proc, nothing happens. */
void unmap_objects(char *buf, size_t bytes);
