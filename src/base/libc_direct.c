/* SPDX-License-Identifier: MIT */
/*
 * base/libc_direct.c - base/libc.h for the static library, which interposes no name
 *
 * The linker knows every function, so no look-up is needed.  If the program was started
 * with libosf.so preloaded, the plain names belong to libosf.so, which must not see a
 * group's sockets.  So in that case we ask the C library itself.
 */
#include <dlfcn.h>

#include "base/libc.h"

#define F(ret, name, params, args) extern char direct_##name[] __asm__(#name);
#define V(ret, name, params) F(ret, name, params, ())
#include "base/libc.def"
#undef F
#undef V

struct libc libc = {
#define F(ret, name, params, args) .name = (void *)direct_##name,
#define V(ret, name, params) F(ret, name, params, ())
#include "base/libc.def"
#undef F
#undef V
};

void libc_resolve(void)
{
	void *own = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), *at;

	if (!own)
		return;
#define F(ret, name, params, args)                                             \
	at = dlsym(own, #name);                                                \
	if (at)                                                                \
		libc.name = at;
#define V(ret, name, params) F(ret, name, params, ())
#include "base/libc.def"
#undef F
#undef V
}
