/* SPDX-License-Identifier: MIT */
/* base/auto.h - things that live to the end of their block (control path only) */
#pragma once

#include <stdlib.h>
#include "base/libc.h"
#include "base/nocancel.h"

static inline void auto_close(int *fd)
{
	if (*fd >= 0)
		nocancel_close(*fd);
}

static inline void auto_free(void *p) { free(*(void **)p); }

#define AUTOCLOSE __attribute__((cleanup(auto_close)))
#define AUTOFREE __attribute__((cleanup(auto_free)))

/* Take ownership out of an AUTOCLOSE variable. */
static inline int take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}
