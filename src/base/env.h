/* SPDX-License-Identifier: MIT */
/*
 * base/env.h - variables of the environment, and their counterparts of libxlio
 *
 * Some variables of libxlio mean the same as one of ours, which goes first:
 * docs/xlio.md, "Variables of libxlio".
 */
#pragma once

#include <stdbool.h>

/* What the variable says, or when it is not set its counterpart of libxlio's; NULL:
 * neither says anything. */
const char *env_text(const char *name);

/* libxlio's rule file, unless its configuration is JSON; NULL: none. */
const char *env_xlio_rules(void);

/* XLIO_TRACELEVEL as a level of base/log.h; @otherwise: it is not set. */
int env_xlio_log_level(int otherwise);

/* XLIO_OFFLOADED_SOCKETS=0: sockets are the kernel's unless their thread says so. */
bool env_xlio_leaves(void);

/* Log each variable of libxlio's that has no effect here. */
void env_xlio_name_others(void);
