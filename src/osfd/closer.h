/* SPDX-License-Identifier: MIT */
/*
 * osfd/closer.h - a process that closes in osfd's place what others may have filled
 *
 *     osfd: sends the descriptor, closes its own, says go -> closer: close()
 *
 * Descriptors may be queued in a unix socket.  Whoever closes its last descriptor also
 * closes these, and that may sleep as long as their sender has chosen: a socket that
 * lingers, a file of a file system that answers late (FUSE).  Nobody waits for what the
 * closer closes.
 */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"

/* Starts the process, which ends when osfd does.  Call it before osfd has a name, so that a
 * closer that sleeps holds none of osfd's descriptors open.  Return: the socket to it, or
 * -errno */
MUST_CHECK int closer_start(void);

/* Has the closer close a descriptor that has no file system behind it.  If the closer has
 * no room for it, the descriptor stays open. */
void closer_close(int closer, int fd);
