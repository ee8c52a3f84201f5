/* SPDX-License-Identifier: MIT */
/*
 * preload/raw.c - syscall(): system calls by number
 *
 *     syscall(SYS_write, fd, ...)  ->  write(), if @fd has an entry
 *                                  ->  the kernel, for all else
 *
 * Programs use it for calls that libc does not wrap, and some for calls that it
 * does.  The kernel's calls differ from libc's where they take a signal set: it
 * comes with its size and has 8 bytes.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include "api/vma/vma.h"
#include "base/clock.h"
#include "base/rawcall.h"
#include "file/poll.h"
#include "preload/async.h"
#include "preload/creds.h"
#include "preload/edge.h"

#define KERNEL_SIGSET_BYTES 8

struct args {
	long a, b, c, d, e, f;
};

static long kernel(long nr, const struct args *x)
{
	long r = rawcall6(nr, x->a, x->b, x->c, x->d, x->e, x->f);

	if (r < 0 && r > -4096) {
		errno = (int)-r;
		return -1;
	}
	return r;
}

/* libc's form of the kernel's signal set at @p; NULL for none. */
static const sigset_t *set_of(const void *p, sigset_t *set)
{
	if (!p || is_bad_ptr(p))
		return NULL;
	memset(set, 0, sizeof(*set));
	memcpy(set, p, KERNEL_SIGSET_BYTES);
	return set;
}

/* A set that the kernel would refuse is its own to refuse. */
static bool is_odd_set(long set, long size)
{
	return set && (size != KERNEL_SIGSET_BYTES || is_bad_ptr(set));
}

/* Bytes: served if the first argument is a file of ours. */
static bool moves_bytes(long nr, const struct args *x, long *r)
{
	int fd = (int)x->a;
	void *p = (void *)x->b;
	size_t n = (size_t)x->c;

	switch (nr) {
	case SYS_read:
		return *r = read(fd, p, n), true;
	case SYS_write:
		return *r = write(fd, p, n), true;
	case SYS_readv:
		return *r = readv(fd, p, (int)n), true;
	case SYS_writev:
		return *r = writev(fd, p, (int)n), true;
	case SYS_preadv2:
		return *r = preadv2(fd, p, (int)n, x->d, (int)x->f), true;
	case SYS_pwritev2:
		return *r = pwritev2(fd, p, (int)n, x->d, (int)x->f), true;
	case SYS_sendto:
		return *r = sendto(fd, p, n, (int)x->d, (void *)x->e,
				   (socklen_t)x->f),
		       true;
	case SYS_recvfrom:
		return *r = recvfrom(fd, p, n, (int)x->d, (void *)x->e,
				     (void *)x->f),
		       true;
	case SYS_sendmsg:
		return *r = sendmsg(fd, p, (int)n), true;
	case SYS_recvmsg:
		return *r = recvmsg(fd, p, (int)n), true;
	case SYS_sendmmsg:
		return *r = sendmmsg(fd, p, (unsigned)n, (int)x->d), true;
	case SYS_recvmmsg:
		return *r = recvmmsg(fd, p, (unsigned)n, (int)x->d,
				     (void *)x->e),
		       true;
	case SYS_sendfile:
		return *r = sendfile(fd, (int)x->b, (void *)x->c, (size_t)x->d),
		       true;
	default:
		return false;
	}
}

/* Descriptors themselves. */
static bool changes_fd(long nr, const struct args *x, long *r)
{
	int fd = (int)x->a;

	switch (nr) {
	case SYS_close:
		return *r = close(fd), true;
	case SYS_dup:
		return *r = dup(fd), true;
	case SYS_fcntl:
		return *r = fcntl(fd, (int)x->b, x->c), true;
	case SYS_ioctl:
		return *r = ioctl(fd, (unsigned long)x->b, x->c), true;
	case SYS_shutdown:
		return *r = shutdown(fd, (int)x->b), true;
	case SYS_connect:
		return *r = connect(fd, (void *)x->b, (socklen_t)x->c), true;
	case SYS_listen:
		return *r = listen(fd, (int)x->b), true;
	case SYS_accept:
		return *r = accept(fd, (void *)x->b, (void *)x->c), true;
	case SYS_accept4:
		return *r = accept4(fd, (void *)x->b, (void *)x->c, (int)x->d),
		       true;
	case SYS_getsockopt:
		return *r = getsockopt(fd, (int)x->b, (int)x->c, (void *)x->d,
				       (void *)x->e),
		       true;
	case SYS_setsockopt:
		return *r = setsockopt(fd, (int)x->b, (int)x->c, (void *)x->d,
				       (socklen_t)x->e),
		       true;
	default:
		return false;
	}
}

