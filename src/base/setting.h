/* SPDX-License-Identifier: MIT */
/*
 * base/setting.h - variables of the environment, checked
 *
 *     env_text("OSF_...") -> setting_*() -> a value, or the default and a warning
 *
 * A value that is wrong is the one thing that the library tells unasked: one
 * line on standard error, or in the log if there is one, so that nobody measures
 * a setting that is not in force.  Each variable is read once in a process, at its start or first use.
 *
 * An empty variable counts as one that is not set.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* 1, yes, true, on or 0, no, false, off; @unset without the variable, @wrong
 * for any other value. */
bool setting_bool(const char *name, bool unset, bool wrong);

/* A whole number from @least to @most; with 0x in front hexadecimal, with k, m
 * or g at the end times 2^10, 2^20 or 2^30, with or without a B behind it.  @otherwise when it is none. */
uint64_t setting_number(const char *name, uint64_t otherwise, uint64_t least,
			uint64_t most);

/* The same of a text: false when it is none, or too large for 64 bits. */
bool setting_parse(const char *text, uint64_t *number);

/* Warns that the value of @name is not @want. */
COLD void setting_wrong(const char *name, const char *want);

/* One line to the log or, for want of one, on standard error. */
COLD void setting_warn(const char *fmt, ...) PRINTF(1, 2);
