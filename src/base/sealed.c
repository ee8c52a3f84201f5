/* SPDX-License-Identifier: MIT */
/* base/sealed.c - see base/sealed.h */
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/libc.h"
#include "base/nocancel.h"
#include "base/sealed.h"

int sealed_file(const char *name, size_t bytes)
{
	struct rlimit rl;

	/* Beyond the limit of file sizes ftruncate() would raise SIGXFSZ. */
	if (!getrlimit(RLIMIT_FSIZE, &rl) && rl.rlim_cur < bytes)
		return -EFBIG;
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0) /* even if a filter refuses it */
		return errno == EMFILE || errno == ENFILE ? -errno : -ENOMEM;
	if (ftruncate(fd, (off_t)bytes) ||
	    libc.fcntl(fd, F_ADD_SEALS, SEALED_SEALS)) {
		int err = -errno;

		nocancel_close(fd);
		return err;
	}
	return fd;
}
