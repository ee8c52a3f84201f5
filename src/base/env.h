/* SPDX-License-Identifier: MIT */
/*
 * base/env.h - variables of the environment, and those with other names that mean the same:
 * libxlio's, libvma's, and older ones of ours
 *
 * If several are set, ours counts, else libxlio's: docs/xlio.md, "Variables of libxlio",
 * and base/vma_env.def.
 */
#pragma once

#include <stdbool.h>

/* Return: the value of the variable, or else of libxlio's or libvma's; NULL: neither is set. */
const char *env_text(const char *name);

/* Return: which of these variables says it, for messages. */
const char *env_name(const char *name);

/* Return: the name of libxlio's rule file, unless its configuration is JSON, or of
 * libvma's; NULL: none. */
const char *env_other_rules(void);

/* XLIO_TRACELEVEL or VMA_TRACELEVEL as a level of base/log.h; @otherwise: it is not set. */
int env_other_log_level(int otherwise);
/* 0 to 3: what each line of the log begins with. */
int env_other_log_details(void);

/* XLIO_OFFLOADED_SOCKETS=0, VMA_OFFLOADED_SOCKETS=0: sockets are the kernel's unless their thread says so. */
bool env_other_leaves(void);

/* XLIO_TCP_NODELAY=1, VMA_TCP_NODELAY=1: TCP sockets begin with that option. */
bool env_other_nodelay(void);

/* Logs each variable of libxlio and libvma that has no effect here. */
void env_name_others(void);
