/* SPDX-License-Identifier: MIT */
/*
 * tools/vma_stats/zero.c - shows counters from 0 again, without changing them
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
	struct index by_id; /* struct row_id -> its number */
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

static struct row_id id_of(const struct zero_entry *e)
{
	return (struct row_id){ e->is_udp ? e->ino : 0, e->idx, e->in_use,
				e->is_udp, 0 };
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
	index_init(&z->by_id, sizeof(struct row_id), z->n);
	for (size_t i = 0; i < z->n; i++) {
		struct row_id id = id_of(&z->entries[i]);

		index_put(&z->by_id, &id, (uint32_t)i);
	}
	close(fd);
}

static struct zero_entry *find(const struct zeros *z, const struct row *row)
{
	struct row_id id = row_id_of(row);
	uint32_t i = index_get(&z->by_id, &id);

	return i == INDEX_NONE ? NULL : &z->entries[i];
}

/* @z has room for it. */
static struct zero_entry *add(struct zeros *z, const struct row_id *id)
{
	struct zero_entry *e = &z->entries[z->n];

	*e = (struct zero_entry){ .ino = id->ino,
				  .idx = id->idx,
				  .in_use = id->in_use,
				  .is_udp = id->is_udp };
	index_put(&z->by_id, id, (uint32_t)z->n++);
	return e;
}

static void zeros_free(struct zeros *z)
{
	free(z->entries);
	index_free(&z->by_id);
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

/* The TCP sockets that there are. */
static void index_socks(struct index *x, const struct process *p)
{
	index_init(x, sizeof(struct row_id), p->seg->n_socks);
	for (size_t i = 0; i < p->seg->n_socks; i++)
		index_put(
		    x,
		    &(struct row_id){ .idx = p->seg->socks[i].idx,
				      .in_use = p->seg->socks[i].s.in_use },
		    (uint32_t)i);
}

/* @r has what was counted, before zero_apply(). */
int zero_now(const struct options *o, const struct process *p,
	     const struct rows *r)
{
	struct zeros old, z = { 0 };
	struct index socks;

	read_zeros(&old, o, p);
	index_socks(&socks, p);
	z.entries = xcalloc(old.n + r->n, sizeof(*z.entries));
	index_init(&z.by_id, sizeof(struct row_id), old.n + r->n);
	for (size_t i = 0; i < old.n; i++) {
		struct row_id id = id_of(&old.entries[i]);

		/* TCP sockets that are no more are forgotten. */
		if (id.is_udp || index_get(&socks, &id) != INDEX_NONE)
			*add(&z, &id) = old.entries[i];
	}
	for (size_t i = 0; i < r->n && z.n < SOCKS_MAX; i++) {
		struct row_id id = row_id_of(&r->rows[i]);
		struct zero_entry *e = find(&z, &r->rows[i]);

		e = e ? e : add(&z, &id);
		e->c = r->rows[i].c;
	}
	int err = write_zeros(&z, o, p);
	index_free(&socks);
	zeros_free(&z);
	zeros_free(&old);
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
	zeros_free(&z);
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
