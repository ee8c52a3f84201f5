/* SPDX-License-Identifier: MIT */
/*
 * preload/fds.c - the calls that copy and close descriptors, fcntl() and ioctl()
 *
 *     dup, fcntl(F_DUPFD)           ->  another entry for the same file
 *     close, dup2, close_range      ->  remove the entry, then call libc
 */
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/vma/vma.h"
#include "base/fds.h"
#include "base/nocancel.h"
#include "file/epoll.h"
#include "preload/edge.h"
#include "sock/shared.h"

OURS int close_ours(int fd)
{
	bool past = past_of(fd);

	if (likely(table_load(fd))) {
		file_forget(fd);
	} else if (fds_is_ours(fd)) {
		errno =
		    EBADF; /* our descriptor: the program never got this number */
		return -1;
	}
	int r = nocancel_close(fd);
	went_past(past);
	return r;
}

OSF_API int close(int fd)
{
	vma_closes(fd);
	return likely(!table_load(fd) && !fds_is_ours(fd)) ? libc.close(fd)
							   : close_ours(fd);
}

/* Programs look at numbers that they never got, to see which are open. */
OSF_API int fstat(int fd, struct stat *st)
{
	if (likely(!fds_is_ours(fd)))
		return libc.fstat(fd, st);
	errno = EBADF;
	return -1;
}

OSF_API int fstat64(int fd, struct stat64 *st) __attribute__((alias("fstat")));

/* @fd is a new copy of @from, which may be @f's.  What is copied to standard input, output or
 * error is read and written by stdio, or by a program that is about to be executed. */
static void copied(struct file *f, int from, int fd)
{
	if (!f || fd < 0)
		return;
	file_install(fd, f, file_is_passthrough(from));
	if (unlikely(is_standard(fd)) && f->kind == FILE_SOCK &&
	    !f->sk->st->listening)
		file_hand_over(fd, OSF_REASON_STDIO);
}

OSF_API int dup(int fd)
{
	CALL(c) = { .file = file_get_any(fd) };
	int new_fd = libc.dup(fd);

	copied(c.file, fd, new_fd);
	vma_copies(fd, new_fd);
	return new_fd;
}

OSF_API int dup3(int fd, int to, int flags)
{
	CALL(c) = { .file = file_get_any(fd) };

	if (fd == to)
		return libc.dup3(fd, to, flags);
	/* Forget the old entry of @to only if the call will succeed. */
	if ((table_load(to) || unlikely(vma_is_asked)) &&
	    libc.fcntl(fd, F_GETFD) >= 0) {
		vma_closes(to);
		file_forget(to);
	}
	int r = flags ? libc.dup3(fd, to, flags) : libc.dup2(fd, to);
	copied(c.file, fd, r);
	vma_copies(fd, r);
	return r;
}

OSF_API int dup2(int fd, int to)
{
	if (fd == to)
		return libc.dup2(fd, to);
	return dup3(fd, to, 0);
}

/* Close our entries in [first, last], then let the kernel close the rest,
 * except descriptors that the program does not know of. */
static int range(unsigned first, unsigned last, int flags)
{
	int top = last > INT_MAX ? INT_MAX : (int)last, r = 0;

	if (first > last)
		return libc.close_range(first, last, flags);
	if (!(flags & CLOSE_RANGE_CLOEXEC) && unlikely(load_rlx(&vma_is_asked)))
		vma_forget_range(first, last);
	if (!(flags & CLOSE_RANGE_CLOEXEC))
		for (int fd = file_next((int)first); fd >= 0 && fd <= top;
		     fd = file_next(fd + 1))
			file_forget(fd);
	while (first <= last && !r) {
		int spare = first > INT_MAX ? -1 : fds_next((int)first);

		if (spare < 0 || (unsigned)spare > last)
			return libc.close_range(first, last, flags);
		if ((unsigned)spare > first)
			r = libc.close_range(first, (unsigned)spare - 1, flags);
		first = (unsigned)spare + 1;
	}
	return r;
}

OSF_API int close_range(unsigned first, unsigned last, int flags)
{
	return range(first, last, flags);
}

OSF_API void closefrom(int lowest)
{
	int saved = errno;

	range(lowest < 0 ? 0 : (unsigned)lowest, UINT_MAX, 0);
	errno = saved;
}

