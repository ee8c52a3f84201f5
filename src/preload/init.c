/* SPDX-License-Identifier: MIT */
/*
 * preload/init.c - how osf comes to life inside a program
 *
 * The constructor runs before main(); calls that come earlier, from constructors of
 * other libraries, are libc's (nothing has an entry yet).  If a rule is wrong the
 * program does not start.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/env.h"
#include "base/fds.h"
#include "base/log.h"
#include "base/spin.h"
#include "group/group.h"
#include "ops/ops.h"
#include "preload/edge.h"
#include "sock/arena.h"

__attribute__((constructor)) static void osf_start(void)
{
	int saved = errno;

	libc_resolve();
	if (getenv("OSF_DISABLE"))
		return;
	log_open();
	env_xlio_name_others();
	spin_configure();
	if (ops_init() == -EINVAL)
		_exit(125);
	int err = arena_open();
	if (err) {
		log_err(
		    "no statistics segment: %s; everything stays with the kernel",
		    strerror(-err));
		return;
	}
	fork_init();
	file_adopt();
	log_info("ready in %s", program_invocation_short_name);
	errno = saved;
}

__attribute__((destructor)) static void osf_stop(void)
{
	groups_at_exit();
	file_exit();
}
