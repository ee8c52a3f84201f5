/* SPDX-License-Identifier: MIT */
/*
 * api/xlio/edge.h - where negative errnos become what mellanox/xlio.h promises
 *
 * As for sockets: -1 and errno, and on success errno as it was.
 */
#pragma once

#include <errno.h>

#include "base/compiler.h"

static inline int xlio_ret(int r, int errno_before)
{
	errno = r < 0 ? -r : errno_before;
	return r < 0 ? -1 : r;
}
