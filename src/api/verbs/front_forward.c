/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/front_forward.c - finds libibverbs' own functions
 *
 * By dlopen(), not RTLD_NEXT: a program may have loaded libibverbs with a module, where
 * RTLD_NEXT does not find it.  And by version, because an older function of the same name
 * has other structs.
 *
 * libosf.so defines some of libibverbs' functions, too, and comes next in the search for
 * names.  Its protection domain for the XLIO API (verbs.h) has a device with the name of
 * ours and without our signature.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "api/verbs/front.h"
#include "base/libc.h"
#include "base/lock.h"

#define LIBRARY "libibverbs.so.1"

static struct lock lock;
static void *library;

static void *find_library(void)
{
	GUARD(&lock);
	if (!library)
		library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	return library;
}

/* Our own descriptors are none of libosf.so's business. */
__attribute__((constructor)) static void begin(void) { libc_resolve(); }

bool front_is_sockets(const struct ibv_context *c)
{
	return !strcmp(c->device->name, front_device()->name);
}

void *front_next(const char *name) { return dlsym(RTLD_NEXT, name); }

void *front_real(const char *name, const char *version)
{
	void *from = find_library();
	void *fn = !from     ? NULL
		   : version ? dlvsym(from, name, version)
			     : dlsym(from, name);

	if (!fn)
		errno = ENOSYS;
	return fn;
}
