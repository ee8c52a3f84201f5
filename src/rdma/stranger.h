/* SPDX-License-Identifier: MIT */
/*
 * rdma/stranger.h - unix sockets to which strangers may have sent descriptors
 *
 * Who lets go of the last number of a socket may sleep for as long as its owner has said
 * (SO_LINGER), and so it is with files of a file system in user space.  A program's thread is
 * not to sleep there.  From Linux 6.16 on a socket can refuse descriptors.  Where it cannot, a
 * thread of ours closes it.
 */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"

/* Nobody can send descriptors to @fd, or to connections that it accepts. */
void stranger_refuse(int fd);
/* The next message, which stays there: does a user send it whom we trust (@fd must have
 * SO_PASSCRED), and has it descriptors?  False: there is none. */
bool stranger_look(int fd, bool *is_ours, bool *has_fds);
/* Close a unix socket, or what a process has sent.  The caller does not sleep. */
void stranger_close(int fd);
void stranger_close_passed(int fd);
void stranger_after_fork(void);
