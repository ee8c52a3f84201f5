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
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* A file, or a directory that is empty. */
static void remove_entry(int dir_fd, const char *name)
{
	if (unlinkat(dir_fd, name, 0) < 0 && errno == EISDIR)
		unlinkat(dir_fd, name, AT_REMOVEDIR);
}

void scratch_close(struct scratch *d)
{
	if (!*d->path)
		return;

	DIR *dir = opendir(d->path);
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			remove_entry(dirfd(dir), e->d_name);
	if (dir)
		closedir(dir);
	rmdir(d->path);
	d->path[0] = '\0';
}
