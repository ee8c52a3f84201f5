/* SPDX-License-Identifier: MIT */
/*
 * osfd/state.h - the file in which osfd finds its ports after a crash
 *
 *     state_open() -> /run/osf/ports-COOKIE, locked -> policy_keep() writes the ports
 *
 * Each network namespace has a file, named by the namespace's cookie: no later namespace
 * gets the same cookie, as it could get the same inode.  An osfd that runs has its file
 * locked; one that ends empties it; one that is killed leaves its ports in it.  The next
 * start, in any namespace, removes files that are not locked and are empty or a day old:
 * their namespace is gone, or nobody wants an osfd there.
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
