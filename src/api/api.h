/* SPDX-License-Identifier: MIT */
/*
 * api/api.h - programs that ask for an API at run time
 *
 *     getsockopt(-2, SOL_SOCKET, 2800, ...)  ->  preload/opt.c  ->  api_getsockopt()
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

/* Does @fd, which is not a descriptor, name an API?  Then *@err is 0 or a negative errno. */
bool api_getsockopt(int fd, int level, int name, void *val, socklen_t *len,
		    int *err);
