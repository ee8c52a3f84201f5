/* SPDX-License-Identifier: MIT */
/*
 * preload/fds.c - the calls that make, copy and close descriptors
 *
 *     socket, accept, epoll_create  ->  a new entry in the file table
 *     dup, fcntl(F_DUPFD)           ->  another entry for the same file
 *     close, dup2, close_range      ->  remove the entry, then call libc
 */
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/vma/vma.h"
#include "base/fds.h"
#include "base/nocancel.h"
#include "base/rawcall.h"
#include "file/epoll.h"
#include "ops/ops.h"
#include "ops/registry.h"
#include "preload/edge.h"
#include "sock/idle.h"
#include "sock/shared.h"

/* Apply a decision that was made while no call was inside the socket. */
static void sync_file(struct file *f, int fd)
{
	if (!file_is_synced(f))
		file_sync(f, fd);
}

/* Leave it to the kernel, or move it back there. */
static void leave(struct file *f, int fd, enum osf_reason why)
{
	sock_ops(f->sk)->fallback(f->sk, fd, why);
	sync_file(f, fd);
}

/* The program got a higher number than it would without osf, because of
 * descriptors of ours.  Close those that we can do without and move this one to
 * the lower number. */
static COLD int renumber(int fd)
{
	int saved = errno, cloexec = libc.fcntl(fd, F_GETFD) & FD_CLOEXEC;

	file_spare_fds();
	int low =
	    libc.fcntl(fd, cloexec ? F_DUPFD_CLOEXEC : F_DUPFD, fds_reach());
	if (low >= 0)
		nocancel_close(low < fd ? fd : low);
	errno = saved;
	return low >= 0 && low < fd ? low : fd;
}

static inline int given(int fd)
{
	return likely(fd < fds_reach()) || file_has_left() ? fd : renumber(fd);
}

OSF_API int socket(int domain, int type, int protocol)
{
	struct ops_family family;
	bool is_switched = ops_family(domain, type, protocol, &family);
	if (is_switched)
		domain = family.domain;
	int fd = libc.socket(domain, type, protocol);
	if (fd < 0 && errno == EMFILE && !file_has_left() &&
	    file_spare_all_fds())
		fd = libc.socket(domain, type, protocol);
	fd = given(fd);
	vma_makes(fd, domain);
	if (fd < 0 || !is_switched)
		return fd;
	int saved = errno;
	struct file *f = file_new_sock(fd);
	if (f) {
		f->sk->w->nonblock = (type & SOCK_NONBLOCK) != 0;
		ops_created(f->sk, &family);
		sync_file(f, fd);
	}
	errno = saved;
	return fd;
}

/* -ECONNABORTED: nothing has arrived for the program, and @fd is closed. */
static int accepted(int listen_fd, int fd, int flags,
		    struct sockaddr_storage *from, socklen_t *len)
{
	CALL(l) = { .file = file_get_any(listen_fd) };
	int saved = errno, err = 0;

	if (l.file && l.file->kind == FILE_SOCK) {
		struct file *f = file_new_sock(fd);

		if (f) {
			f->sk->w->nonblock = (flags & SOCK_NONBLOCK) != 0;
			err = ops_accept_first(f->sk, fd, l.file->sk, from, len,
					       true);
			if (err == -EAGAIN)
				ops_accepted(f->sk, fd, l.file->sk,
					     (struct sockaddr *)from);
			sync_file(f, fd);
		}
	}
	if (err == -ECONNABORTED)
		close(fd);
	errno = saved;
	return err;
}

/* The kernel's accept() would sleep past base/idle.h. */
static COLD int wait_to_accept(int fd)
{
	CALL(c) = { .file = file_get_any(fd) };

	call_may_sleep(&c);
	return c.file && c.file->kind == FILE_SOCK && c.file->sk->st->listening
		   ? wait_idle(c.file->sk, fd, DIR_RX, 0)
		   : 0;
}

OSF_API int accept4(int fd, struct sockaddr *restrict addr,
		    socklen_t *restrict len, int flags)
{
	struct sockaddr_storage from = { 0 };
	socklen_t from_len;
	int new_fd;

	if (likely(!table_load(fd)) ||
	    (addr && (is_bad_ptr(addr) || is_bad_ptr(len))))
		return libc.accept4(fd, addr, len, flags);
	if (addr && *len > INT_MAX) {
		errno = EINVAL;
		return -1;
	}
	do {
		int err = unlikely(idle_is_on()) ? wait_to_accept(fd) : 0;

		if (err) {
			errno = -err;
			return -1;
		}
		from_len = sizeof(from);
		new_fd = libc.accept4(fd, (struct sockaddr *)&from, &from_len,
				      flags);
		if (new_fd < 0 && errno == EMFILE && file_spare_all_fds())
			continue;
		if (new_fd < 0)
			return new_fd;
		new_fd = given(new_fd);
	} while (new_fd < 0 || accepted(fd, new_fd, flags, &from, &from_len) ==
				   -ECONNABORTED);
	if (addr) {
		memcpy(addr, &from, MIN(*len, from_len));
		*len = from_len;
	}
	return new_fd;
}

