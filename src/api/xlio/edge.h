/* SPDX-License-Identifier: MIT */
/*
 * api/xlio/edge.h - where negative errnos become what mellanox/xlio.h promises
 *
 * As in the sockets API: -1 and errno; on success errno is unchanged.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/compiler.h"
#include "mellanox/xlio_types.h"

struct gsock;

static inline int xlio_ret(int r, int errno_before)
{
	errno = r < 0 ? -r : errno_before;
	return r < 0 ? -1 : r;
}

/* table.c: does the version in OSF_XLIO_ABI exist, and how long is a group's
 * attribute struct in it? */
bool xlio_abi_is_known(void);
size_t xlio_group_attr_bytes(void);

/* calls.c: xlio_poll_group_create() and xlio_poll_group_update(), with attributes of
 * @bytes. */
int xlio_group_create_sized(const struct xlio_poll_group_attr *attr,
			    size_t bytes, xlio_poll_group_t *out);
int xlio_group_update_sized(xlio_poll_group_t group,
			    const struct xlio_poll_group_attr *attr,
			    size_t bytes);

/* opt.c */
int xlio_opt_set(struct gsock *s, int level, int name, const void *val,
		 socklen_t len);
