/* SPDX-License-Identifier: MIT */
/*
 * tools/vma_stats/control.c - what the command writes into a running program
 *
 *     -l, -D  ->  the level and details of its log, in its statistics file
 *     -S      ->  the full view of a socket, into the program's log or its
 *                 standard error
 *
 * The program does nothing for this, so it works whatever the program waits for.
 */
#include "vma_stats.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define READER_MS 1000 /* that we wait for who reads the program's log */

static const struct {
	const char *name;
	int level;
} levels[] = {
	{ "none", VMA_LEVEL_NONE },
	{ "panic", 0 },
	{ "error", VMA_LEVEL_ERROR },
	{ "warn", 2 },
	{ "warning", 2 },
	{ "info", VMA_LEVEL_INFO },
	{ "information", VMA_LEVEL_INFO },
	{ "details", 4 },
	{ "debug", VMA_LEVEL_DEBUG },
	{ "fine", 6 },
	{ "func", 6 },
	{ "finer", 7 },
	{ "func_all", 7 },
	{ "func-all", 7 },
	{ "all", 8 },
};

int level_parse(const char *s, int otherwise)
{
	char *end;
	long n = strtol(s, &end, 10);

	if (end != s && !*end)
		return n >= VMA_LEVEL_NONE && n <= 8 ? (int)n : otherwise;
	for (size_t i = 0; i < sizeof(levels) / sizeof(*levels); i++)
		if (strcasecmp(s, levels[i].name) == 0)
			return levels[i].level;
	return otherwise;
}

const char *level_name(int level)
{
	for (size_t i = 0; i < sizeof(levels) / sizeof(*levels); i++)
		if (levels[i].level == level)
			return levels[i].name;
	return "unknown";
}

/* Ours: -1 nothing, 0 errors, 1 warnings, 2 what happens, 3 everything. */
static int our_level(int level)
{
	return level < VMA_LEVEL_ERROR   ? -1
	       : level < VMA_LEVEL_INFO  ? level - 1
	       : level < VMA_LEVEL_DEBUG ? 2
					 : 3;
}

static int put(const struct process *p, size_t at, int32_t value)
{
	ssize_t n =
	    pwrite(p->fd, &value, sizeof(value), OSF_STATS_LOG_AT + (off_t)at);

	return n == sizeof(value) ? 0 : n < 0 ? -errno : -EIO;
}

int control_log(const struct options *o, const struct process *p)
{
	int err = 0;

	if (!o->has_level && !o->has_details)
		return 0;
	if (!p->has_log) {
		tell_error("process %d runs under an older osf, whose log "
			   "cannot be changed",
			   (int)p->pid);
		return -EPROTONOSUPPORT;
	}
	if (o->has_level)
		err = put(p, offsetof(struct osf_stats_log, level),
			  our_level(o->level));
	if (!err && o->has_details)
		err =
		    put(p, offsetof(struct osf_stats_log, details), o->details);
	if (err)
		tell_error("the log of process %d cannot be changed: %s",
			   (int)p->pid, strerror(-err));
	return err;
}

/* ---- dump ---- */

/* Gets a copy of the program's own descriptor, or else opens its file anew.  The latter is
 * refused for a regular file without O_APPEND, because the program's next line would
 * overwrite ours; for a file of another user's process, which may have fewer rights than
 * root; and for one that the program may not write. */
static int open_log(pid_t pid, int fd)
{
	char path[64];
	struct stat st, owner;
	int copy = fd_copy(pid, fd);
	unsigned flags = fd_flags(pid, fd);

	if (copy >= 0)
		return copy;
	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (stat(path, &owner) < 0 || owner.st_uid != geteuid() ||
	    flags & O_PATH || (flags & O_ACCMODE) == O_RDONLY)
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	if (stat(path, &st) < 0 || (S_ISREG(st.st_mode) && !(flags & O_APPEND)))
		return -1;
	return open(path,
		    O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* Whoever should read it may not.  A pipe that can be written has room for PIPE_BUF. */
static bool write_all(int fd, const char *text)
{
	size_t left = strlen(text);

	signal(SIGPIPE, SIG_IGN);
	while (left) {
		struct pollfd p = { .fd = fd, .events = POLLOUT };
		size_t n = left < PIPE_BUF ? left : PIPE_BUF;

		if (poll(&p, 1, READER_MS) != 1 || !(p.revents & POLLOUT))
			return false;
		ssize_t r = write(fd, text, n);
		if (r < 0)
			return false;
		text += r;
		left -= (size_t)r;
	}
	return true;
}

/* As libvma's log decides: not below the program's level, which is info unless it
 * says otherwise. */
static bool is_heard(const struct options *o, const struct process *p)
{
	int level = p->has_log && p->log.fd >= 0 ? p->log.level : 2;

	return our_level(o->dump_level) <= level;
}

static char *dump_text(const struct options *o, const struct rows *r)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	for (size_t i = 0; f && i < r->n; i++)
		if (!o->dump_fd || r->rows[i].fd == o->dump_fd)
			print_full(f, &r->rows[i], &r->rows[i].c, "");
	if (f)
		fclose(f);
	return text;
}

int control_dump(const struct options *o, const struct process *p,
		 const struct rows *r)
{
	char *text = dump_text(o, r);
	int fd = open_log(p->pid, p->has_log && p->log.fd >= 0 ? p->log.fd
							       : STDERR_FILENO);

	if (o->dump_fd)
		tell("Dumping Fd %d to the program's log, level %s", o->dump_fd,
		     level_name(o->dump_level));
	else
		tell("Dumping all Fds to the program's log, level %s",
		     level_name(o->dump_level));
	if (!text || !*text) {
		tell_error("process %d has no such socket", (int)p->pid);
	} else if (!is_heard(o, p)) {
		tell("The program's log leaves that level out");
	} else if (fd < 0 || !write_all(fd, text)) {
		tell("The program's log cannot be written, so here it is:");
		fputs(text, stdout);
	}
	int err = text && *text ? 0 : -ENOENT;
	if (fd >= 0)
		close(fd);
	free(text);
	return err;
}
