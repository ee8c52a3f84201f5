/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/seg_list.c - finds statistics files
 *
 *     /proc/PID/fd/N -> "/memfd:osf-stats (deleted)"  -> seg_read()
 *     DIR/PID.N.osf                                   -> seg_read()
 *
 * A child inherits its parent's descriptors, and with them the parent's segment.  So a
 * segment counts only if the process that has it open is the process whose number is in it
 * (the number as seen from here, or from inside its pid namespace).
 *
 * Processes come and go during the search, so it is no error if one has vanished.
 */
#include "osf.h"
#include "seg.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMPLAINTS_MAX                                                         \
	20u /* any user can leave as many bad files as it likes */

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

static bool list_has(const struct seg_list *l, const struct seg *seg)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->segs[i].dev == seg->dev && l->segs[i].ino == seg->ino)
			return true;
	return false;
}

static void list_add(struct seg_list *l, struct seg *seg)
{
	if (list_has(l, seg)) {
		seg_free(seg);
		return;
	}
	l->segs = xgrow(l->segs, l->n, sizeof(*seg));
	l->segs[l->n++] = *seg;
}

/* A process that is being born, or died in that moment, has nothing to say. */
static void list_bad(struct seg_list *l, const char *dir, const char *name,
		     int err, const char *why)
{
	if (err == -EAGAIN)
		return;
	l->n_bad++;
	if (!l->is_quiet && l->n_bad <= COMPLAINTS_MAX)
		complain("%s/%s: %s", dir, name, why);
	else if (!l->is_quiet && l->n_bad == COMPLAINTS_MAX + 1)
		complain("and more files that are no segments");
}

void seg_list_free(struct seg_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		seg_free(&l->segs[i]);
	free(l->segs);
	free(l->costs);
	l->segs = NULL;
	l->costs = NULL;
	l->n = l->n_costs = 0;
}

static int compare_age(const void *a, const void *b)
{
	const struct seg *x = a, *y = b;

	if (x->head.pid != y->head.pid)
		return x->head.pid < y->head.pid ? -1 : 1;
	if (x->head.started_ns != y->head.started_ns)
		return x->head.started_ns < y->head.started_ns ? -1 : 1;
	return 0;
}

static void list_sort(struct seg_list *l)
{
	if (l->n)
		qsort(l->segs, l->n, sizeof(*l->segs), compare_age);
}

int seg_list_dir(struct seg_list *l, const char *path)
{
	char why[SEG_WHY_MAX];
	struct dirent *e;
	struct seg seg;

	DIR *dir = opendir(path);
	if (!dir)
		return -errno;

	while ((e = readdir(dir))) {
		if (!ends_with(e->d_name, ".osf"))
			continue;
		int fd = openat(dirfd(dir), e->d_name,
				O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY |
				    O_NOFOLLOW);
		int err = fd < 0 ? -errno : seg_read(&seg, fd, l, why);
		if (fd < 0)
			list_bad(l, path, e->d_name, err, strerror(-err));
		else if (err)
			list_bad(l, path, e->d_name, err, why);
		else
			list_add(l, &seg);
		if (fd >= 0)
			close(fd);
	}
	closedir(dir);
	list_sort(l);
	return 0;
}

bool seg_is_own_pid(pid_t pid, uint32_t inner)
{
	char *line = NULL, *path;
	size_t size = 0;
	bool yes = false;

	if ((uint32_t)pid == inner)
		return true;
	path = xasprintf("/proc/%d/status", (int)pid);
	FILE *f = fopen(path, "re");
	free(path);

	while (f && getline(&line, &size, f) > 0) {
		if (strncmp(line, "NSpid:", 6) != 0)
			continue;
		const char *last = strrchr(line, '\t');
		yes = last && strtoul(last, NULL, 10) == inner;
	}
	free(line);
	if (f)
		fclose(f);
	return yes;
}

static bool is_segment_link(int dir_fd, const char *name, pid_t pid)
{
	char to[256], prefix[24];
	ssize_t n = readlinkat(dir_fd, name, to, sizeof(to) - 1);

	if (n < 0)
		return false;
	to[n] = '\0';
	if (strcmp(to, "/memfd:" OSF_STATS_MEMFD " (deleted)") == 0)
		return true;

	/* With OSF_STATS_DIR: DIR/PID.N.osf. */
	const char *slash = strrchr(to, '/');
	snprintf(prefix, sizeof(prefix), "/%d.", (int)pid);
	return slash && strncmp(slash, prefix, strlen(prefix)) == 0 &&
	       ends_with(slash, ".osf");
}

static void add_fd(struct seg_list *l, int dir_fd, const char *dir,
		   const char *name, pid_t pid)
{
	char why[SEG_WHY_MAX];
	struct seg seg;
	int fd =
	    openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return; /* closed since */
	int err = seg_read(&seg, fd, l, why);
	if (err) {
		list_bad(l, dir, name, err, why);
	} else if (seg_is_own_pid(pid, seg.head.pid)) {
		seg.found_pid = pid;
		list_add(l, &seg);
	} else {
		seg_free(&seg);
	}
	close(fd);
}

int seg_list_pid(struct seg_list *l, pid_t pid)
{
	char path[64];
	struct dirent *e;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	DIR *dir = opendir(path);
	if (!dir)
		return -errno;

	while ((e = readdir(dir)))
		if (is_segment_link(dirfd(dir), e->d_name, pid))
			add_fd(l, dirfd(dir), path, e->d_name, pid);
	closedir(dir);
	return 0;
}

void seg_list_running(struct seg_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		struct seg_list of_pid = { .is_quiet = true };
		struct seg *seg = &l->segs[i];

		(void)seg_list_pid(&of_pid, (pid_t)seg->head.pid);
		if (list_has(&of_pid, seg))
			seg->found_pid = (pid_t)seg->head.pid;
		seg_list_free(&of_pid);
	}
}

int seg_list_all(struct seg_list *l)
{
	struct dirent *e;
	char *end;

	DIR *proc = opendir("/proc");
	if (!proc)
		return -errno;

	while ((e = readdir(proc))) {
		long pid = strtol(e->d_name, &end, 10);
		if (pid > 0 && !*end)
			(void)seg_list_pid(l, (pid_t)pid); /* or may not */
	}
	closedir(proc);
	list_sort(l);
	return 0;
}

struct seg_sums seg_dir_sums(const char *dir, size_t *n_segs)
{
	struct seg_list list = { .is_quiet = true };
	struct seg_sums all = { 0 };

	if (seg_list_dir(&list, dir) == 0)
		for (size_t i = 0; i < list.n; i++)
			seg_sums_add(&all, &list.segs[i]);
	if (n_segs)
		*n_segs = list.n;
	seg_list_free(&list);
	return all;
}
