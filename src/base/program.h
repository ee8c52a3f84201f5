/* SPDX-License-Identifier: MIT */
/*
 * base/program.h - what this process executes
 */
#pragma once

#include <stdbool.h>

/* The last part of argv[0] as it was at the start.  Servers write over their
 * arguments later, to be seen in ps(1), and program_invocation_short_name
 * points there. */
const char *program_name(void);

/* Keeps it; before main(). */
void program_start(void);

/* Was it made by Go's compiler?  Then its system calls are instructions of its
 * own, and none of them comes by. */
bool program_is_go(void);
