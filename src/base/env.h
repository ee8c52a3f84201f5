/* SPDX-License-Identifier: MIT */
/*
 * base/env.h - variables of the environment, and libxlio's variables that mean the same
 *
 * If both are set, ours counts: docs/xlio.md, "Variables of libxlio".
 */
#pragma once

#include <stdbool.h>

/* Return: the value of the variable, or else of libxlio's; NULL: neither is set. */
const char *env_text(const char *name);

/* Return: the name of libxlio's rule file, unless its configuration is JSON; NULL:
 * none. */
const char *env_xlio_rules(void);

/* XLIO_TRACELEVEL as a level of base/log.h; @otherwise: it is not set. */
int env_xlio_log_level(int otherwise);

/* XLIO_OFFLOADED_SOCKETS=0: sockets are the kernel's unless their thread says so. */
bool env_xlio_leaves(void);

/* Logs each variable of libxlio that has no effect here. */
void env_xlio_name_others(void);
