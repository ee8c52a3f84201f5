/* SPDX-License-Identifier: MIT */
/*
 * ops/builtin.h - osf's own protocols in the table of protocols
 *
 * They register as modules do, but have no connect, listen or accept: inet
 * opens a connection, and shm takes it over while it runs.
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