/*
 * The kernel's ppoll() and pselect6() write the time that is left into the
 * timeout; libc hides that.  If the memory is read-only the kernel leaves it
 * alone.  We try with clock_getres(), which writes there or returns an error.
 */
struct timeout {
	struct timespec *at; /* the program's, or NULL */
	struct timespec whole;
	uint64_t start_ns;
};

static struct timeout timeout_begin(long arg)
{
	struct timeout t = { .at = (struct timespec *)arg };

	if (!t.at)
		return t;
	t.whole = *t.at;
	t.start_ns = now_ns();
	return t;
}

static void timeout_end(const struct timeout *t)
{
	if (!t->at || (!t->whole.tv_sec && !t->whole.tv_nsec) ||
	    (unsigned long)t->whole.tv_nsec >= NS_PER_S || t->whole.tv_sec < 0)
		return;
	uint64_t whole =
	    (uint64_t)t->whole.tv_sec * NS_PER_S + (uint64_t)t->whole.tv_nsec;
	uint64_t used = now_ns() - t->start_ns;
	if (!rawcall(SYS_clock_getres, CLOCK_MONOTONIC, t->at))
		*t->at = ns_timespec(used < whole ? whole - used : 0);
}

static long raw_ppoll(const struct args *x)
{
	sigset_t set;

	/* All other calls go to the kernel unchanged. */
	if (is_odd_set(x->d, x->e) || is_bad_ptr(x->a) ||
	    (x->c && is_bad_ptr(x->c)) ||
	    !poll_concerns_us((void *)x->a, (nfds_t)x->b))
		return kernel(SYS_ppoll, x);
	struct timeout t = timeout_begin(x->c);
	long r = ppoll((void *)x->a, (nfds_t)x->b, t.at ? &t.whole : NULL,
		       set_of((void *)x->d, &set));
	timeout_end(&t);
	return r;
}

static long raw_pselect(const struct args *x)
{
	const long *pair = (const long *)x->f;
	fd_set *sets[] = { (void *)x->b, (void *)x->c, (void *)x->d };
	sigset_t set;

	if ((pair && (is_bad_ptr(pair) || is_odd_set(pair[0], pair[1]))) ||
	    (x->e && is_bad_ptr(x->e)) || !select_concerns_us((int)x->a, sets))
		return kernel(SYS_pselect6, x);
	struct timeout t = timeout_begin(x->e);
	long r = pselect((int)x->a, sets[0], sets[1], sets[2],
			 t.at ? &t.whole : NULL,
			 pair ? set_of((void *)pair[0], &set) : NULL);
	timeout_end(&t);
	return r;
}

static long raw_epoll_pwait(const struct args *x)
{
	sigset_t set;

	if (is_odd_set(x->e, x->f))
		return kernel(SYS_epoll_pwait, x);
	return epoll_pwait((int)x->a, (void *)x->b, (int)x->c, (int)x->d,
			   set_of((void *)x->e, &set));
}

static long raw_clone(long nr, const struct args *x)
{
	uint64_t flags = (uint64_t)x->a;

	if (nr == SYS_clone3 && !is_bad_ptr(x->a))
		memcpy(&flags, (void *)x->a, sizeof(flags));
	if (flags & CLONE_VFORK && flags & CLONE_VM && nr == SYS_clone && !x->b)
		return vfork(); /* which it is */
	/* A stack of its own is no use without libc's clone(). */
	if (flags & (CLONE_VM | CLONE_FILES) || (nr == SYS_clone && x->b))
		return kernel(nr, x);
	vma_passes_all();
	creds_before_clone((long)flags);
	fork_before();
	long pid = kernel(nr, x);
	fork_after(!pid);
	if (!pid)
		creds_after_clone((long)flags);
	return pid;
}

