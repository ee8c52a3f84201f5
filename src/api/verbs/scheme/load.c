/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/scheme/load.c - the drivers that OSF_DRIVERS names
 *
 *     osf_get_device_list() -> drivers_load() -> dlopen() -> osf_driver_entry()
 *
 * A process loads them once, when it first asks for devices.  A driver that fails stays
 * loaded, because what it has registered may be in use.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/verbs/scheme/scheme.h"
#include "base/setting.h"

/* dlopen() of a FIFO waits for whoever writes there. */
static bool would_wait(const char *path)
{
	struct stat st;

	return strchr(path, '/') && !stat(path, &st) && !S_ISREG(st.st_mode);
}

static void load(const char *path)
{
	int (*entry)(void);
	void *so =
	    would_wait(path) ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!so) {
		const char *why = would_wait(path) ? NULL : dlerror();

		setting_warn("OSF_DRIVERS: driver not loaded: %s: %s", path,
			     why ? why : "is not a regular file");
		return;
	}
	*(void **)&entry = dlsym(so, "osf_driver_entry");
	if (!entry) {
		setting_warn("OSF_DRIVERS: driver %s: has no osf_driver_entry",
			     path);
		dlclose(so);
		return;
	}
	int err = entry();
	if (err)
		setting_warn("OSF_DRIVERS: driver %s: osf_driver_entry: %s",
			     path, strerror(-err));
}

static void load_all(void)
{
	const char *set = secure_getenv("OSF_DRIVERS");
	char *paths = set ? strdup(set) : NULL;
	char *rest = NULL;

	if (!paths)
		return;
	for (char *path = strtok_r(paths, ":", &rest); path;
	     path = strtok_r(NULL, ":", &rest))
		load(path);
	free(paths);
}

void drivers_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load_all);
}
