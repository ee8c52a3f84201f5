/* SPDX-License-Identifier: MIT */
/*
 * base/program.h - the program that this process executes
 */
#pragma once

#include <stdbool.h>

/* The last part of argv[0] at the start.  Servers overwrite their arguments later, for
 * ps(1) to show, and program_invocation_short_name points there. */
const char *program_name(void);

/* Saves the name; called before main(). */
void program_start(void);

/* Whether Go's compiler made it.  Then its system calls are instructions of its own,
 * which we do not see. */
bool program_is_go(void);
