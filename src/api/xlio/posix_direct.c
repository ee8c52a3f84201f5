/* SPDX-License-Identifier: MIT */
/*
 * api/xlio/posix_direct.c - the plain xlio_<posix>() calls of the static
 * library
 *
 * All are libc's, except the query for the table of functions: the static
 * library serves no descriptor.  In libosf.so they are second names
 * (src/meson.build).
 */
#include <errno.h>
#include <stdarg.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "api/api.h"
#include "api/xlio/edge.h"
#include "mellanox/xlio.h"

#define CALL(ret, name, params, args)                                          \
	OSF_API ret xlio_##name params { return name args; }
#define OTHER(name)
#define LIBC(ret, name, params, args)
#include "api/xlio/posix.def"

OSF_API int xlio_recvmmsg(int fd, struct mmsghdr *m, unsigned n, int f,
			  const struct timespec *ts)
{
	return recvmmsg(fd, m, n, f, (struct timespec *)ts);
}

OSF_API int xlio_getsockopt(int fd, int level, int name, void *val,
			    socklen_t *len)
{
	int err, saved = errno;

	if (api_getsockopt(fd, level, name, val, len, &err))
		return xlio_ret(err, saved);
	return getsockopt(fd, level, name, val, len);
}

/* The last argument is a number or a pointer; each fits in a long. */
static long argument(va_list ap) { return va_arg(ap, long); }

OSF_API int xlio_fcntl(int fd, int cmd, ...)
{
	va_list ap;

	va_start(ap, cmd);
	long arg = argument(ap);
	va_end(ap);
	return fcntl(fd, cmd, arg);
}

OSF_API int xlio_fcntl64(int fd, int cmd, ...)
{
	va_list ap;

	va_start(ap, cmd);
	long arg = argument(ap);
	va_end(ap);
	return fcntl(fd, cmd, arg);
}
