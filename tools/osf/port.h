/* SPDX-License-Identifier: MIT */
/* tools/osf/port.h - osfd, found and started (port_start.c) */
#pragma once

/* Starts osfd for this network namespace, and returns when it listens.
 * Return: 0, or a negative errno after a line that says why not */
int osfd_start(void);
