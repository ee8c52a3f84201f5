/* SPDX-License-Identifier: MIT */
/*
 * preload/wait.c - the calls that wait for several descriptors
 *
 * Sets without an upgraded socket go straight to libc.
 */
#include <string.h>

#include "api/vma/below.h"
#include "api/vma/vma.h"
#include "base/clock.h"
#include "base/idle.h"
#include "file/epoll.h"
#include "file/poll.h"
#include "preload/edge.h"
#include "sock/arena.h"

extern void __chk_fail(void) __attribute__((noreturn));
#pragma GCC diagnostic ignored                                                 \
    "-Wmaybe-uninitialized" /* is_bad_ptr() is no use */
int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t size);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *ts,
		const sigset_t *mask, size_t size);

static const struct timespec *ms_timespec(int ms, struct timespec *ts)
{
	if (ms < 0)
		return NULL;
	*ts = ns_timespec((uint64_t)ms * NS_PER_MS);
	return ts;
}

/* Can the kernel's answer be wrong for any of these few descriptors?  A check
 * without a function call; preload/data.h says why. */
static inline bool may_concern_us(const struct pollfd *fds, nfds_t n)
{
	const nfds_t few = 64;

	if (unlikely(idle_is_on()))
		return true;
	for (nfds_t i = 0; i < MIN(n, few); i++)
		if (unlikely(file_serves(fds[i].fd)))
			return true;
	return n > few;
}

OURS int poll_ours(struct pollfd *fds, nfds_t n, int timeout)
{
	struct timespec ts;
	int saved = errno;

	if (!poll_concerns_us(fds, n))
		return libc.poll(fds, n, timeout);
	return (int)libc_ret(
	    poll_files(fds, n, ms_timespec(timeout, &ts), NULL), saved);
}

OSF_API int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	struct timespec ts;

	if (vma_is_on() && !is_bad_ptr(fds))
		return vma_ppoll(fds, n, ms_timespec(timeout, &ts), NULL);
	return is_bad_ptr(fds) || likely(!may_concern_us(fds, n))
		   ? libc.poll(fds, n, timeout)
		   : poll_ours(fds, n, timeout);
}

OURS int ppoll_ours(struct pollfd *fds, nfds_t n, const struct timespec *ts,
		    const sigset_t *mask)
{
	int saved = errno;

	if (!poll_concerns_us(fds, n))
		return libc.ppoll(fds, n, ts, mask);
	return (int)libc_ret(poll_files(fds, n, ts, mask), saved);
}

int below_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *ts,
		const sigset_t *mask)
{
	return likely(!may_concern_us(fds, n)) ? libc.ppoll(fds, n, ts, mask)
					       : ppoll_ours(fds, n, ts, mask);
}

OSF_API int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *ts,
		  const sigset_t *mask)
{
	if (is_bad_ptr(fds))
		return libc.ppoll(fds, n, ts, mask);
	return vma_is_on() ? vma_ppoll(fds, n, ts, mask)
			   : below_ppoll(fds, n, ts, mask);
}

OSF_API int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t size)
{
	if (size / sizeof(*fds) < n)
		__chk_fail();
	return poll(fds, n, timeout);
}

OSF_API int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *ts,
			const sigset_t *mask, size_t size)
{
	if (size / sizeof(*fds) < n)
		__chk_fail();
	return ppoll(fds, n, ts, mask);
}

int below_pselect(int n, fd_set *r, fd_set *w, fd_set *e,
		  const struct timespec *ts, const sigset_t *mask)
{
	bool ours;
	int saved = errno;
	bool bad = n < 0 || (r && is_bad_ptr(r)) || (w && is_bad_ptr(w)) ||
		   (e && is_bad_ptr(e));
	int got = bad ? 0 : select_files(n, r, w, e, ts, mask, &ours);

	if (bad || likely(!ours))
		return libc.pselect(n, r, w, e, ts, mask);
	return (int)libc_ret(got, saved);
}

OSF_API int pselect(int n, fd_set *restrict r, fd_set *restrict w,
		    fd_set *restrict e, const struct timespec *restrict ts,
		    const sigset_t *restrict mask)
{
	return vma_is_on() ? vma_pselect(n, r, w, e, ts, mask)
			   : below_pselect(n, r, w, e, ts, mask);
}

/* Linux' select() writes the unused time into @tv. */
static void put_unused(struct timeval *tv, uint64_t all, uint64_t start)
{
	uint64_t used = now_ns() - start;
	uint64_t left = used < all ? all - used : 0;

	tv->tv_sec = (time_t)(left / NS_PER_S);
	tv->tv_usec = (suseconds_t)(left % NS_PER_S / NS_PER_US);
}

