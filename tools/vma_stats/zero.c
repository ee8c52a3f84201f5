/* SPDX-License-Identifier: MIT */
/*
 * tools/vma_stats/zero.c - counters that begin at 0 again, without a change to any
 *
 *     -z: what the sockets have counted -> DIR/vmastat.PID
 *     each view: the numbers of the program, less those in the file
 *
 * The program's counters serve osf stat and the library itself, so nobody sets them
 * to 0.  The file is its writer's alone (mode 0600); others' files, and what is no
 * such file, are neither believed nor removed.
 */
#include "vma_stats.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x31306f72657a736full
#define PREFIX "vmastat."
#define SOCKS_MAX 65536u

struct zero_head {
	uint64_t magic;
	uint64_t started_ns; /* of the process: its number may come again */
	uint32_t n, entry_bytes;
};

struct zero_entry {
	uint64_t ino; /* of a UDP socket */
	uint32_t idx, in_use, is_udp, reserved;
	struct counters c;
};

struct zeros {
	struct zero_entry *entries;
	size_t n;
};

static char *path_of(const struct options *o, pid_t pid)
{
	return xasprintf("%s/" PREFIX "%d", o->dir, (int)pid);
}

/* A file of ours at @name, or -1. */
static int open_own(int dir_fd, const char *name, struct zero_head *head)
{
	struct stat st;
	int fd = openat(dir_fd, name,
			O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    read(fd, head, sizeof(*head)) == sizeof(*head) &&
	    head->magic == MAGIC &&
	    head->entry_bytes == sizeof(struct zero_entry) &&
	    head->n <= SOCKS_MAX)
		return fd;
	close(fd);
	return -1;
}

static void read_zeros(struct zeros *z, const struct options *o,
		       const struct process *p)
{
	struct zero_head head;
	char *path = path_of(o, p->pid);
	int fd = open_own(AT_FDCWD, path, &head);

	*z = (struct zeros){ 0 };
	free(path);
	if (fd < 0)
		return;
	if (head.started_ns == p->seg->head.started_ns) {
		size_t bytes = head.n * sizeof(*z->entries);

		z->entries = xcalloc(head.n, sizeof(*z->entries));
		if (read(fd, z->entries, bytes) == (ssize_t)bytes)
			z->n = head.n;
	}
	close(fd);
}

static struct zero_entry *find(const struct zeros *z, const struct row *row)
{
	for (size_t i = 0; i < z->n; i++) {
		struct zero_entry *e = &z->entries[i];

		if (e->is_udp == row->is_udp && e->idx == row->idx &&
		    e->in_use == row->in_use &&
		    (!row->is_udp || e->ino == row->ino))
			return e;
	}
	return NULL;
}

static int write_zeros(const struct zeros *z, const struct options *o,
		       const struct process *p)
{
	struct zero_head head = { MAGIC, p->seg->head.started_ns,
				  (uint32_t)z->n, sizeof(*z->entries) };
	size_t bytes = z->n * sizeof(*z->entries);
	char *path = path_of(o, p->pid), *temp = xasprintf("%s.XXXXXX", path);
	int fd = mkostemp(temp, O_CLOEXEC), err = fd < 0 ? -errno : 0;

	if (!err && (write(fd, &head, sizeof(head)) != sizeof(head) ||
		     write(fd, z->entries, bytes) != (ssize_t)bytes))
		err = -EIO;
	if (!err && rename(temp, path) < 0)
		err = -errno;
	if (fd >= 0) {
		close(fd);
		if (err)
			unlink(temp);
	}
	free(temp);
	free(path);
	return err;
}

/* Of a TCP socket that is no more. */
static bool is_ended(const struct process *p, const struct zero_entry *e)
{
	for (size_t i = 0; !e->is_udp && i < p->seg->n_socks; i++)
		if (p->seg->socks[i].idx == e->idx &&
		    p->seg->socks[i].s.in_use == e->in_use)
			return false;
	return !e->is_udp;
}

/* @r has what was counted, before zero_apply(). */
int zero_now(const struct options *o, const struct process *p,
	     const struct rows *r)
{
	struct zeros old, z = { 0 };

	read_zeros(&old, o, p);
	z.entries = xcalloc(old.n + r->n, sizeof(*z.entries));
	for (size_t i = 0; i < old.n; i++)
		if (!is_ended(p, &old.entries[i]))
			z.entries[z.n++] = old.entries[i];
	for (size_t i = 0; i < r->n && z.n < SOCKS_MAX; i++) {
		const struct row *row = &r->rows[i];
		struct zero_entry *e = find(&z, row);

		if (!e) {
			e = &z.entries[z.n++];
			*e = (struct zero_entry){ .ino = row->ino,
						  .idx = row->idx,
						  .in_use = row->in_use,
						  .is_udp = row->is_udp };
		}
		e->c = row->c;
	}
	int err = write_zeros(&z, o, p);
	free(z.entries);
	free(old.entries);
	return err;
}

void zero_apply(const struct options *o, const struct process *p,
		struct rows *r)
{
	struct zeros z;

	read_zeros(&z, o, p);
	for (size_t i = 0; z.n && i < r->n; i++) {
		const struct zero_entry *e = find(&z, &r->rows[i]);

		if (e)
			r->rows[i].c = counters_less(&r->rows[i].c, &e->c, 1);
	}
	free(z.entries);
}

void zero_clean(const struct options *o)
{
	struct zero_head head;
	struct dirent *e;
	char *end;

	DIR *dir = o->forbids_clean ? NULL : opendir(o->dir);
	while (dir && (e = readdir(dir))) {
		const char *number = e->d_name + strlen(PREFIX);

		if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0)
			continue;
		long pid = strtol(number, &end, 10);
		if (end == number || *end || process_runs((pid_t)pid))
			continue;
		int fd = open_own(dirfd(dir), e->d_name, &head);
		if (fd < 0)
			continue;
		unlinkat(dirfd(dir), e->d_name, 0);
		close(fd);
	}
	if (dir)
		closedir(dir);
}