OSF_API int accept(int fd, struct sockaddr *restrict addr,
		   socklen_t *restrict len)
{
	return accept4(fd, addr, len, 0);
}

/* Can the kernel read the 8 bytes at @p?  The kernel copies a signal mask
 * before it refuses an invalid @how. */
static bool is_readable(uintptr_t p)
{
	return rawcall(SYS_rt_sigprocmask, -1, p & ~UINT64_C(7), NULL, 8) !=
	       -EFAULT;
}

/* We read an address before the kernel does.  If it is unreadable or has an
 * invalid length, pass it on for the kernel to refuse. */
static bool is_bad_addr(const struct sockaddr *addr, socklen_t len)
{
	uintptr_t first = (uintptr_t)addr, last = first + len - 1;

	return len < sizeof(*addr) || len > sizeof(struct sockaddr_storage) ||
	       is_bad_ptr(addr) || !is_readable(first) ||
	       (first / 4096 != last / 4096 && !is_readable(last));
}

OSF_API int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct sockaddr_storage copy;

	if (file_has_left() || is_bad_addr(addr, len))
		return libc.bind(fd, addr, len);
	int r = libc.bind(fd, ops_sockaddr(addr, len, &copy), len);
	if (!r)
		vma_may_join(fd);
	return r;
}

OSF_API int listen(int fd, int backlog)
{
	CALL(c) = { .file = file_get_any(fd) };
	int r = libc.listen(fd, backlog);

	if (!r && c.file && c.file->kind == FILE_SOCK) {
		int saved = errno;

		ops_listening(c.file->sk, fd, backlog, true);
		file_pass(c.file);
		errno = saved;
	}
	if (!r)
		vma_may_join(fd);
	return r;
}

/* connect(AF_UNSPEC) dissolves a connection; the next connect() opens a new. */
static int disconnect(struct file *f, int fd, const struct sockaddr *addr,
		      socklen_t len)
{
	int r, saved = errno;

	do
		r = sock_ops(f->sk)->disconnect(f->sk, fd, addr, len);
	while (r == -ESTALE);
	sync_file(f, fd);
	return (int)libc_ret(r, saved);
}

/* Ask modules first.  0: one has taken the connection. */
static COLD int by_module(struct file *f, int fd, const struct sockaddr *addr,
			  socklen_t len)
{
	struct module_how how = { .place = file_replace,
				  .is_fixed = !file_may_be_replaced(f) };

	return ops_connect_first(f->sk, fd, addr, len, &how);
}

static int connect_by_kernel(struct sock *sk, int fd,
			     const struct sockaddr *addr, socklen_t len)
{
	if (likely(!idle_is_on()))
		return libc.connect(fd, addr, len);
	return (int)libc_ret(idle_connect(sk, fd, addr, len), errno);
}

static int connect_any(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct sockaddr_storage copy;
	CALL(c) = { .file = file_get(fd) };

	call_may_sleep(&c);
	if (file_has_left() || is_bad_addr(addr, len))
		return libc.connect(fd, addr, len);
	addr = ops_sockaddr(addr, len, &copy);
	if (likely(!c.file) || c.file->kind != FILE_SOCK || ops_is_inside())
		return libc.connect(fd, addr, len);
	if (addr->sa_family == AF_UNSPEC)
		return disconnect(c.file, fd, addr, len);
	struct sock *sk = c.file->sk;
	int saved = errno;
	if (sock_ops(sk)->connect)
		return (int)libc_ret(sock_ops(sk)->connect(sk, fd, addr, len),
				     saved);
	if (unlikely(registry_any()) && !by_module(c.file, fd, addr, len)) {
		file_sync(c.file, fd);
		errno = saved;
		return 0;
	}
	int r = connect_by_kernel(sk, fd, addr, len);
	int err = r < 0 ? errno : saved;
	went_past(past_of(fd));
	if ((!r || err == EINPROGRESS || err == EINTR) &&
	    !(sk->flags & SOCK_F_ACTIVE)) {
		int fail = ops_connected(sk, fd, addr);

		sync_file(c.file, fd);
		if (fail) {
			struct sockaddr none = { .sa_family = AF_UNSPEC };

			socklen_t err_len = sizeof(err);

			libc.connect(fd, &none, sizeof(none));
			/* The kernel's ECONNRESET, which we have caused. */
			libc.getsockopt(fd, SOL_SOCKET, SO_ERROR, &err,
					&err_len);
			err = fail;
			r = -1;
		}
	}
	errno = err;
	return r;
}

