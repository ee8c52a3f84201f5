/* SPDX-License-Identifier: MIT */
/* base/env.h - settings from the environment */
#pragma once

#include <stdint.h>

/* A number; k, m or g behind it, with a B or without, are powers of 1024.  @otherwise:
 * the variable is not set, or (with a warning) is no number. */
uint64_t env_number(const char *name, uint64_t otherwise);
