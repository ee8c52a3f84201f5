/* SPDX-License-Identifier: MIT */
/*
 * base/kept.h - files that a peer sent, and that stay open because a close() might wait
 *
 *     a file that we do not know  ->  kept_add()
 *     a process made by clone(), with a copy of the descriptor table
 *                             ->  kept_close_others() before the program goes on
 *
 * The kernel tells a file system of every close(), even of a copy.  The server of that
 * file system may let the process wait.  So the other process does not close its copies of
 * these files: they close when it ends, and nobody waits for that.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Is @fd a file?  True also if nobody can say.  False: a socket, a pipe, or something
 * without a file.  The check asks no server of a file system, because a server may let
 * us wait. */
bool kept_is_file(int fd);
/* The descriptor stays open, under its number. */
void kept_add(int fd);
uint32_t kept_count(void);
/* Close everything but @a, @b and @c (-1: nothing) and the files among those: system calls
 * only. */
void kept_close_others(int a, int b, int c);
