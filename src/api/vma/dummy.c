/* SPDX-License-Identifier: MIT */
/*
 * api/vma/dummy.c - sends that send nothing and warm the caches
 *
 *     send(..., VMA_SND_FLAGS_DUMMY)  ->  read the bytes  ->  a send below that
 *                                         publishes nothing
 *
 * TCP: a send of no bytes, which goes as far as the protocol's send.  UDP: the kernel's
 * MSG_PROBE, which finds the route and stops before it makes a packet.  It is combined with
 * MSG_MORE, or it would send what an earlier call with MSG_MORE has left.
 */
#include <errno.h>
#include <limits.h>
#include <sys/uio.h>

#include "api/vma/below.h"
#include "api/vma/vma.h"
#include "api/vma/vsock.h"

#define MSG_PROBE 0x10 /* the kernel's; glibc has another name for it */

/* Bring the bytes into the cache.  Their number, or -errno. */
static ssize_t warm(const struct msghdr *msg)
{
	size_t bytes = 0;

	if (is_bad_ptr(msg) || (msg->msg_iovlen && is_bad_ptr(msg->msg_iov)))
		return -EFAULT;
	if (msg->msg_iovlen > IOV_MAX)
		return -EMSGSIZE;
	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		const struct iovec *v = &msg->msg_iov[i];

		if (v->iov_len > SSIZE_MAX - bytes)
			return -EINVAL;
		if (v->iov_len && is_bad_ptr(v->iov_base))
			return -EFAULT;
		for (size_t at = 0; at < v->iov_len; at += CACHE_LINE)
			__builtin_prefetch((const char *)v->iov_base + at);
		bytes += v->iov_len;
	}
	return (ssize_t)bytes;
}

static ssize_t dummy(int fd, const struct msghdr *msg, int flags)
{
	int err;
	VISIT(v, vsock_make(fd, &err));

	if (!v.s)
		return -EINVAL;
	ssize_t n = warm(msg);
	if (n < 0)
		return n;
	if (v.s->is_udp && left_to(fd, msg->msg_name))
		return -EINVAL;
	struct msghdr m = *msg;
	m.msg_control = NULL;
	m.msg_controllen = 0;
	flags &= ~VMA_DUMMY;
	if (v.s->is_udp) {
		flags |= MSG_PROBE | MSG_MORE;
	} else {
		flags &= MSG_NOSIGNAL;
		m = (struct msghdr){ 0 };
	}
	if (below_sendmsg(fd, &m, flags | MSG_DONTWAIT) < 0)
		return -errno;
	count(&v.s->packets.at->n_dummies, 1);
	return n;
}

ssize_t vma_dummy_send(int fd, const struct msghdr *msg, int flags)
{
	int saved = errno;
	ssize_t r = dummy(fd, msg, flags);

	errno = r < 0 ? (int)-r : saved;
	return r < 0 ? -1 : r;
}

int vma_dummy_sendmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
	unsigned i = 0;

	if (n && is_bad_ptr(msgs)) {
		errno = EFAULT;
		return -1;
	}
	while (i < n && i < UIO_MAXIOV) {
		ssize_t r = vma_dummy_send(fd, &msgs[i].msg_hdr, flags);

		if (r < 0)
			return i ? (int)i : -1;
		msgs[i++].msg_len = (unsigned)r;
	}
	return (int)i;
}