OSF_API int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	int r = connect_any(fd, addr, len);

	if (unlikely(vma_is_xtreme) && (!r || errno == EINPROGRESS))
		vma_join(fd);
	return r;
}

OURS int close_ours(int fd)
{
	bool past = past_of(fd);

	if (likely(table_load(fd))) {
		file_forget(fd);
	} else if (fds_is_ours(fd)) {
		errno = EBADF; /* the program closes numbers it never got */
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

OSF_API int dup(int fd)
{
	CALL(c) = { .file = file_get_any(fd) };
	int new_fd = libc.dup(fd);

	if (new_fd >= 0 && c.file)
		file_install(new_fd, c.file, file_is_passthrough(fd));
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
	if (r >= 0 && c.file)
		file_install(r, c.file, file_is_passthrough(fd));
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

/* A number that is not the program's; or one that it never got. */
OURS int fcntl_ours(int fd, int cmd, long arg)
{
	if (!table_load(fd)) {
		errno = EBADF;
		return -1;
	}
	CALL(c) = { .file = file_get_any(fd) };
	int r = libc.fcntl(fd, cmd, arg);
	if (r < 0 || !c.file)
		return r;
	if (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC)
		file_install(r, c.file, file_is_passthrough(fd));
	else if (cmd == F_SETFL) {
		set_nonblock(c.file, arg & O_NONBLOCK);
		if (c.file->kind == FILE_SOCK)
			set_async(c.file->sk, fd, arg & O_ASYNC);
	}
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
	int r = libc.ioctl(fd, req, arg);
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

/*
 * stdio reads and writes with libc's internal names.  A connection still on TCP
 * stays there; an upgraded one gets a stream with our functions.
 */
static ssize_t stream_read(void *cookie, char *buf, size_t n)
{
	return read((int)(intptr_t)cookie, buf, n);
}
static ssize_t stream_write(void *cookie, const char *buf, size_t n)
{
	ssize_t r = write((int)(intptr_t)cookie, buf, n);

	return r < 0 ? 0 : r;
}
static int stream_close(void *cookie) { return close((int)(intptr_t)cookie); }

OSF_API FILE *fdopen(int fd, const char *mode)
{
	CALL(c) = { .file = file_get(fd) };

	if (likely(!c.file) || c.file->kind != FILE_SOCK)
		return libc.fdopen(fd, mode);
	if (!sock_is_ours(c.file->sk)) {
		leave(c.file, fd, OSF_REASON_STDIO);
		return libc.fdopen(fd, mode);
	}
	return fopencookie((void *)(intptr_t)fd, mode,
			   (cookie_io_functions_t){
			       .read = stream_read,
			       .write = stream_write,
			       .close = stream_close,
			   });
}

OSF_API int fclose(FILE *f)
{
	int fd = f ? fileno(f) : -1;

	vma_closes(fd);
	/* libc flushes and then closes with its internal close(). */
	if (fd >= 0 && unlikely(table_load(fd))) {
		fflush(f);
		file_forget(fd);
	}
	return libc.fclose(f);
}

/* Formatted output to a descriptor: libc's version would bypass our write(). */

int __vdprintf_chk(int fd, int flag, const char *restrict fmt, va_list ap);
int __dprintf_chk(int fd, int flag, const char *restrict fmt, ...);

OSF_API int vdprintf(int fd, const char *restrict fmt, va_list ap)
{
	char *text;
	int n = vasprintf(&text, fmt, ap);

	if (n < 0)
		return -1;
	for (int done = 0; done < n;) {
		ssize_t r = write(fd, text + done, (size_t)(n - done));

		if (r < 0) {
			n = -1;
			break;
		}
		done += (int)r;
	}
	int saved = errno;
	free(text);
	errno = saved;
	return n;
}

OSF_API int dprintf(int fd, const char *restrict fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int n = vdprintf(fd, fmt, ap);
	va_end(ap);
	return n;
}

OSF_API int __vdprintf_chk(int fd, int flag, const char *restrict fmt,
			   va_list ap)
{
	return vdprintf(fd, fmt, ap);
}

OSF_API int __dprintf_chk(int fd, int flag, const char *restrict fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int n = vdprintf(fd, fmt, ap);
	va_end(ap);
	return n;
}