OSF_API int select(int n, fd_set *restrict r, fd_set *restrict w,
		   fd_set *restrict e, struct timeval *restrict tv)
{
	struct timespec ts = { 0 };
	int saved = errno;
	bool ours;

	if (n < 0 || (r && is_bad_ptr(r)) || (w && is_bad_ptr(w)) ||
	    (e && is_bad_ptr(e)) || (tv && is_bad_ptr(tv)) ||
	    (tv && (tv->tv_sec < 0 || tv->tv_usec < 0)))
		return libc.select(n, r, w, e, tv);
	if (tv)
		ts = ns_timespec((uint64_t)tv->tv_sec * NS_PER_S +
				 (uint64_t)tv->tv_usec * NS_PER_US);
	uint64_t start = 0;
	if (tv && (tv->tv_sec || tv->tv_usec))
		start = now_ns();
	int got;
	if (vma_is_on()) {
		got = vma_pselect(n, r, w, e, tv ? &ts : NULL, NULL);
		got = got < 0 ? -errno : got;
	} else {
		got = select_files(n, r, w, e, tv ? &ts : NULL, NULL, &ours);
		if (likely(!ours))
			return libc.select(n, r, w, e, tv);
	}
	if (start)
		put_unused(
		    tv, (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec,
		    start);
	return (int)libc_ret(got, saved);
}

/* Without a statistics file there are no sockets of ours (OSF_DISABLE). */
static int epoll_made(int fd)
{
	int saved = errno;
	struct epoll *ep = fd >= 0 && arena_is_open() ? epoll_new(fd) : NULL;

	if (ep && !file_new_epoll(fd, ep))
		epoll_free(ep);
	errno = saved;
	return fd;
}

OSF_API int epoll_create(int size)
{
	return epoll_made(libc.epoll_create(size));
}

OSF_API int epoll_create1(int flags)
{
	return epoll_made(libc.epoll_create1(flags));
}

OURS int epoll_ctl_ours(int epfd, int op, int fd, struct epoll_event *ev)
{
	int saved = errno;
	CALL(c) = { .file = file_get(epfd) };

	if (!c.file || c.file->kind != FILE_EPOLL ||
	    (op != EPOLL_CTL_DEL && is_bad_ptr(ev)))
		return libc.epoll_ctl(epfd, op, fd, ev);
	return (int)libc_ret(epoll_file_ctl(epfd, c.file, op, fd, ev), saved);
}

int below_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	return likely(!table_load(fd)) ? libc.epoll_ctl(epfd, op, fd, ev)
				       : epoll_ctl_ours(epfd, op, fd, ev);
}

OSF_API int epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	return unlikely(load_rlx(&vma_is_asked))
		   ? vma_epoll_ctl(epfd, op, fd, ev)
		   : below_epoll_ctl(epfd, op, fd, ev);
}

/* The kernel writes to the pointer when it has something to write. */
static bool is_bad_fault(struct file *f, const struct epoll_event *evs)
{
	return unlikely(is_bad_ptr(evs)) && f && f->kind == FILE_EPOLL &&
	       epoll_is_merged(f) && epoll_has_ready(f);
}

OURS int epoll_pwait2_ours(int epfd, struct epoll_event *evs, int n,
			   const struct timespec *ts, const sigset_t *mask)
{
	int saved = errno;
	CALL(c) = { .file = file_get(epfd) };

	if (is_bad_fault(c.file, evs))
		return (int)libc_ret(n > 0 ? -EFAULT : -EINVAL, saved);
	if (!c.file || c.file->kind != FILE_EPOLL || is_bad_ptr(evs))
		return libc.epoll_pwait2(epfd, evs, n, ts, mask);
	call_may_sleep(&c);
	return (int)libc_ret(epoll_file_wait(epfd, c.file, evs, n, ts, mask),
			     saved);
}

int below_epoll_pwait2(int epfd, struct epoll_event *evs, int n,
		       const struct timespec *ts, const sigset_t *mask)
{
	return likely(!file_serves(epfd))
		   ? libc.epoll_pwait2(epfd, evs, n, ts, mask)
		   : epoll_pwait2_ours(epfd, evs, n, ts, mask);
}

OSF_API int epoll_pwait2(int epfd, struct epoll_event *evs, int n,
			 const struct timespec *ts, const sigset_t *mask)
{
	return vma_is_on() ? vma_epoll_pwait2(epfd, evs, n, ts, mask)
			   : below_epoll_pwait2(epfd, evs, n, ts, mask);
}

OURS int epoll_pwait_ours(int epfd, struct epoll_event *evs, int n, int timeout,
			  const sigset_t *mask)
{
	struct timespec ts;
	int saved = errno;
	CALL(c) = { .file = file_get(epfd) };

	if (is_bad_fault(c.file, evs))
		return (int)libc_ret(n > 0 ? -EFAULT : -EINVAL, saved);
	if (!c.file || c.file->kind != FILE_EPOLL || is_bad_ptr(evs))
		return libc.epoll_pwait(epfd, evs, n, timeout, mask);
	call_may_sleep(&c);
	return (int)libc_ret(epoll_file_wait(epfd, c.file, evs, n,
					     ms_timespec(timeout, &ts), mask),
			     saved);
}

OSF_API int epoll_pwait(int epfd, struct epoll_event *evs, int n, int timeout,
			const sigset_t *mask)
{
	struct timespec ts;

	if (vma_is_on())
		return vma_epoll_pwait2(epfd, evs, n, ms_timespec(timeout, &ts),
					mask);
	return likely(!file_serves(epfd))
		   ? libc.epoll_pwait(epfd, evs, n, timeout, mask)
		   : epoll_pwait_ours(epfd, evs, n, timeout, mask);
}

OSF_API int epoll_wait(int epfd, struct epoll_event *evs, int n, int timeout)
{
	struct timespec ts;

	if (vma_is_on())
		return vma_epoll_pwait2(epfd, evs, n, ms_timespec(timeout, &ts),
					NULL);
	return likely(!file_serves(epfd))
		   ? libc.epoll_wait(epfd, evs, n, timeout)
		   : epoll_pwait_ours(epfd, evs, n, timeout, NULL);
}
