/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/run_env.c - the environment in which a program is offloaded
 *
 *     lib_find()    -> a path for LD_PRELOAD
 *     env_preload() -> LD_PRELOAD: the library, and libosf-verbs.so if it lies beside it
 *     env_rules()   -> OSF_RULES, after all rules were checked
 *
 * lib_find() looks beside the running osf first, so that a build directory and an installed
 * tree both find their own library.
 */
#include "osf.h"
#include "run.h"
#include "program.h"
#include "ops/rules.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONFIG_FILE "/etc/osf.conf"
#define CONFIG_BYTES_MAX (1 << 20) /* far more than anybody writes by hand */

/* Where the library may lie, relative to the directory of the command. */
static const char *const lib_places[] = {
	"libosf.so",
	"../lib/libosf.so",
	"../lib/x86_64-linux-gnu/libosf.so",
};

static int lib_check(const char *given, char *path)
{
	if (!realpath(given, path)) {
		int err = -errno;
		complain("cannot find the library %s: %s", given,
			 strerror(-err));
		return err;
	}
	bool is_ours = false;
	if (!elf_is_library(path, &is_ours)) {
		complain("%s is not a shared library", path);
		return -EINVAL;
	}
	if (!is_ours) {
		complain("%s is a shared library, but not libosf.so", path);
		return -EINVAL;
	}
	if (strpbrk(path, " :")) {
		complain("%s cannot be preloaded: LD_PRELOAD cannot carry a "
			 "path with a blank or colon",
			 path);
		return -EINVAL;
	}
	return 0;
}

int lib_find(const char *given, char *path)
{
	char exe[PATH_MAX], place[PATH_MAX + 64];

	if (!given)
		given = getenv("OSF_LIB");
	if (given && *given)
		return lib_check(given, path);

	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	exe[n > 0 ? n : 0] = '\0';
	char *slash = strrchr(exe, '/');
	if (slash)
		*slash = '\0';

	for (size_t i = 0; i < sizeof(lib_places) / sizeof(*lib_places); i++) {
		snprintf(place, sizeof(place), "%s/%s", exe, lib_places[i]);
		if (access(place, R_OK) == 0)
			return lib_check(place, path);
	}
	if (access(OSF_PREFIX_LIBDIR "/libosf.so", R_OK) == 0)
		return lib_check(OSF_PREFIX_LIBDIR "/libosf.so", path);

	complain("cannot find libosf.so beside %s or in %s; "
		 "say where it is with --lib or OSF_LIB",
		 exe, OSF_PREFIX_LIBDIR);
	return -ENOENT;
}

/* The software RDMA device beside @lib, which is not built everywhere. */
static char *verbs_beside(const char *lib)
{
	const char *slash = strrchr(lib, '/');
	int n = slash ? (int)(slash + 1 - lib) : 0;

	return xasprintf("%.*slibosf-verbs.so", n, lib);
}

bool env_has_verbs(const char *lib)
{
	char *verbs = verbs_beside(lib);
	bool is_there = access(verbs, R_OK) == 0;

	free(verbs);
	return is_there;
}

/* The RDMA device comes first: both libraries define some of libibverbs' names, and the device
 * passes those calls on to libosf.so. */
char *env_libraries(const char *lib)
{
	char *verbs = verbs_beside(lib);
	char *both =
	    env_has_verbs(lib) ? xasprintf("%s:%s", verbs, lib) : xstrdup(lib);

	free(verbs);
	return both;
}

void env_preload(const char *lib)
{
	const char *old = getenv("LD_PRELOAD");
	char *ours = env_libraries(lib);
	char *all = old && *old ? xasprintf("%s:%s", ours, old) : xstrdup(ours);

	setenv("LD_PRELOAD", all, 1);
	free(all);
	free(ours);
}

/* Reads a whole small file; *text is NUL terminated. */
static ssize_t read_config(const char *path, char **text)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    st.st_size > CONFIG_BYTES_MAX) {
		close(fd);
		return -EFBIG;
	}
	char *buf = xcalloc((size_t)st.st_size + 1, 1);
	ssize_t n = pread(fd, buf, (size_t)st.st_size, 0);
	int err = -errno;

	close(fd);
	if (n < 0) {
		free(buf);
		return err;
	}
	*text = buf;
	return n;
}

/* Modules say their names when CMD loads them.  So if no module has this name, CMD reports
 * that at its start, and not osf run. */
static bool may_be_a_module(const char *provider)
{
	const char *modules = getenv("OSF_MODULES");

	(void)provider;
	return modules && *modules;
}

static int check_text(struct rule_set **rs, const char *from, const char *text,
		      size_t len)
{
	struct rule_error e = { 0 };
	int err = rules_parse(rs, text, len, may_be_a_module, &e);

	if (err == -EINVAL)
		complain("%s: line %u, column %u: %s", from, e.line, e.column,
			 e.text);
	else if (err)
		complain("%s: %s", from, strerror(-err));
	return err;
}

/* The file of the system may be absent; one that was named may not. */
static int check_config(struct rule_set **rs)
{
	const char *named = getenv("OSF_CONFIG_FILE");
	const char *path = named && *named ? named : CONFIG_FILE;
	char *text = NULL;

	ssize_t len = read_config(path, &text);
	if (len == -ENOENT && path != named)
		return 0;
	if (len < 0) {
		complain("cannot read the rules in %s: %s", path,
			 strerror((int)-len));
		return (int)len;
	}
	int err = check_text(rs, path, text, (size_t)len);
	free(text);
	return err;
}

static int check_all(struct rule_set **rs, const struct run_args *a)
{
	const char *old = getenv("OSF_RULES");
	int err = check_config(rs);

	if (!err && old)
		err = check_text(rs, "OSF_RULES", old, strlen(old));
	for (size_t i = 0; !err && i < a->n_rules; i++) {
		char *from = xasprintf("--rule %zu", i + 1);
		err = check_text(rs, from, a->rules[i], strlen(a->rules[i]));
		free(from);
	}
	return err;
}

int env_rules(const struct run_args *a)
{
	struct rule_set *rs = NULL;
	int err = check_all(&rs, a);

	rules_free(rs);
	if (err || a->n_rules == 0)
		return err;

	const char *old = getenv("OSF_RULES");
	char *all = xstrdup(old ? old : "");
	for (size_t i = 0; i < a->n_rules; i++) {
		char *more =
		    xasprintf("%s%s%s", all, *all ? "\n" : "", a->rules[i]);
		free(all);
		all = more;
	}
	setenv("OSF_RULES", all, 1);
	free(all);
	return 0;
}
