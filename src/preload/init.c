/* SPDX-License-Identifier: MIT */
/*
 * preload/init.c - how osf starts inside a program
 *
 * The constructor runs before main().  Constructors of other libraries may make
 * calls earlier; those go to libc, because nothing has an entry yet.  Each
 * wrong setting gives a warning; a wrong rule leaves the whole program on the
 * kernel.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "api/vma/vma.h"
#include "base/fds.h"
#include "base/log.h"
#include "base/program.h"
#include "base/setting.h"
#include "group/group.h"
#include "ops/ops.h"
#include "preload/edge.h"
#include "sock/arena.h"

static bool is_list_of_numbers(const char *s)
{
	for (;; s++) {
		size_t n = strspn(s, "0123456789");

		s += n;
		if (!n || !*s || *s != ',')
			return n && !*s;
	}
}

/* Settings that are read late: check them now. */
static void check_late_settings(void)
{
	const char *uring = secure_getenv("OSF_IO_URING");
	const char *uids = secure_getenv("OSF_ALLOW_UIDS");

	if (uring && *uring && strcmp(uring, "files") && strcmp(uring, "all"))
		setting_wrong("OSF_IO_URING", "files or all");
	if (uids && *uids && !is_list_of_numbers(uids))
		setting_wrong("OSF_ALLOW_UIDS",
			      "user numbers with commas between");
}

__attribute__((constructor)) static void osf_start(int argc, char **argv)
{
	int saved = errno;

	libc_resolve();
	program_start(argv);
	if (!ops_start())
		return;
	check_late_settings();
	vma_loaded();
	if (program_is_go()) {
		arena_totals()->n_raw = 1;
		log_warn(
		    "%s is written in Go: its system calls do not come by, "
		    "and everything stays with the kernel",
		    program_name());
	}
	fork_init();
	file_adopt();
	log_info("ready in %s", program_name());
	errno = saved;
}

__attribute__((destructor)) static void osf_stop(void)
{
	groups_at_exit();
	file_exit();
}
