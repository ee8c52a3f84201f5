/* SPDX-License-Identifier: MIT */
/*
 * base/nocancel.h - system calls in which no pthread_cancel() takes effect
 *
 *     nocancel_poll(&p, 1, 0)   is poll(), also for a thread with a pending request
 *
 * POSIX names the calls in which a cancelled thread may end (pthreads(7)), and
 * libc's functions for them act on a request even if they do not sleep.  osf
 * asks the kernel questions while it serves a call, and a thread must not end
 * there: for example, epoll_ctl() is no cancellation point, and a thread that
 * ended in the middle of ours would leave a lock taken or a descriptor open.
 * So the program's threads end only where they sleep, in a call of libc's.
 *
 * Each function returns a value and sets errno as libc's function does.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "base/compiler.h"
#include "base/rawcall.h"

static inline long nocancel_end(long r)
{
	if (likely(r >= 0))
		return r;
	errno = (int)-r;
	return -1;
}

static inline ssize_t nocancel_read(int fd, void *buf, size_t n)
{
	return nocancel_end(rawcall(SYS_read, fd, buf, n));
}

static inline ssize_t nocancel_write(int fd, const void *buf, size_t n)
{
	return nocancel_end(rawcall(SYS_write, fd, buf, n));
}

static inline ssize_t nocancel_pread(int fd, void *buf, size_t n, off_t at)
{
	return nocancel_end(rawcall(SYS_pread64, fd, buf, n, at));
}

static inline ssize_t nocancel_pwrite(int fd, const void *buf, size_t n,
				      off_t at)
{
	return nocancel_end(rawcall(SYS_pwrite64, fd, buf, n, at));
}

static inline ssize_t nocancel_recv(int fd, void *buf, size_t n, int flags)
{
	return nocancel_end(rawcall(SYS_recvfrom, fd, buf, n, flags));
}

static inline ssize_t nocancel_send(int fd, const void *buf, size_t n,
				    int flags)
{
	return nocancel_end(rawcall(SYS_sendto, fd, buf, n, flags));
}

static inline ssize_t nocancel_recvmsg(int fd, struct msghdr *msg, int flags)
{
	return nocancel_end(rawcall(SYS_recvmsg, fd, msg, flags));
}

static inline int nocancel_recvmmsg(int fd, struct mmsghdr *msgs, unsigned n,
				    int flags)
{
	return (int)nocancel_end(
	    rawcall(SYS_recvmmsg, fd, msgs, n, flags, NULL));
}

static inline ssize_t nocancel_sendmsg(int fd, const struct msghdr *msg,
				       int flags)
{
	return nocancel_end(rawcall(SYS_sendmsg, fd, msg, flags));
}

/* The kernel writes the time that is left into @ts.  libc's function does not. */
static inline int nocancel_ppoll(struct pollfd *fds, nfds_t n,
				 const struct timespec *ts,
				 const sigset_t *mask)
{
	struct timespec left = ts ? *ts : (struct timespec){ 0 };

	return (int)nocancel_end(
	    rawcall(SYS_ppoll, fds, n, ts ? &left : NULL, mask, 8));
}

/* A filter that the program has set up may allow only this one of the two. */
static inline int nocancel_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
#ifdef SYS_poll
	return (int)nocancel_end(rawcall(SYS_poll, fds, n, timeout_ms));
#else
	struct timespec ts = { .tv_sec = timeout_ms / 1000,
			       .tv_nsec = timeout_ms % 1000 * 1000000 };

	return nocancel_ppoll(fds, n, timeout_ms < 0 ? NULL : &ts, NULL);
#endif
}

static inline int nocancel_epoll_wait(int epfd, struct epoll_event *evs, int n,
				      int timeout_ms)
{
#ifdef SYS_epoll_wait
	return (int)nocancel_end(
	    rawcall(SYS_epoll_wait, epfd, evs, n, timeout_ms));
#else
	return (int)nocancel_end(
	    rawcall(SYS_epoll_pwait, epfd, evs, n, timeout_ms, NULL, 8));
#endif
}

static inline int nocancel_connect(int fd, const struct sockaddr *to,
				   socklen_t len)
{
	return (int)nocancel_end(rawcall(SYS_connect, fd, to, len));
}

static inline int nocancel_accept4(int fd, struct sockaddr *from,
				   socklen_t *len, int flags)
{
	return (int)nocancel_end(rawcall(SYS_accept4, fd, from, len, flags));
}

static inline int nocancel_open(const char *path, int flags, mode_t mode)
{
	return (int)nocancel_end(
	    rawcall(SYS_openat, AT_FDCWD, path, flags, mode));
}

static inline int nocancel_close(int fd)
{
	return (int)nocancel_end(rawcall(SYS_close, fd));
}