static void set_nonblock(struct file *f, bool on)
{
	if (f && f->kind == FILE_SOCK)
		SOCK_PUT(f->sk, nonblock, (uint8_t)on);
}

static void set_async(struct sock *sk, int fd, bool on)
{
	bool was = load_rlx(&sk->w->is_async);

	if (on != was)
		SOCK_PUT(sk, is_async, (uint8_t)on);
	if (on || was)
		sock_ops(sk)->async_changed(sk, fd);
}

/* F_SETFL, FIOASYNC.  A connection that goes back to the kernel for SIGIO is there before the
 * kernel sends any: what it does to be there would be news. */
static bool begin_async(struct sock *sk, int fd, bool on)
{
	bool begins = on && !load_rlx(&sk->w->is_async);

	if (begins)
		set_async(sk, fd, true);
	return begins;
}

static int set_flags(int fd, struct file *f, long flags)
{
	struct sock *sk = f->kind == FILE_SOCK ? f->sk : NULL;
	bool begun = sk && begin_async(sk, fd, flags & O_ASYNC);
	int r = libc.fcntl(fd, F_SETFL, flags);

	if (r < 0) {
		if (begun)
			set_async(sk, fd, false);
		return r;
	}
	set_nonblock(f, flags & O_NONBLOCK);
	if (sk)
		set_async(sk, fd, flags & O_ASYNC);
	return r;
}

/* A number that is not the program's; or one that it never got. */
OURS int fcntl_ours(int fd, int cmd, long arg)
{
	if (!table_load(fd)) {
		errno = EBADF;
		return -1;
	}
	CALL(c) = { .file = file_get_any(fd) };
	if (c.file && cmd == F_SETFL)
		return set_flags(fd, c.file, arg);
	int r = libc.fcntl(fd, cmd, arg);
	if (r < 0 || !c.file)
		return r;
	if (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC)
		copied(c.file, fd, r);
	return r;
}

OSF_API int fcntl(int fd, int cmd, ...)
{
	va_list ap;

	va_start(ap, cmd);
	long arg = va_arg(ap, long);
	va_end(ap);
	int r = likely(!table_load(fd) && !fds_is_ours(fd))
		    ? libc.fcntl(fd, cmd, arg)
		    : fcntl_ours(fd, cmd, arg);
	if (unlikely(cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC))
		vma_copies(fd, r);
	return r;
}

OSF_API int fcntl64(int fd, int cmd, ...) __attribute__((alias("fcntl")));

/* FIONREAD and SIOCOUTQ. */
static int queued(const struct sock_ops *ops, struct sock *sk, int fd,
		  unsigned long req, int *n)
{
	int r = is_bad_ptr(n)     ? -EFAULT
		: req == FIONREAD ? ops->inq(sk, fd)
				  : ops->outq(sk, fd);

	if (r >= 0)
		*n = r;
	return MIN(r, 0);
}

OURS int ioctl_ours(int fd, unsigned long req, void *arg)
{
	CALL(c) = { .file = file_get_any(fd) };
	int saved = errno;

	if (!c.file || c.file->kind != FILE_SOCK)
		return libc.ioctl(fd, req, arg);
	struct sock *sk = c.file->sk;
	const struct sock_ops *ops = sock_ops(sk);
	if (ops->is_ours && (req == FIONREAD || req == TIOCOUTQ))
		return (int)libc_ret(queued(ops, sk, fd, req, arg), saved);
	bool before = req == SIOCATMARK && ops->is_before_mark(sk, fd);
	/* Only the kernel may read what it has not checked: whether SIGIO begins. */
	bool begun = req == FIOASYNC && begin_async(sk, fd, true);
	int r = libc.ioctl(fd, req, arg);
	if (r < 0 && begun)
		set_async(sk, fd, false);
	if (!r && before)
		*(int *)arg = 0;
	if (!r && req == FIONBIO)
		set_nonblock(c.file, *(int *)arg != 0);
	else if (!r && req == FIOASYNC)
		set_async(sk, fd, *(int *)arg != 0);
	return r;
}

OSF_API int ioctl(int fd, unsigned long req, ...)
{
	va_list ap;

	va_start(ap, req);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	if (unlikely(req == FIONREAD) && vma_has(fd) && vma_inq(fd, arg))
		return 0;
	return likely(!table_load(fd)) ? libc.ioctl(fd, req, arg)
				       : ioctl_ours(fd, req, arg);
}
