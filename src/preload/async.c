/* SPDX-License-Identifier: MIT */
/*
 * preload/async.c - kernel AIO and POSIX AIO; see preload/async.h
 *
 *     io_submit(), aio_read(), ...  ->  the connections they name go to the kernel
 *
 * libaio makes its own system calls, so we interpose its functions.  We cannot
 * see a program that links libaio statically.
 */
#include <aio.h>
#include <dlfcn.h>
#include <linux/aio_abi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/log.h"
#include "ops/ops.h"
#include "preload/async.h"
#include "preload/edge.h"

int io_submit(void *ctx, long n, struct iocb **blocks);

void async_leave_all(void)
{
	const char *how = secure_getenv("OSF_IO_URING");

	if (how && !strcmp(how, "files"))
		return;
	if (ops_leave_all(OSF_REASON_IO_URING))
		return; /* not the first */
	log_info(
	    "an io_uring may use any connection: all stay with the kernel");
	for (int fd = file_next(0); fd >= 0; fd = file_next(fd + 1))
		file_hand_over(fd, OSF_REASON_IO_URING);
}

/* The next definition of @name, or one that answers -ENOSYS. */
static long no_such(void) { return -ENOSYS; }

void *async_next(const char *name, const char *library)
{
	void *f = dlsym(RTLD_NEXT, name);
	/* RTLD_NEXT does not see what a plugin has loaded for itself. */
	void *lib = f ? NULL : dlopen(library, RTLD_LAZY | RTLD_NOLOAD);

	if (lib)
		f = dlsym(lib, name);
	return f ? f : (void *)no_such;
}

void async_submitted(struct iocb **blocks, long n)
{
	for (long i = 0; i < n && !is_bad_ptr(blocks); i++)
		if (!is_bad_ptr(blocks[i]))
			file_hand_over((int)blocks[i]->aio_fildes,
				       OSF_REASON_ASYNC);
}

OSF_API int io_submit(void *ctx, long n, struct iocb **blocks)
{
	async_submitted(blocks, n);
	return ASYNC_NEXT(io_submit, "libaio.so.1")(ctx, n, blocks);
}

/* POSIX AIO: libc's own threads read and write without our functions. */

static void named(const struct aiocb *cb)
{
	if (!is_bad_ptr(cb))
		file_hand_over(cb->aio_fildes, OSF_REASON_ASYNC);
}

#define AIO(name)                                                              \
	OSF_API int name(struct aiocb *cb)                                     \
	{                                                                      \
		named(cb);                                                     \
		return libc.name(cb);                                          \
	}
AIO(aio_read)
AIO(aio_write)

OSF_API int lio_listio(int mode, struct aiocb *const list[restrict], int n,
		       struct sigevent *restrict ev)
{
	for (int i = 0; i < n && !is_bad_ptr(list); i++)
		named(list[i]);
	return libc.lio_listio(mode, list, n, ev);
}

/* On 64-bit machines the two are the same. */
OSF_API int aio_read64(struct aiocb64 *cb) __attribute__((alias("aio_read")));
OSF_API int aio_write64(struct aiocb64 *cb) __attribute__((alias("aio_write")));
OSF_API int lio_listio64(int mode, struct aiocb64 *const list[restrict], int n,
			 struct sigevent *restrict ev)
    __attribute__((alias("lio_listio")));
