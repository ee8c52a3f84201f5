/* SPDX-License-Identifier: MIT */
/*
 * ops/builtin.h - osf's own protocols, as the table of protocols has them
 *
 * They register as modules do.  What they have none of is calls: a connection is
 * opened by inet, and shm takes it over while it runs.
 */
#pragma once

#include <stdbool.h>

#include "osf/proto.h"

extern const struct osf_proto builtin_inet, builtin_shm;

/* @with_shm: it is not switched off. */
void builtin_register(bool with_shm);

static inline bool is_builtin(const struct osf_proto *p)
{
	return p == &builtin_inet || p == &builtin_shm;
}
