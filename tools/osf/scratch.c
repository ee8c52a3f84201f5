/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/scratch.c - a private directory for a short while
 *
 *     scratch_open() -> OSF_STATS_DIR, or a server's files -> scratch_close()
 *
 * In /dev/shm when there is one, so that counters never go to a disk; else in
 * TMPDIR or /tmp.  Nobody but its owner may enter it.
 */
#include "osf.h"
#include "scratch.h"
#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int try_parent(struct scratch *d, const char *parent)
{
	char path[sizeof(d->path)];
	int n = snprintf(path, sizeof(path), "%s/osf.XXXXXX", parent);

	if (n < 0 || n >= (int)sizeof(path))
		return -ENAMETOOLONG;
	if (!mkdtemp(path)) /* mode 0700 */
		return -errno;
	memcpy(d->path, path, sizeof(path));
	return 0;
}

int scratch_open(struct scratch *d)
{
	const char *tmpdir = getenv("TMPDIR");
	int err = try_parent(d, "/dev/shm");

	if (err && tmpdir && *tmpdir == '/')
		err = try_parent(d, tmpdir);
	if (err)
		err = try_parent(d, "/tmp");
	return err;
}

static int remove_entry(const char *path, const struct stat *st, int kind,
			struct FTW *ftw)
{
	(void)remove(
	    path); /* what cannot be removed stays, and all else goes */
	return 0;
}

void scratch_close(struct scratch *d)
{
	if (!*d->path)
		return;
	nftw(d->path, remove_entry, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	d->path[0] = '\0';
}
