/* SPDX-License-Identifier: MIT */
/*
 * preload/async.h - system calls that the kernel carries out later, or
 * elsewhere
 *
 * They name descriptors in memory that we do not see.  So any connection that
 * they may reach goes back to the kernel.
 */
#pragma once

#include "base/atomic.h"

struct iocb;

/* Hand every present and future connection of the process to the kernel, unless
 * OSF_IO_URING=files. */
void async_leave_all(void);
/* io_submit(2) of @n control blocks. */
void async_submitted(struct iocb **blocks, long n);

/* uring.c.  Descriptors that io_uring_register(2) is given. */
void uring_registers(unsigned opcode, const void *arg, unsigned n);

/* The function @name in the library whose functions we interpose. */
void *async_next(const char *name, const char *library);
#define ASYNC_NEXT(name, library)                                              \
	({                                                                     \
		static typeof(name) *cached_;                                  \
		typeof(name) *next_ = load_rlx(&cached_);                      \
		if (!next_) {                                                  \
			next_ = async_next(#name, library);                    \
			store_rlx(&cached_, next_);                            \
		}                                                              \
		next_;                                                         \
	})
