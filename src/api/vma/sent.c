/* SPDX-License-Identifier: MIT */
/* api/vma/sent.c - what sends by the kernel add to the counts of a UDP socket: vma.h */
#include <errno.h>

#include "api/vma/vma.h"
#include "api/vma/vsock.h"
#include "base/atomic.h"

/* NULL: none that counts. */
static struct osf_stats_packets *counts_of(int fd)
{
	struct vsock **slot = vsock_slot(fd), *s = slot ? load_acq(slot) : NULL;

	return s && s->is_udp ? load_acq(&s->packets.at) : NULL;
}

static void count_error(struct osf_stats_packets *p)
{
	count(errno == EAGAIN ? &p->tx_eagains : &p->tx_errors, 1);
}

ssize_t vma_sent(int fd, ssize_t r)
{
	struct osf_stats_packets *p = counts_of(fd);

	if (!p)
		return r;
	if (r < 0) {
		count_error(p);
		return r;
	}
	count(&p->n_sent, 1);
	count(&p->tx_bytes, (uint64_t)r);
	return r;
}

int vma_sent_msgs(int fd, const struct mmsghdr *msgs, int n)
{
	struct osf_stats_packets *p = counts_of(fd);

	if (p && n < 0)
		count_error(p);
	for (int i = 0; p && i < n; i++)
		vma_sent(fd, msgs[i].msg_len);
	return n;
}
