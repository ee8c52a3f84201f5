/* SPDX-License-Identifier: MIT */
/* tests/vma/watch.c - see tests/vma/watch.h */
#include "watch.h"

struct seen seen;

vma_recv_callback_retval_t watch(int fd, size_t n_iov, struct iovec iov[],
				 struct vma_info_t *info, void *context)
{
	const char *first = iov[0].iov_base;

	seen.n++;
	__atomic_add_fetch(&seen.bytes, info->payload_sz, __ATOMIC_SEQ_CST);
	seen.fd = fd;
	seen.context = context;
	seen.size = info->payload_sz;
	seen.iov_size = n_iov == 1 ? iov[0].iov_len : 0;
	seen.info_size = info->struct_sz;
	seen.queued = info->socket_ready_queue_pkt_count +
		      info->socket_ready_queue_byte_count;
	seen.src = *info->src;
	seen.dst = *info->dst;
	seen.sw = info->sw_timestamp;
	if (seen.inside)
		seen.inside(fd);
	errno = 12345; /* which no call may show */
	if (!iov[0].iov_len || (*first != 'd' && *first != 'h'))
		return VMA_PACKET_RECV;
	if (*first == 'd' || seen.n_held == HELD)
		return VMA_PACKET_DROP;
	seen.held[seen.n_held].head.packet_id = info->packet_id;
	seen.held[seen.n_held].head.sz_iov = 1;
	seen.held[seen.n_held++].iov = iov[0];
	return VMA_PACKET_HOLD;
}

void begin(struct ends *e)
{
	memset(&seen, 0, sizeof(seen));
	EXPECT_EQ(api->register_recv_callback(e->rx, watch, &seen), 0);
}

void reads(int fd, const char *text)
{
	char buf[100];
	size_t n = strlen(text);

	EXPECT_EQ(recv(fd, buf, sizeof(buf), 0), n);
	EXPECT(!memcmp(buf, text, n));
}