/* Calls that make, replace or end processes, or reach into them. */
static bool is_of_processes(long nr, const struct args *x, long *r)
{
	switch (nr) {
#ifdef SYS_fork
	case SYS_fork:
		return *r = fork(), true;
	case SYS_vfork:
		return *r = vfork(), true;
#endif
	case SYS_clone:
	case SYS_clone3:
		return *r = raw_clone(nr, x), true;
	case SYS_execve:
		return *r = execve((void *)x->a, (void *)x->b, (void *)x->c),
		       true;
	case SYS_execveat:
		return *r = execveat((int)x->a, (void *)x->b, (void *)x->c,
				     (void *)x->d, (int)x->e),
		       true;
	case SYS_exit_group:
		_exit((int)x->a);
	case SYS_pidfd_getfd:
		return *r = pidfd_getfd((int)x->a, (int)x->b, (unsigned)x->c),
		       true;
	default:
		return false;
	}
}

/* Calls that may name our files in memory, or make new ones. */
static bool needs_look(long nr, const struct args *x, long *r)
{
	switch (nr) {
#ifdef SYS_poll
	case SYS_poll:
		return *r = poll((void *)x->a, (nfds_t)x->b, (int)x->c), true;
	case SYS_select:
		return *r = select((int)x->a, (void *)x->b, (void *)x->c,
				   (void *)x->d, (void *)x->e),
		       true;
	case SYS_epoll_wait:
		return *r = epoll_wait((int)x->a, (void *)x->b, (int)x->c,
				       (int)x->d),
		       true;
	case SYS_epoll_create:
		return *r = epoll_create((int)x->a), true;
	case SYS_dup2:
		return *r = dup2((int)x->a, (int)x->b), true;
#endif
	case SYS_ppoll:
		return *r = raw_ppoll(x), true;
	case SYS_pselect6:
		return *r = raw_pselect(x), true;
	case SYS_epoll_pwait:
		return *r = raw_epoll_pwait(x), true;
	case SYS_epoll_create1:
		return *r = epoll_create1((int)x->a), true;
	case SYS_epoll_ctl:
		return *r = epoll_ctl((int)x->a, (int)x->b, (int)x->c,
				      (void *)x->d),
		       true;
	case SYS_dup3:
		return *r = dup3((int)x->a, (int)x->b, (int)x->c), true;
	case SYS_splice:
		return *r = splice((int)x->a, (void *)x->b, (int)x->c,
				   (void *)x->d, (size_t)x->e, (unsigned)x->f),
		       true;
	case SYS_socket:
		return *r = socket((int)x->a, (int)x->b, (int)x->c), true;
	case SYS_close_range:
		return *r = close_range((unsigned)x->a, (unsigned)x->b,
					(int)x->c),
		       true;
	case SYS_io_uring_setup:
		*r = kernel(nr, x);
		if (*r >= 0)
			async_leave_all();
		return true;
	case SYS_io_uring_enter:
		if (x->b)
			async_leave_all();
		return *r = kernel(nr, x), true;
	case SYS_io_uring_register:
		uring_registers((unsigned)x->b, (void *)x->c, (unsigned)x->d);
		return *r = kernel(nr, x), true;
	case SYS_io_submit:
		async_submitted((void *)x->c, x->b);
		return *r = kernel(nr, x), true;
	default:
		return false;
	}
}

OSF_API long syscall(long nr, ...)
{
	struct args x;
	va_list ap;
	long r = 0;

	va_start(ap, nr);
	x.a = va_arg(ap, long);
	x.b = va_arg(ap, long);
	x.c = va_arg(ap, long);
	x.d = va_arg(ap, long);
	x.e = va_arg(ap, long);
	x.f = va_arg(ap, long);
	va_end(ap);
	if ((table_load((int)x.a) &&
	     (moves_bytes(nr, &x, &r) || changes_fd(nr, &x, &r))) ||
	    needs_look(nr, &x, &r) || is_of_processes(nr, &x, &r))
		return r;
	creds_raw(nr, x.a, x.b, x.c);
	return kernel(nr, &x);
}
