/* SPDX-License-Identifier: MIT */
/*
 * api/xlio/posix.c - the plain xlio_<posix>() calls that osf leaves to libc
 *
 * The linker makes the others second names of preload's functions
 * (src/meson.build).  So both names are the same function, also in a library
 * that was loaded by dlopen(), where a call of "socket" would be libc's.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/compiler.h"
#include "mellanox/xlio.h"

#define CALL(ret, name, params, args)
#define OTHER(name)
#define LIBC(ret, name, params, args)                                          \
	OSF_API ret xlio_##name params { return name args; }
#include "api/xlio/posix.def"

OSF_API int xlio_open(const char *file, int oflag, ...)
{
	va_list ap;

	va_start(ap, oflag);
	mode_t mode =
	    oflag & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : (mode_t)0;
	va_end(ap);
	return open(file, oflag, mode);
}
