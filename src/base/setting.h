/* SPDX-License-Identifier: MIT */
/*
 * base/setting.h - variables of the environment, checked
 *
 *     env_text("OSF_...") -> setting_*() -> a value, or the default and a warning
 *
 * A wrong value is the only thing that the library reports unasked: one line on
 * standard error, or in the log if there is one.  Otherwise somebody might measure a
 * setting that is not in force.  A process reads each variable once, at its start or at
 * first use.
 *
 * An empty variable counts as unset.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* 1, yes, true, on or 0, no, false, off.  Return: @unset without the variable, @wrong
 * for any other value */
bool setting_bool(const char *name, bool unset, bool wrong);

/* A whole number from @least to @most.  It is hexadecimal after 0x.  A k, m or g at its
 * end stands for 2^10, 2^20 or 2^30, and a B may follow.  Return: @otherwise if it is
 * no such number */
uint64_t setting_number(const char *name, uint64_t otherwise, uint64_t least,
			uint64_t most);

/* Parses a text in the same way.  Return: false if it is no number, or exceeds 64
 * bits. */
bool setting_parse(const char *text, uint64_t *number);

/* Warns that the value of @name is not @want. */
COLD void setting_wrong(const char *name, const char *want);

/* Prints a line to the log, or to standard error if there is none. */
COLD void setting_warn(const char *fmt, ...) PRINTF(1, 2);
