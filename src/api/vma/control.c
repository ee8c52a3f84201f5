/* SPDX-License-Identifier: MIT */
/*
 * api/vma/control.c - rules, threads and statistics: mellanox/vma_extra.h
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/vma/calls.h"
#include "api/vma/vsock.h"
#include "base/atomic.h"
#include "base/log.h"
#include "mellanox/xlio.h"
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

static void dump_packets(int fd)
{
	VISIT(v, vsock_get(fd));

	if (v.s)
		fprintf(stderr,
			"osf: fd %d: packets: received %" PRIu64
			", dropped %" PRIu64 ", held %" PRIu64
			"; Tx Dummy messages : %" PRIu64 "\n",
			fd, load_rlx(&v.s->packets.at->n_received),
			load_rlx(&v.s->packets.at->n_dropped),
			load_rlx(&v.s->packets.at->n_held),
			load_rlx(&v.s->packets.at->n_dummies));
}

/* As in libvma: messages above the log's level are not written.  The level is
 * info, 3 in libvma's numbers, unless the program has set another. */
static bool is_heard(int level)
{
	static const int theirs[] = { -1, 1, 2, 4, 8 };
	int ours = log_level();

	if (log_fd() < 0 && ours < 0)
		return level <= 3;
	if (ours < -1 || ours > LOG_LEVEL_DBG) /* somebody wrote it there */
		ours = ours < 0 ? -1 : LOG_LEVEL_DBG;
	return level <= theirs[ours + 1];
}

/* 0: all.  TCP sockets, and those that this API knows. */
int vma_dump_fd_stats(int fd, int level)
{
	bool is_udp = false;
	int saved = errno;

	if (fd < 0 || (fd && !vsock_is_inet(fd, &is_udp)))
		return answer(-EBADF, saved);
	if (level < 0 || !is_heard(level))
		return 0;
	if (is_udp)
		fprintf(stderr, "osf: fd %d: UDP, served by the kernel\n", fd);
	else
		xlio_dump_fd_stats(fd, level);
	if (fd)
		dump_packets(fd);
	for (int i = 1; !fd && i < vsock_fd_end(); i++)
		dump_packets(i);
	return answer(0, saved);
}
