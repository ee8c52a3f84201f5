/* SPDX-License-Identifier: MIT */
/*
 * preload/async.c - io_uring, kernel AIO and POSIX AIO; see preload/async.h
 *
 *     io_uring_queue_init()              all connections to the kernel
 *     io_submit(), aio_read(), ...       the connections they name
 *
 * liburing and libaio enter the kernel by instructions of their own, so the calls of
 * these libraries are what we answer for.  A program that has them linked in
 * statically passes us by.
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

struct io_uring;
struct io_uring_params;
int io_uring_queue_init(unsigned entries, struct io_uring *ring,
			unsigned flags);
int io_uring_queue_init_params(unsigned entries, struct io_uring *ring,
			       struct io_uring_params *p);
int io_uring_queue_init_mem(unsigned entries, struct io_uring *ring,
			    struct io_uring_params *p, void *buf, size_t size);
int io_uring_setup(unsigned entries, struct io_uring_params *p);
int io_submit(void *ctx, long n, struct iocb **blocks);

void async_ring_made(void)
{
	const char *how = getenv("OSF_IO_URING");

	if (how && !strcmp(how, "files"))
		return;
	if (ops_leave_all(OSF_REASON_ASYNC))
		return; /* not the first */
	log_info("io_uring is in use: connections stay with the kernel");
	for (int fd = file_next(0); fd >= 0; fd = file_next(fd + 1))
		file_hand_over(fd, OSF_REASON_ASYNC);
}

void async_submitted(struct iocb **blocks, long n)
{
	for (long i = 0; i < n && !is_bad_ptr(blocks); i++)
		if (!is_bad_ptr(blocks[i]))
			file_hand_over((int)blocks[i]->aio_fildes,
				       OSF_REASON_ASYNC);
}

/* The next definition of @name, or one that answers -ENOSYS. */
static long no_such(void) { return -ENOSYS; }
static void *next(const char *name)
{
	void *f = dlsym(RTLD_NEXT, name);

	return f ? f : (void *)no_such;
}

static int ring_made(int r)
{
	if (r >= 0)
		async_ring_made();
	return r;
}

OSF_API int io_uring_queue_init(unsigned entries, struct io_uring *ring,
				unsigned flags)
{
	typeof(io_uring_queue_init) *real = next("io_uring_queue_init");

	return ring_made(real(entries, ring, flags));
}

OSF_API int io_uring_queue_init_params(unsigned entries, struct io_uring *ring,
				       struct io_uring_params *p)
{
	typeof(io_uring_queue_init_params) *real =
	    next("io_uring_queue_init_params");

	return ring_made(real(entries, ring, p));
}

OSF_API int io_uring_queue_init_mem(unsigned entries, struct io_uring *ring,
				    struct io_uring_params *p, void *buf,
				    size_t size)
{
	typeof(io_uring_queue_init_mem) *real = next("io_uring_queue_init_mem");

	return ring_made(real(entries, ring, p, buf, size));
}

OSF_API int io_uring_setup(unsigned entries, struct io_uring_params *p)
{
	typeof(io_uring_setup) *real = next("io_uring_setup");

	return ring_made(real(entries, p));
}

OSF_API int io_submit(void *ctx, long n, struct iocb **blocks)
{
	typeof(io_submit) *real = next("io_submit");

	async_submitted(blocks, n);
	return real(ctx, n, blocks);
}

/*
 * POSIX AIO: libc's own threads read and write past us.
 */

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
