/* SPDX-License-Identifier: MIT */
/*
 * base/personality.c - lets a cancelled thread unwind through our frames
 *
 * The compiler gives every function with clean-ups a personality routine, which talks
 * to the unwinder.  That unwinder is in libgcc_s.so.1, which libc loads when a thread
 * is cancelled.  A copy of our own would not understand its contexts, and we link libc
 * alone.  So the two names here forward to it.  A failure ends the process, as it does
 * in libc.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/atomic.h"

typedef int personality_fn(int version, int actions, uint64_t class_id,
			   void *exception, void *context);
typedef void resume_fn(void *exception);

personality_fn __gcc_personality_v0;
resume_fn _Unwind_Resume;

static void *find(void **cache, const char *name)
{
	void *f = load_acq(cache);

	if (f)
		return f;
	void *lib = dlopen("libgcc_s.so.1", RTLD_NOW);
	f = lib ? dlsym(lib, name) : NULL;
	if (!f)
		abort();
	store_rel(cache, f);
	return f;
}

int __gcc_personality_v0(int version, int actions, uint64_t class_id,
			 void *exception, void *context)
{
	static void *cache;
	personality_fn *real =
	    (personality_fn *)find(&cache, "__gcc_personality_v0");

	return real(version, actions, class_id, exception, context);
}

void _Unwind_Resume(void *exception)
{
	static void *cache;
	resume_fn *real = (resume_fn *)find(&cache, "_Unwind_Resume");

	real(exception);
	abort();
}
