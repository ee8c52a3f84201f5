/* SPDX-License-Identifier: MIT */
/* ops/policy.c - see ops/policy.h */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/auto.h"
#include "base/env.h"
#include "base/nocancel.h"
#include "base/program.h"
#include "base/setting.h"
#include "ops/policy.h"
#include "ops/registry.h"

#define CONFIG_FILE "/etc/osf.conf"
#define VMA_CONFIG_FILE "/etc/libvma.conf"
#define CONFIG_MAX_BYTES (256 * 1024)

static struct rule_set *rules;
static bool all_os;

static const char *app_id(void) { return env_text("OSF_APPLICATION_ID"); }

static void complain(const char *where, const struct rule_error *err)
{
	setting_warn("%s:%u:%u: %s; this program runs on the kernel", where,
		     err->line, err->column, err->text);
}

static int add(const char *where, const char *text, size_t len)
{
	struct rule_error err;
	int r = rules_parse(&rules, text, len, registry_has, &err);

	if (r == -EINVAL)
		complain(where, &err);
	return r;
}

/* A FIFO or a device could make the program wait for whoever writes there. */
static int open_file(const char *path)
{
	struct stat st;
	int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	AUTOCLOSE int fd = nocancel_open(path, flags, 0);

	if (fd < 0 || libc.fstat(fd, &st))
		return -errno;
	return S_ISREG(st.st_mode) ? take_fd(&fd) : -EINVAL;
}

/* At most @max bytes of @fd: their number, or -errno. */
static ssize_t read_text(int fd, char *text, size_t max)
{
	size_t len = 0;
	ssize_t n = 1;

	while (len < max && n) {
		n = nocancel_read(fd, text + len, max - len);
		if (n < 0 && errno != EINTR)
			return -errno;
		len += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)len;
}

static int cannot_read(const char *path, int err)
{
	setting_warn("%s cannot be read: %s; this program runs on the kernel",
		     path,
		     err == -EINVAL ? "Not a regular file" : strerror(-err));
	return -EINVAL;
}

static int add_file(const char *path, bool required)
{
	AUTOFREE char *text = NULL;
	AUTOCLOSE int fd = open_file(path);

	if (fd == -ENOENT && !required)
		return 0;
	if (fd < 0)
		return cannot_read(path, fd);
	text = malloc(CONFIG_MAX_BYTES + 1);
	if (!text)
		return -ENOMEM;
	ssize_t len = read_text(fd, text, CONFIG_MAX_BYTES + 1);
	return len < 0 ? cannot_read(path, (int)len)
		       : add(path, text, (size_t)len);
}

/* A machine that had libvma goes on with its rules. */
static const char *default_file(void)
{
	return access(CONFIG_FILE, F_OK) && !access(VMA_CONFIG_FILE, F_OK)
		   ? VMA_CONFIG_FILE
		   : CONFIG_FILE;
}

int policy_init(void)
{
	const char *text = secure_getenv("OSF_RULES");
	const char *path = secure_getenv("OSF_CONFIG_FILE");
	const char *other = env_other_rules();
	int err = text ? add("OSF_RULES", text, strlen(text)) : 0;

	if (!err)
		err = path && *path
			  ? add_file(path, true)
			  : add_file(other ? other : default_file(), false);
	if (err)
		return err;
	all_os = rules && rules_all_os(rules, program_name(), app_id());
	return 0;
}

/* Lines that were added later, the newest first; never freed. */
struct added {
	struct rule_set *rules;
	struct added *next;
};
static struct added *added;

int policy_add(const char *line)
{
	struct added *a = calloc(1, sizeof(*a));
	int err = a ? rules_parse(&a->rules, line, strlen(line), NULL, NULL)
		    : -ENOMEM;

	if (err) {
		free(a);
		return err;
	}
	do
		a->next = load_acq(&added);
	while (!cas(&added, a->next, a)); /* pairs with policy_provider() */
	return 0;
}

bool policy_has_rules(void) { return rules || load_rlx(&added); }
bool policy_all_os(void) { return all_os; }

const char *policy_provider(enum rule_role role, const struct sockaddr *first,
			    const struct sockaddr *second)
{
	const char *program = program_name(), *found;

	for (struct added *a = load_acq(&added); a; a = a->next)
		if ((found = rules_match(a->rules, program, app_id(), role,
					 first, second)))
			return found;
	return rules
		   ? rules_match(rules, program, app_id(), role, first, second)
		   : NULL;
}
