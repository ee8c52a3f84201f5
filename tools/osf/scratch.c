/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/scratch.c - a private directory for a short while
 *
 *     scratch_open() -> OSF_STATS_DIR, or a server's files -> scratch_close()
 *
 * It is made in /dev/shm if there is one, so that counters never go to a disk, or else in
 * TMPDIR or /tmp.  Only its owner may enter it.
 *
 * Its owner may be killed.  So the owner holds a lock on the file LOCK in it, and a program
 * under osf holds one on its segment there.  scratch_sweep() removes the directories of
 * this user in which nobody holds a lock any more.
 */
#include "osf.h"
#include "scratch.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHM "/dev/shm"
#define PREFIX "osf."
#define TEMPLATE PREFIX "XXXXXX"
#define LOCK ".lock"
#define NEW ".new"

static void remove_all(const char *path);

/* A directory whose owner locks it.  0 or a negative errno. */
static int try_parent(struct scratch *d, const char *parent)
{
	char path[sizeof(d->path)], lock[sizeof(path) + sizeof(LOCK)];
	char made[sizeof(lock) + sizeof(NEW)];
	int n = snprintf(path, sizeof(path), "%s/" TEMPLATE, parent);

	if (n < 0 || n >= (int)sizeof(path))
		return -ENAMETOOLONG;
	if (!mkdtemp(path)) /* mode 0700 */
		return -errno;
	snprintf(lock, sizeof(lock), "%s/" LOCK, path);
	snprintf(made, sizeof(made), "%s" NEW, lock);
	/* Other users cannot enter the directory, and a sweep ignores a directory without
	 * this file.  So the file gets its name only when it is locked. */
	int fd = open(made, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int err =
	    fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || rename(made, lock) < 0
		? -errno
		: 0;
	if (err) {
		if (fd >= 0)
			close(fd);
		remove_all(path);
		return err;
	}
	d->lock_fd = fd;
	memcpy(d->path, path, sizeof(path));
	return 0;
}

int scratch_open(struct scratch *d)
{
	const char *tmpdir = getenv("TMPDIR");
	int err = try_parent(d, SHM);

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

static void remove_all(const char *path)
{
	nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

void scratch_close(struct scratch *d)
{
	if (!*d->path)
		return;
	remove_all(d->path);
	close(d->lock_fd);
	d->path[0] = '\0';
}

/* Does nobody hold a lock on the file @name of @dir? */
static bool is_unlocked(int dir, const char *name)
{
	int fd =
	    openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	bool is_free = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;

	if (fd >= 0)
		close(fd);
	return is_free;
}

/* Is @dir a directory of ours that its owner has left, with all others? */
static bool is_left(DIR *dir)
{
	struct stat st;

	if (fstat(dirfd(dir), &st) < 0 || st.st_uid != geteuid() ||
	    (st.st_mode & 07777) != 0700 || !is_unlocked(dirfd(dir), LOCK))
		return false;
	for (struct dirent *e; (e = readdir(dir));) {
		size_t n = strlen(e->d_name);

		if (n > 4 && strcmp(e->d_name + n - 4, ".osf") == 0 &&
		    !is_unlocked(dirfd(dir), e->d_name))
			return false;
	}
	return true;
}

void scratch_sweep(void)
{
	char path[sizeof(((struct scratch *)0)->path)];
	DIR *all = opendir(SHM);

	for (struct dirent *e; all && (e = readdir(all));) {
		if (strncmp(e->d_name, PREFIX, sizeof(PREFIX) - 1) != 0 ||
		    strlen(e->d_name) != sizeof(TEMPLATE) - 1)
			continue;
		int fd =
		    openat(dirfd(all), e->d_name,
			   O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		DIR *dir = fd < 0 ? NULL : fdopendir(fd);
		if (dir && is_left(dir)) {
			snprintf(path, sizeof(path), SHM "/%.32s", e->d_name);
			remove_all(path);
		}
		if (dir)
			closedir(dir);
		else if (fd >= 0)
			close(fd);
	}
	if (all)
		closedir(all);
}
