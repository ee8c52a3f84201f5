/* SPDX-License-Identifier: MIT */
/*
 * base/kept.h - files that a peer sent, and that stay open because a close() might wait
 *
 *     a file of unknown make  ->  kept_add()
 *     a process made by clone(), with a copy of the descriptor table
 *                             ->  kept_close_others() before the program goes on
 *
 * A file system hears of every close(), also of a copy's, and whoever serves it may let
 * the process wait.  So the copies of these are left to the end of the other process,
 * which nobody waits for.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What is @fd, asked of no file system's server?  True also if nobody can say.  False:
 * a socket, a pipe, or what has no file. */
bool kept_is_file(int fd);
/* It stays open, at the number that it has. */
void kept_add(int fd);
uint32_t kept_count(void);
/* Close everything but @a and @b (-1: nothing) and the files among those: system calls
 * only. */
void kept_close_others(int a, int b);
