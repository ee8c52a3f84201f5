/* SPDX-License-Identifier: MIT */
/*
 * api/xlio/static.c - how the static library starts inside a program
 *
 * It has poll groups and the XLIO socket API, but no file table: it defines no
 * function of libc's, so the program's own sockets stay with the kernel.  It
 * needs no fork handling for files; groups end in the child.
 */
#include <errno.h>
#include <pthread.h>

#include "base/fork_lock.h"
#include "base/libc.h"
#include "base/lock.h"
#include "base/program.h"
#include "group/group.h"
#include "ops/ops.h"
#include "sock/arena.h"

static void in_child(void)
{
	lock_after_fork();
	fork_lock_child();
	arena_after_fork();
	ops_after_fork();
}

__attribute__((constructor)) static void osf_start(int argc, char **argv)
{
	int saved = errno;

	libc_resolve();
	program_start(argv);
	if (ops_start())
		pthread_atfork(fork_lock_get, fork_lock_put, in_child);
	errno = saved;
}

__attribute__((destructor)) static void osf_stop(void) { groups_at_exit(); }
