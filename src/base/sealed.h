/* SPDX-License-Identifier: MIT */
/*
 * base/sealed.h - memory that other processes may map: a file without a name that can
 * neither shrink nor grow, so that reading a mapping of it cannot fail
 *
 * Any thread, no state.
 */
#pragma once

#include <fcntl.h>
#include <stddef.h>

#include "base/compiler.h"

#define SEALED_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* A memfd of @bytes, sealed; -errno. */
MUST_CHECK int sealed_file(const char *name, size_t bytes);
