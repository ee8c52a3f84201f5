/* SPDX-License-Identifier: MIT */
/* base/log.c - see base/log.h */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/fds.h"
#include "base/libc.h"
#include "base/log.h"
#include "base/setting.h"

int log_level = -1;
static int fd_log = -1;

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
	return libc.open(path,
			 O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC |
			     O_NONBLOCK | O_NOCTTY,
			 0600);
}

void log_open(void)
{
	const char *level = secure_getenv("OSF_LOG");
	const char *file = env_text("OSF_LOG_FILE");
	int wanted =
	    level && *level ? log_level_parse(level) : env_other_log_level(-1);

	if ((!level || !*level) && wanted < 0)
		return;
	int fd = file ? open_file(file) : libc.dup(STDERR_FILENO);
	if (fd < 0) {
		setting_warn("OSF_LOG_FILE: %s cannot be written: %s", file,
			     strerror(errno));
		return;
	}
	fd_log = fds_hide(fd);
	log_level = wanted;
	if (level && *level && wanted < 0)
		setting_wrong("OSF_LOG", "err, warn, info or dbg");
	if (log_level < 0)
		log_level = LOG_LEVEL_WARN;
}

int log_fd(void) { return fd_log; }

void log_write(enum log_level level, const char *fmt, ...)
{
	int saved = errno;
	char line[512];
	va_list ap;

	int n = snprintf(line, sizeof(line), "osf[%d] %s: ", (int)getpid(),
			 names[level]);
	errno = saved;
	va_start(ap, fmt);
	n += vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n++] = '\n';
	if (libc.write(fd_log, line, (size_t)n) < 0 && errno != EAGAIN)
		log_level = -1; /* nobody can read it any more */
	errno = saved;
}
