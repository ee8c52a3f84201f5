/* SPDX-License-Identifier: MIT */
/* tools/osf/port.h - osfd, found and started (port_start.c) */
#pragma once

#include <limits.h>

/* Where osfd's program is.  Return: 0, or -ENOENT */
int osfd_find(char path[PATH_MAX]);

/* Starts osfd for this network namespace, and returns when it listens.
 * Return: 0, or a negative errno after a line that says why not */
int osfd_start(void);

struct reply;

/* osfd_connect(), to an osfd that it starts where none runs.  The one that runs may be
 * about to end with its last port.  Return: a descriptor, or as osfd_connect() */
int osfd_reach(struct reply *hello);
