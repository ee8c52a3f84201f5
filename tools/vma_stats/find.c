/* SPDX-License-Identifier: MIT */
/*
 * tools/vma_stats/find.c - which process is meant, and its statistics file
 *
 *     -p, -n, or the first that runs -> /proc/PID/fd/N, a statistics file
 *                                    -> snapshot, table of packets, log
 *
 * The command looks only at processes of the caller's user; root's looks at all.
 */
#include "vma_stats.h"
#include "../osf/look.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The kernel's PF_EXITING, of the flags in /proc/PID/stat. */
#define IS_EXITING 4u

/* Does the process of this line of /proc/PID/stat run?  A zombie has ended, although its
 * number is not free yet.  So has a process that is ending: it has a state like any
 * other, and no files any more. */
static bool line_says_it_runs(const char *line)
{
	const char *end = strrchr(line, ')');
	unsigned flags;
	char state;

	return end &&
	       sscanf(end, ") %c %*d %*d %*d %*d %*d %u", &state, &flags) ==
		   2 &&
	       state != 'Z' && state != 'X' && !(flags & IS_EXITING);
}

bool process_runs(pid_t pid)
{
	char path[64], line[256];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	FILE *f = fopen(path, "re");
	if (!f)
		return false;
	bool runs = fgets(line, sizeof(line), f) && line_says_it_runs(line);
	fclose(f);
	return runs;
}

static bool is_own(pid_t pid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return !geteuid() || (!stat(path, &st) && st.st_uid == geteuid());
}

static bool has_name(const struct seg *seg, const char *name)
{
	char path[64], exe[4096];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)seg->found_pid);
	ssize_t n = readlink(path, exe, sizeof(exe) - 1);
	exe[n > 0 ? n : 0] = '\0';
	const char *slash = strrchr(exe, '/');
	return strcmp(seg->head.program, name) == 0 ||
	       (slash && strcmp(slash + 1, name) == 0);
}

size_t find_processes(const struct options *o, pid_t **pids)
{
	struct seg_list list = { .is_quiet = true };
	size_t n = 0;

	*pids = NULL;
	if (o->pid) {
		*pids = xgrow(NULL, 0, sizeof(**pids));
		(*pids)[0] = o->pid;
		return 1;
	}
	(void)seg_list_all(&list);
	for (size_t i = 0; i < list.n; i++) {
		pid_t pid = list.segs[i].found_pid;

		if (!is_own(pid) || !process_runs(pid) ||
		    (o->name && !has_name(&list.segs[i], o->name)))
			continue;
		*pids = xgrow(*pids, n, sizeof(**pids));
		(*pids)[n++] = pid;
	}
	seg_list_free(&list);
	return n;
}

/* Is @fd the file that was read, and does its process own it?  The process may put another
 * file under the number at any time, for example one that only root could write. */
static bool is_file_of(const struct seg *seg, int fd, bool writes)
{
	struct stat st, owner;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d", (int)seg->found_pid);
	return !fstat(fd, &st) && !stat(path, &owner) && S_ISREG(st.st_mode) &&
	       st.st_dev == seg->dev && st.st_ino == seg->ino &&
	       (!writes || st.st_uid == owner.st_uid);
}

/* Opens the file of @seg by the process's own descriptor @name.  Return: a descriptor or
 * -errno.  It looks at what the number names before it opens that: a device may do
 * something when root opens it. */
static int open_link(const struct seg *seg, int dir_fd, const char *name,
		     bool writes)
{
	int how =
	    (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	int found = openat(dir_fd, name, O_PATH | O_CLOEXEC);
	char path[64];
	int fd = -ENOENT;

	if (found < 0)
		return -errno;
	if (is_file_of(seg, found, writes)) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", found);
		fd = open(path, how);
		fd = fd < 0 ? -errno : fd;
	}
	close(found);
	return fd;
}

static int open_file(const struct seg *seg, bool writes)
{
	int fd = -ENOENT;
	struct dirent *e;
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)seg->found_pid);
	DIR *dir = opendir(path);
	if (!dir)
		return -errno;
	while (fd < 0 && (e = readdir(dir)))
		if (!fstatat(dirfd(dir), e->d_name, &st, 0) &&
		    st.st_dev == seg->dev && st.st_ino == seg->ino)
			fd = open_link(seg, dirfd(dir), e->d_name, writes);
	closedir(dir);
	return fd;
}

/* What seg_read() leaves out. */
static void read_more(struct process *p)
{
	struct osf_stats_packets rows[OSF_STATS_PACKETS_MAX];
	ssize_t n;

	if (p->seg->head.header_size < OSF_STATS_PACKETS_AT + sizeof(rows))
		return; /* an older one */
	p->has_log = pread(p->fd, &p->log, sizeof(p->log), OSF_STATS_LOG_AT) ==
		     sizeof(p->log);
	n = pread(p->fd, rows, sizeof(rows), OSF_STATS_PACKETS_AT);
	for (size_t i = 0; n == sizeof(rows) && i < OSF_STATS_PACKETS_MAX;
	     i++) {
		if (!rows[i].in_use)
			continue;
		p->packets =
		    xgrow(p->packets, p->n_packets, sizeof(*p->packets));
		p->packets[p->n_packets++] = rows[i];
	}
}

int process_read(struct process *p, pid_t pid, bool writes)
{
	*p = (struct process){ .pid = pid,
			       .fd = -1,
			       .list = { .is_quiet = true },
			       .all = { .is_quiet = true } };
	if (!process_runs(pid))
		return -ESRCH;
	if (!is_own(pid))
		return -EPERM;
	(void)seg_list_pid(&p->list, pid);
	seg_look(&p->list);
	if (!p->list.n)
		return -ENOENT;
	p->seg = &p->list.segs[0];
	int fd = open_file(p->seg, writes);
	if (fd < 0)
		return fd;
	p->fd = fd;
	read_more(p);
	return 0;
}

void process_free(struct process *p)
{
	seg_list_free(&p->list);
	seg_list_free(&p->all);
	seg_free(&p->later);
	free(p->packets);
	index_free(&p->ends);
	if (p->fd >= 0)
		close(p->fd);
}
