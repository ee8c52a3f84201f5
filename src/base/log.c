/* SPDX-License-Identifier: MIT */
/* base/log.c - see base/log.h */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/fds.h"
#include "base/libc.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "base/setting.h"

static struct osf_stats_log at_start = { .level = -1, .fd = -1 };
struct osf_stats_log *log_now = &at_start;
static struct lock lock; /* fd_log */
static int fd_log = -1;
static struct stat err_was; /* standard error, when the program started */

static const char *const names[] = { "err", "warn", "info", "dbg" };

int log_level_parse(const char *s)
{
	for (int i = 0; i < (int)ARRAY_LEN(names); i++)
		if (!strcmp(s, names[i]) || (s[0] == '0' + i && !s[1]))
			return i;
	return -1;
}

/* The name in libxlio's variable may contain %d, which stands for the process id. */
static int open_file(const char *file)
{
	const char *at = strstr(file, "%d");
	char path[4096];
	int n = at ? snprintf(path, sizeof(path), "%.*s%d%s", (int)(at - file),
			      file, (int)getpid(), at + 2)
		   : snprintf(path, sizeof(path), "%s", file);

	if (n < 0 || n >= (int)sizeof(path))
		return -1;
	/* The program never waits for whoever reads its log. */
	return nocancel_open(path,
			     O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC |
				 O_NONBLOCK | O_NOCTTY,
			     0600);
}

static int open_log(void)
{
	const char *file = env_text("OSF_LOG_FILE");
	int fd = file ? open_file(file) : libc.dup(STDERR_FILENO);

	if (fd >= 0)
		fd_log = log_now->fd = fds_hide(fd);
	return fd_log;
}

void log_open(void)
{
	const char *level = secure_getenv("OSF_LOG");
	int wanted =
	    level && *level ? log_level_parse(level) : env_other_log_level(-1);

	log_now->details = env_other_log_details();
	if (libc.fstat(STDERR_FILENO, &err_was))
		err_was.st_ino = 0;
	if ((!level || !*level) && wanted < 0)
		return;
	if (open_log() < 0) {
		setting_warn("OSF_LOG_FILE: %s cannot be written: %s",
			     env_text("OSF_LOG_FILE"), strerror(errno));
		return;
	}
	log_now->level = wanted;
	if (level && *level && wanted < 0)
		setting_wrong("OSF_LOG", "err, warn, info or dbg");
	if (log_level() < 0)
		log_now->level = LOG_LEVEL_WARN;
}

int log_fd(void) { return fd_log; }

void log_move(struct osf_stats_log *to)
{
	to = to ? to : &at_start;
	*to = *log_now;
	store_rel(&log_now, to);
}

void log_end(void)
{
	static struct osf_stats_log none = { .level = -1, .fd = -1 };

	store_rel(&log_now, &none);
}

/* The level was raised while the program runs.  What is under number 2 by now may be
 * a file of the program's own. */
static COLD int open_late(void)
{
	struct stat st;

	GUARD(&lock);
	if (fd_log >= 0)
		return fd_log;
	if (!env_text("OSF_LOG_FILE") &&
	    (libc.fstat(STDERR_FILENO, &st) || st.st_ino != err_was.st_ino ||
	     st.st_dev != err_was.st_dev))
		return -1;
	return open_log();
}

/* What each line begins with, in @line. */
static int begin(char *line, size_t size, enum log_level level)
{
	int details = load_rlx(&log_now->details);
	uint64_t us = now_ns() / NS_PER_US;

	if (details >= 3)
		return snprintf(
		    line, size, "osf[%d/%d] %llu.%06u %s: ", (int)getpid(),
		    (int)gettid(), (unsigned long long)(us / 1000000),
		    (unsigned)(us % 1000000), names[level]);
	if (details >= 1)
		return snprintf(line, size, "osf[%d/%d] %s: ", (int)getpid(),
				(int)gettid(), names[level]);
	return snprintf(line, size, "osf[%d] %s: ", (int)getpid(),
			names[level]);
}

void log_write(enum log_level level, const char *fmt, ...)
{
	int saved = errno;
	char line[512];
	va_list ap;

	int fd = fd_log >= 0 ? fd_log : open_late();
	int n = begin(line, sizeof(line), level);
	errno = saved;
	va_start(ap, fmt);
	n += vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n++] = '\n';
	if (nocancel_write(fd, line, (size_t)n) < 0 && errno != EAGAIN)
		log_now->level = -1; /* nobody can read it any more */
	errno = saved;
}
