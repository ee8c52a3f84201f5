/* SPDX-License-Identifier: MIT */
/*
 * osfd/closer.h - a process that closes in osfd's place what others may have filled
 *
 *     osfd: sends the descriptor, closes its own, says go -> closer: close()
 *
 * Who closes the last descriptor of a unix socket also releases what is queued in it, and
 * sleeps there as long as its sender has chosen: a socket that lingers, a file of a file
 * system that answers late (FUSE).  Nobody waits for what the closer closes.
 */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"

/* Starts the process, which ends when osfd does.  Call it before osfd has a name, so that
 * a closer that sleeps keeps nothing of osfd's open.  Return: the socket to it, or -errno */
MUST_CHECK int closer_start(void);

/* Closes a descriptor that has no file system behind it, but if the closer has no room
 * for it: then it stays open. */
void closer_close(int closer, int fd);
