/* SPDX-License-Identifier: MIT */
/*
 * api/vma/vma.h - programs written for VMA's extra API
 *
 *     getsockopt(-1, SOL_SOCKET, 2800, ...)  ->  preload/opt.c  ->  vma_getsockopt()
 *
 * include/mellanox/vma_extra.h is the API, docs/vma.md its manual.
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

/* Is @fd, which is not a descriptor, the name of this API?  Then *@err is 0 or
 * a negative errno. */
bool vma_getsockopt(int fd, int level, int name, void *val, socklen_t *len,
		    int *err);
