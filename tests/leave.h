/* SPDX-License-Identifier: MIT */
/*
 * tests/leave.h - how a test's child process ends
 *
 * Without what its parent has registered for the end; but the counters of a build that
 * measures coverage are written, if there are any.
 */
#pragma once

#include <unistd.h>

#ifdef OSF_COVERAGE
void __gcov_dump(void);
#endif

static inline _Noreturn void leave(int status)
{
#ifdef OSF_COVERAGE
	__gcov_dump();
#endif
	_exit(status);
}
