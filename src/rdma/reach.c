/* SPDX-License-Identifier: MIT */
/*
 * rdma/reach.c - memory of other processes, read and written in place
 *
 *     reach()                    process_vm_readv() or process_vm_writev()
 *     reach_last(), reach_cut()  the order in which an RDMA write stores its bytes
 *     reach_atomic()             a read, a comparison and a write under a lock
 *
 * The kernel decides who may: the same user, no less privileged, and what Yama says.
 * Atomic operations of all processes on one process's memory take turns by flock() on that
 * process's directory, which the kernel releases when a holder dies.  They are atomic among
 * each other, not towards the owner's own instructions: that is what IBV_ATOMIC_HCA
 * promises.
 */
#include <errno.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "rdma/core.h"

#define LOCK_WAIT_NS NS_PER_S
#define WORD 8u

static size_t bytes_of(const struct iovec *iov, unsigned n)
{
	size_t sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += iov[i].iov_len;
	return sum;
}

ssize_t reach(struct peer *p, const struct iovec *local, unsigned n_local,
	      const struct iovec *remote, unsigned n_remote, bool is_write)
{
	size_t want = bytes_of(local, n_local);

	if (!want)
		return 0;
	if (p->may_reach < 0)
		return -EPERM;
	int saved = errno;
	ssize_t n =
	    is_write
		? process_vm_writev(p->pid, local, n_local, remote, n_remote, 0)
		: process_vm_readv(p->pid, local, n_local, remote, n_remote, 0);
	ssize_t ret = n < 0 ? -errno : (size_t)n == want ? n : -EFAULT;
	errno = saved;
	if (ret == -EPERM || ret == -ENOSYS) {
		p->may_reach = -1;
		return -EPERM;
	}
	return ret;
}

/*
 * The kernel copies each page, and each part of our memory, with one string instruction,
 * and a processor may carry out the stores of one instruction in any order.  The stores of
 * two instructions stay in order.  So the last word is a part of its own, of our memory:
 * the kernel would pin the page of a second part of the peer's memory again, for 0.2 us.
 * Within a cache line we have never seen a wrong order.
 */
size_t reach_last(uint64_t addr, size_t n)
{
	uint64_t end = addr + n;

	if (!n || addr / CACHE_LINE == (end - 1) / CACHE_LINE)
		return n;
	return (end - 1) / WORD * WORD - addr;
}

unsigned reach_cut(struct iovec *parts, unsigned n, size_t at)
{
	unsigned i = 0;

	for (; i < n && at >= parts[i].iov_len; i++)
		at -= parts[i].iov_len;
	if (i == n || !at)
		return n;
	for (unsigned k = n; k > i; k--)
		parts[k] = parts[k - 1];
	parts[i].iov_len = at;
	parts[i + 1].iov_base = (uint8_t *)parts[i + 1].iov_base + at;
	parts[i + 1].iov_len -= at;
	return n + 1;
}

/* Whoever holds the lock is inside one operation, or is no friend of ours. */
static bool lock_memory(struct peer *p)
{
	uint64_t since = now_ns();

	if (p->flock_fd < 0)
		return false;
	while (flock(p->flock_fd, LOCK_EX | LOCK_NB)) {
		if (now_ns() - since > LOCK_WAIT_NS)
			return false;
		sched_yield();
	}
	return true;
}

int reach_atomic(struct peer *p, uint64_t addr, bool is_swap, uint64_t compare,
		 uint64_t swap, uint64_t *old)
{
	uint64_t was, new;
	struct iovec here = { &was, sizeof(was) };
	struct iovec there = { (void *)(uintptr_t)addr, sizeof(was) };
	int saved = errno;
	GUARD(&p->atomic_lock);

	if (!lock_memory(p)) {
		errno = saved;
		return -ETIMEDOUT;
	}
	ssize_t n = reach(p, &here, 1, &there, 1, false);
	new = is_swap ? swap : was + compare;
	here.iov_base = &new;
	if (n > 0 && (!is_swap || was == compare))
		n = reach(p, &here, 1, &there, 1, true);
	flock(p->flock_fd, LOCK_UN);
	errno = saved;
	*old = was;
	return n < 0 ? (int)n : 0;
}
