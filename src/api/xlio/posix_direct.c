/* SPDX-License-Identifier: MIT */
/*
 * api/xlio/posix_direct.c - the plain xlio_<posix>() calls of the static library
 *
 * They are libc's, all but the question for the table of functions: the static library
 * answers for no descriptor.  In libosf.so they are second names (src/meson.build).
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

CALL(int, socket, (int d, int t, int p), (d, t, p))
CALL(int, close, (int fd), (fd))
CALL(int, shutdown, (int fd, int how), (fd, how))
CALL(int, listen, (int fd, int n), (fd, n))
CALL(int, accept, (int fd, struct sockaddr *a, socklen_t *n), (fd, a, n))
CALL(int, accept4, (int fd, struct sockaddr *a, socklen_t *n, int f),
     (fd, a, n, f))
CALL(int, bind, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n))
CALL(int, connect, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n))
CALL(int, setsockopt,
     (int fd, int level, int name, const void *val, socklen_t len),
     (fd, level, name, val, len))
CALL(ssize_t, read, (int fd, void *buf, size_t n), (fd, buf, n))
CALL(ssize_t, readv, (int fd, const struct iovec *iov, int n), (fd, iov, n))
CALL(ssize_t, recv, (int fd, void *buf, size_t n, int f), (fd, buf, n, f))
CALL(ssize_t, recvmsg, (int fd, struct msghdr *m, int f), (fd, m, f))
CALL(ssize_t, recvfrom,
     (int fd, void *buf, size_t n, int f, struct sockaddr *a, socklen_t *l),
     (fd, buf, n, f, a, l))
CALL(ssize_t, write, (int fd, const void *buf, size_t n), (fd, buf, n))
CALL(ssize_t, writev, (int fd, const struct iovec *iov, int n), (fd, iov, n))
CALL(ssize_t, send, (int fd, const void *buf, size_t n, int f), (fd, buf, n, f))
CALL(ssize_t, sendmsg, (int fd, const struct msghdr *m, int f), (fd, m, f))
CALL(int, sendmmsg, (int fd, struct mmsghdr *m, unsigned n, int f),
     (fd, m, n, f))
CALL(ssize_t, sendto,
     (int fd, const void *buf, size_t n, int f, const struct sockaddr *a,
      socklen_t l),
     (fd, buf, n, f, a, l))
CALL(ssize_t, sendfile, (int out, int in, off_t *off, size_t n),
     (out, in, off, n))
CALL(ssize_t, sendfile64, (int out, int in, int64_t *off, size_t n),
     (out, in, off, n))
CALL(int, select, (int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *tv),
     (n, r, w, e, tv))
CALL(int, pselect,
     (int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *ts,
      const sigset_t *mask),
     (n, r, w, e, ts, mask))
CALL(int, poll, (struct pollfd * fds, nfds_t n, int timeout), (fds, n, timeout))
CALL(int, ppoll,
     (struct pollfd * fds, nfds_t n, const struct timespec *ts,
      const sigset_t *mask),
     (fds, n, ts, mask))
CALL(int, epoll_create, (int size), (size))
CALL(int, epoll_create1, (int flags), (flags))
CALL(int, epoll_ctl, (int epfd, int op, int fd, struct epoll_event *ev),
     (epfd, op, fd, ev))
CALL(int, epoll_wait, (int epfd, struct epoll_event *evs, int n, int timeout),
     (epfd, evs, n, timeout))
CALL(int, epoll_pwait,
     (int epfd, struct epoll_event *evs, int n, int timeout,
      const sigset_t *mask),
     (epfd, evs, n, timeout, mask))
CALL(int, dup, (int fd), (fd))
CALL(int, dup2, (int fd, int to), (fd, to))

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
