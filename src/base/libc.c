/* SPDX-License-Identifier: MIT */
/*
 * base/libc.c - see base/libc.h
 *
 * The look-up may call us back: dlsym() may call a malloc that reads a file.
 * Meanwhile, the names that a malloc may need make system calls.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/libc.h"
#include "base/rawcall.h"

static int resolving; /* 1 while the look-up runs, 2 when done */

static __thread bool looking_up __attribute__((tls_model("initial-exec")));

static long early(long nr, long a, long b, long c, long d, long e, long f)
{
	long r = rawcall6(nr, a, b, c, d, e, f);

	if (r >= 0)
		return r;
	errno = (int)-r;
	return -1;
}

/* While the look-up runs, these few go straight to the kernel. */
static ssize_t raw_read(int fd, void *buf, size_t n)
{
	return early(SYS_read, fd, (long)buf, (long)n, 0, 0, 0);
}
static ssize_t raw_write(int fd, const void *buf, size_t n)
{
	return early(SYS_write, fd, (long)buf, (long)n, 0, 0, 0);
}
static int raw_close(int fd)
{
	return (int)early(SYS_close, fd, 0, 0, 0, 0, 0);
}
static int raw_open(const char *path, int flags, ...)
{
	va_list ap;

	va_start(ap, flags);
	int mode = va_arg(ap, int);
	va_end(ap);
	return (int)early(SYS_openat, AT_FDCWD, (long)path, flags, mode, 0, 0);
}
static int raw_fcntl(int fd, int cmd, ...)
{
	va_list ap;

	va_start(ap, cmd);
	long arg = va_arg(ap, long);
	va_end(ap);
	return (int)early(SYS_fcntl, fd, cmd, arg, 0, 0, 0);
}
static int raw_ioctl(int fd, unsigned long req, ...)
{
	va_list ap;

	va_start(ap, req);
	long arg = va_arg(ap, long);
	va_end(ap);
	return (int)early(SYS_ioctl, fd, (long)req, arg, 0, 0, 0);
}
static int raw_socket(int domain, int type, int protocol)
{
	return (int)early(SYS_socket, domain, type, protocol, 0, 0, 0);
}
/* A library that was loaded after us may call it before our constructor runs. */
static int raw_prctl(int option, ...)
{
	unsigned long a, b, c, d;
	va_list ap;

	va_start(ap, option);
	a = va_arg(ap, unsigned long);
	b = va_arg(ap, unsigned long);
	c = va_arg(ap, unsigned long);
	d = va_arg(ap, unsigned long);
	va_end(ap);
	return (int)early(SYS_prctl, option, (long)a, (long)b, (long)c, (long)d,
			  0);
}
static int raw_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	struct timespec ts = { timeout / 1000, timeout % 1000 * 1000000L };

	return (int)early(SYS_ppoll, (long)fds, (long)n,
			  timeout < 0 ? 0 : (long)&ts, 0, 0, 0);
}

/* The first call of any other name looks all names up and goes on. */
#define V(ret, name, params)
#define F(ret, name, params, args)                                             \
	static ret first_##name params                                         \
	{                                                                      \
		libc_resolve();                                                \
		return libc.name args;                                         \
	}
#include "base/libc.def"
#undef F

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
struct libc libc = {
#define F(ret, name, params, args) .name = first_##name,
#include "base/libc.def"
#undef F
#undef V
	/* These must work while dlsym() runs. */
	.read = raw_read,     .write = raw_write, .close = raw_close,
	.open = raw_open,     .fcntl = raw_fcntl, .ioctl = raw_ioctl,
	.socket = raw_socket, .poll = raw_poll,   .prctl = raw_prctl,
};
#pragma GCC diagnostic pop

/*
 * The constructor calls it, and so does any wrapper that runs before.  A second thread
 * waits until the first one has looked everything up.
 */
void libc_resolve(void)
{
	if (load_acq(&resolving) == 2)
		return;
	if (!cas(&resolving, 0, 1)) {
		while (load_acq(&resolving) != 2 && !looking_up)
			cpu_relax();
		return;
	}
	looking_up = true;

	struct libc found;
#define V(ret, name, params)                                                   \
	*(void **)&found.name = dlsym(RTLD_NEXT, #name);                       \
	if (!found.name)                                                       \
		found.name = libc.name;
#define F(ret, name, params, args) V(ret, name, params)
#include "base/libc.def"
#undef F
#undef V
	libc = found;
	looking_up = false;
	store_rel(&resolving, 2); /* pairs with the load above */
}
