/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/links.c - see tools/osf/links.h
 *
 * Processes come and go during the search, so it is no error if one has vanished.
 */
#include "osf.h"
#include "links.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void read_fds(struct links *l, DIR *dir, pid_t pid)
{
	static const char head[] = "socket:[";
	struct dirent *e;
	char to[64];

	while ((e = readdir(dir))) {
		ssize_t n =
		    readlinkat(dirfd(dir), e->d_name, to, sizeof(to) - 1);
		if (n <= 0)
			continue;
		to[n] = '\0';
		if (strncmp(to, head, sizeof(head) - 1) != 0)
			continue;
		l->by_ino = xgrow(l->by_ino, l->n, sizeof(*l->by_ino));
		l->by_ino[l->n++] = (struct link){
			.ino = strtoull(to + sizeof(head) - 1, NULL, 10),
			.pid = pid,
			.fd = atoi(e->d_name),
		};
	}
}

uint64_t netns_of(pid_t pid)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	return stat(path, &st) < 0 ? 0 : st.st_ino;
}

static void read_netns(struct links *l, pid_t pid)
{
	uint64_t ino = netns_of(pid);

	if (!ino)
		return;
	for (size_t i = 0; i < l->n_netns; i++)
		if (l->netns[i].ino == ino)
			return;
	l->netns = xgrow(l->netns, l->n_netns, sizeof(*l->netns));
	l->netns[l->n_netns++] = (struct netns){ ino, pid };
}

static void read_process(struct links *l, pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	DIR *dir = opendir(path);
	if (!dir) {
		l->is_all = l->is_all && errno == ENOENT; /* it ended */
		return;
	}
	read_fds(l, dir, pid);
	closedir(dir);
	read_netns(l, pid);
}

static int compare_pids(const struct link *x, const struct link *y)
{
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->fd < y->fd ? -1 : x->fd > y->fd;
}

static int by_pid(const void *a, const void *b) { return compare_pids(a, b); }

static int by_ino(const void *a, const void *b)
{
	const struct link *x = a, *y = b;

	if (x->ino != y->ino)
		return x->ino < y->ino ? -1 : 1;
	return compare_pids(x, y);
}

void links_read(struct links *l)
{
	struct dirent *e;
	char *end;

	*l = (struct links){ .is_all = true };
	DIR *proc = opendir("/proc");
	while (proc && (e = readdir(proc))) {
		long pid = strtol(e->d_name, &end, 10);
		if (pid > 0 && !*end)
			read_process(l, (pid_t)pid);
	}
	if (proc)
		closedir(proc);
	if (!l->n)
		return;
	l->by_pid = xcalloc(l->n, sizeof(*l->by_pid));
	memcpy(l->by_pid, l->by_ino, l->n * sizeof(*l->by_pid));
	qsort(l->by_ino, l->n, sizeof(*l->by_ino), by_ino);
	qsort(l->by_pid, l->n, sizeof(*l->by_pid), by_pid);
}

void links_free(struct links *l)
{
	free(l->by_ino);
	free(l->by_pid);
	free(l->netns);
	*l = (struct links){ 0 };
}

const struct link *links_of(const struct links *l, uint64_t ino, size_t *n)
{
	size_t low = 0, high = l->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (l->by_ino[mid].ino < ino)
			low = mid + 1;
		else
			high = mid;
	}
	for (*n = 0; low + *n < l->n && l->by_ino[low + *n].ino == ino;)
		++*n;
	return *n ? &l->by_ino[low] : NULL;
}

uint64_t links_ino(const struct links *l, pid_t pid, int fd)
{
	const struct link key = { .pid = pid, .fd = fd };
	const struct link *found =
	    l->n ? bsearch(&key, l->by_pid, l->n, sizeof(key), by_pid) : NULL;

	return found ? found->ino : 0;
}
