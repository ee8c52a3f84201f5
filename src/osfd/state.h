/* SPDX-License-Identifier: MIT */
/*
 * osfd/state.h - the file in which osfd finds its ports after a crash
 *
 *     state_open() -> /run/osf/ports-COOKIE, locked -> policy_keep() writes the ports
 *
 * One file for each network namespace.  It is named by the namespace's cookie, which no
 * later one gets, as it would its inode.  An osfd that runs has its file locked; one that
 * ends leaves it empty; one that is killed leaves its ports there.  The next start, in any
 * namespace, removes what is not locked and is empty, or has not changed for a day: its
 * namespace is gone, or nobody wants an osfd there.
 */
#pragma once

#include <stddef.h>

#include "base/compiler.h"

/**
 * state_open() - the file of this namespace
 * @any_socket: of this namespace
 * @path: set, for messages
 *
 * Return: a descriptor, or a negative errno
 */
MUST_CHECK int state_open(int any_socket, char *path, size_t size);
