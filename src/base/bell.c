/* SPDX-License-Identifier: MIT */
/* base/bell.c - see base/bell.h */
#include <errno.h>
#include <linux/ioctl.h>
#include <linux/types.h>
#include <sys/timerfd.h>

#include "base/atomic.h"
#include "base/fds.h"
#include "base/lock.h"
#include "base/rawcall.h"
#include "base/bell.h"
#include "base/nocancel.h"

#ifndef TFD_IOC_SET_TICKS
#define TFD_IOC_SET_TICKS _IOW('T', 0, __u64)
#endif

/* The bells of this process.  They are made in order, and each belongs to one thread at a
 * time. */
static struct bell {
	int fd1;        /* plus 1; 0: closed for good */
	uint32_t owner; /* thread id */
	pid_t given_to; /* 0: nobody yet */
	bool is_private;
} bells[BELLS];

static struct lock lock; /* for the making and the giving of bells */
static uint32_t n_bells;
static bool has_none; /* the kernel does not know the call */
static uint32_t n_forks;

/* What a thread remembers: whether it has asked for a bell in this process, and which one
 * it got. */
static __thread struct {
	uint32_t asked; /* n_forks, then, plus 1 */
	uint32_t bell;
} mine __attribute__((tls_model("initial-exec")));

/* Each thread that rings writes it, so it has a cache line to itself. */
static struct {
	alignas(CACHE_LINE) uint32_t n;
} met;

/* A system call without libc, because none of libc is in the caches of a program that has
 * slept. */
static int set_ticks(int fd, uint64_t ticks)
{
	return (int)rawcall(SYS_ioctl, fd, TFD_IOC_SET_TICKS, &ticks);
}

/* Clears what the timer was set to, and what was rung. */
static void clear_ticks(int fd)
{
	const struct itimerspec never = { 0 };

	rawcall(SYS_timerfd_settime, fd, 0, &never, NULL);
}

/* A descriptor of a new bell, or -errno. */
static int bell_open(void)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd < 0)
		return -errno;
	int err = set_ticks(fd, 1);
	if (err) {
		nocancel_close(fd);
		return err;
	}
	clear_ticks(fd);
	return fds_hide_spare(fd);
}

static bool is_dead(uint32_t tid)
{
	return rawcall(SYS_tkill, tid, 0) == -ESRCH;
}

/* A bell whose thread has ended, or a new one.  The caller holds the lock. */
static uint32_t bell_find(void)
{
	for (uint32_t i = 0; i < n_bells; i++)
		if (load_rlx(&bells[i].fd1) && is_dead(bells[i].owner))
			return i;
	if (n_bells == BELLS)
		return BELL_NONE;
	int fd = bell_open();
	if (fd < 0) {
		has_none |= fd == -ENOTTY || fd == -EINVAL || fd == -EPERM;
		return BELL_NONE;
	}
	bells[n_bells].is_private = true;
	store_rel(&bells[n_bells].fd1, fd + 1);
	return n_bells++;
}

static COLD uint32_t bell_take(void)
{
	int saved = errno;
	uint32_t bell = BELL_NONE;

	lock_get(&lock);
	if (!has_none)
		bell = bell_find();
	if (bell != BELL_NONE)
		bells[bell].owner = lock_self();
	mine.bell = bell;
	mine.asked = n_forks + 1;
	lock_put(&lock);
	errno = saved;
	return bell;
}

uint32_t bell_mine(void)
{
	return likely(mine.asked == n_forks + 1) ? mine.bell : bell_take();
}

int bell_own_fd(uint32_t bell)
{
	return bell < BELLS ? load_acq(&bells[bell].fd1) - 1 : -1;
}

void bell_hush(uint32_t bell)
{
	int fd = bell_own_fd(bell);

	if (fd >= 0)
		clear_ticks(fd);
}

void bell_ring_own(uint32_t bell)
{
	int fd = bell_own_fd(bell);

	if (fd >= 0)
		set_ticks(fd, 1);
}

COLD void bells_ring_own(void)
{
	GUARD(&lock);
	for (uint32_t i = 0; i < n_bells; i++)
		bell_ring_own(i);
}

bool bell_is_private(uint32_t bell)
{
	return bell < BELLS && load_rlx(&bells[bell].is_private);
}

int bell_fd_get(uint32_t bell, pid_t to)
{
	lock_get(&lock);
	int fd = bell_own_fd(bell);
	if (fd < 0)
		return -EMFILE;
	if (!bells[bell].given_to)
		bells[bell].given_to = to;
	else if (bells[bell].given_to != to)
		store_rlx(&bells[bell].is_private, false);
	return fd;
}

void bell_fd_put(void) { lock_put(&lock); }

bool bells_spare_fds(void)
{
	GUARD(&lock);
	bool any = false;

	for (uint32_t i = 0; i < n_bells; i++) {
		int fd = xchg(&bells[i].fd1, 0) - 1;

		any |= fd >= 0;
		fds_close(fd);
	}
	return any;
}

/* The bells belong to the parent.  The child begins without any. */
void bells_after_fork(void)
{
	lock_inherit(&lock);
	for (uint32_t i = 0; i < n_bells; i++) {
		fds_close(bells[i].fd1 - 1);
		bells[i] = (struct bell){ 0 };
	}
	n_bells = 0;
	n_forks++;
}

/* Fails at once on a descriptor that is no timerfd. */
static bool is_timer(int fd)
{
	struct itimerspec at;

	return timerfd_gettime(fd, &at) == 0;
}

static int doubt(struct peer_bells *of)
{
	bells_forget(of);
	of->is_doubted = true;
	return -EPERM;
}

int bell_keep(struct peer_bells *of, uint32_t bell, int fd, pid_t pid)
{
	int saved = errno, err = 0;

	if (bell >= BELLS || !is_timer(fd))
		err = -EBADMSG;
	else if (of->is_doubted || pid <= 0) /* of another PID namespace */
		err = -EPERM;
	else if (of->pid && of->pid != pid)
		err = doubt(of);
	if (err || of->fd1[bell]) { /* it has not changed since */
		nocancel_close(fd);
		errno = saved;
		return err;
	}
	fd = fds_hide_spare(fd);
	errno = saved;
	if (fd < 0)
		return -EMFILE;
	of->pid = pid;
	store_rel(&of->fd1[bell], fd + 1);
	return 0;
}

bool bell_is_kept(const struct peer_bells *of, uint32_t bell)
{
	return bell < BELLS && load_acq(&of->fd1[bell]);
}

HOT bool bell_ring(const struct peer_bells *of, uint32_t bell)
{
	int fd = bell < BELLS ? load_acq(&of->fd1[bell]) - 1 : -1;

	return fd >= 0 && !set_ticks(fd, 1);
}

void bell_met_sleeper(void) { count(&met.n, 1); }
uint32_t bell_sleepers_met(void) { return load_rlx(&met.n); }

bool bells_forget(struct peer_bells *of)
{
	bool any = false;

	for (uint32_t i = 0; i < BELLS; i++) {
		int fd = xchg(&of->fd1[i], 0) - 1;

		any |= fd >= 0;
		fds_close(fd);
	}
	return any;
}
