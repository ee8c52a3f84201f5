/* SPDX-License-Identifier: MIT */
/*
 * base/libc_direct.c - base/libc.h for the static library, which answers for no name
 *
 * The linker knows every function, so none has to be looked up.  If the program was
 * started with libosf.so preloaded, those names are its: a group's sockets are no
 * business of it, so the C library itself is asked where there is one to ask.
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
