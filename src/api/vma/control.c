/* SPDX-License-Identifier: MIT */
/*
 * api/vma/control.c - rules, threads, and the program's memory for packets
 */
#include <errno.h>
#include <string.h>

#include "api/vma/calls.h"
#include "api/vma/vsock.h"
#include "base/atomic.h"
#include "ops/ops.h"
#include "ops/policy.h"

static int answer(int err, int saved)
{
	errno = err ? -err : saved;
	return err ? -1 : 0;
}

int vma_add_conf_rule(const char *line)
{
	int saved = errno;

	return answer(is_bad_ptr(line) ? -EINVAL : policy_add(line), saved);
}

int vma_thread_offload(int offload, pthread_t tid)
{
	int saved = errno;

	return answer(offload == 0 || offload == 1
			  ? ops_thread_offload_of(tid, offload)
			  : -EINVAL,
		      saved);
}

/* The program's own memory for packets. */
int vma_ioctl(void *cmsg, size_t len)
{
	const struct cmsghdr *c = cmsg;
	vma_cmsg_ioctl_user_alloc_t a;
	int saved = errno;

	if (is_bad_ptr(c) || len < CMSG_LEN(sizeof(a)) ||
	    c->cmsg_len != CMSG_LEN(sizeof(a)) || c->cmsg_level != SOL_SOCKET ||
	    c->cmsg_type != CMSG_VMA_IOCTL_USER_ALLOC)
		return answer(-EINVAL, saved);
	memcpy(&a, CMSG_DATA(c), sizeof(a));
	if (!(a.flags &
	      (VMA_IOCTL_USER_ALLOC_FLAG_TX | VMA_IOCTL_USER_ALLOC_FLAG_RX)) ||
	    !a.memalloc || !a.memfree)
		return answer(-EINVAL, saved);
	bool is_rx = a.flags & VMA_IOCTL_USER_ALLOC_FLAG_RX;
	return answer(held_set_memory(is_rx ? a.memalloc : NULL,
				      is_rx ? a.memfree : NULL),
		      saved);
}
