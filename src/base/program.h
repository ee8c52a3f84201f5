/* SPDX-License-Identifier: MIT */
/*
 * base/program.h - the program that this process executes
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The last part of argv[0] at the start.  Servers overwrite their arguments later, for
 * ps(1) to show, and program_invocation_short_name points there. */
const char *program_name(void);

/* A number of the path and of the arguments with which the process was started (of their first
 * 4096 bytes).  Another run of the same command has the same one. */
uint64_t program_number(void);

/* Saves them; called before main(). */
void program_start(char *const *argv);

/* Whether Go's compiler made it.  Then its system calls are instructions of its own,
 * which we do not see. */
bool program_is_go(void);
