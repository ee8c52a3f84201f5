/* SPDX-License-Identifier: MIT */
/*
 * ops/inside.h - this thread runs an op of a module's
 *
 * Calls of libc's that the op makes are the module's own: they reach the kernel, and no
 * module is asked about them.
 */
#pragma once

#include <stdbool.h>

extern __thread bool ops_inside __attribute__((tls_model("initial-exec")));

/* Run an op, ASK(result =, p->op()), and restore ops_inside afterwards. */
#define ASK(result, call)                                                      \
	do {                                                                   \
		bool was_inside = ops_inside;                                  \
		ops_inside = true;                                             \
		result(call);                                                  \
		ops_inside = was_inside;                                       \
	} while (0)
