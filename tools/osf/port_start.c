/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/port_start.c - finds osfd and starts it for this network namespace
 *
 * osfd lies beside osf, where the build puts it, or where it is installed.  It goes into
 * the background by itself when it listens, and ends with the last port.
 */
#include "osf.h"
#include "port.h"
#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "osfd/client.h"

extern char **environ;

/* From osf's own folder. */
static const char *const places[] = { "osfd", "../../src/osfd/osfd",
				      "../sbin/osfd" };

int osfd_find(char path[PATH_MAX])
{
	char dir[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);

	if (n < 0)
		return -errno;
	dir[n] = '\0';
	*strrchr(dir, '/') = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		int len = snprintf(path, PATH_MAX, "%s/%s", dir, places[i]);
		if (len < PATH_MAX && access(path, X_OK) == 0)
			return 0;
	}
	return -ENOENT;
}

int osfd_start(void)
{
	char path[PATH_MAX];
	char name[] = "osfd", on_demand[] = "--on-demand";
	char *argv[] = { name, on_demand, NULL };
	pid_t pid;
	int status;

	if (osfd_find(path) < 0) {
		complain("port: osfd is not installed (it needs libbpf and "
			 "clang to be built)");
		return -ENOENT;
	}
	int err = posix_spawn(&pid, path, NULL, NULL, argv, environ);
	if (err)
		return -err;
	if (waitpid(pid, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ECHILD;
}

/* Each turn is one osfd that ends just then, or one that somebody else has started. */
#define REACH_MAX 20

int osfd_reach(struct reply *hello)
{
	int fd = osfd_connect(hello);

	for (int i = 0; i < REACH_MAX; i++) {
		/* -EIO: that osfd had stopped serving when we connected, and has closed our
		 * connection.  By now it has given up its name. */
		if (fd != -EIO && fd != -ECONNREFUSED && fd != -ECONNRESET &&
		    fd != -EPIPE)
			break;
		if (fd == -ECONNREFUSED) {
			int err = osfd_start();
			if (err)
				return err;
		}
		fd = osfd_connect(hello);
	}
	return fd;
}
