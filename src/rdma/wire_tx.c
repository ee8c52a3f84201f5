/* SPDX-License-Identifier: MIT */
/*
 * rdma/wire_tx.c - packets on their way to the socket
 *
 *     wire_put() -> run: packets of one size to one host, the last one may be shorter
 *     wire_flush() -> one sendmsg(), which the kernel cuts up (UDP_SEGMENT)
 *
 * The ICRC covers the identification of the IPv4 header.  The kernel gives the parts of one
 * call the identifications 0, 1, 2 and so on, and 0 to a single datagram that may not be
 * fragmented.
 */
#include <endian.h>
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

#include "base/nocancel.h"
#include "rdma/show.h"
#include "rdma/wire_in.h"

#define RUN_BYTES 61440u
#define RUN_PACKETS 60u

static struct {
	struct roce_flow flow;
	uint32_t n_packets, part; /* bytes of each but the last */
	size_t n;
	bool is_closed;  /* by one that is shorter */
	bool cannot_cut; /* the kernel refuses UDP_SEGMENT */
	uint8_t bytes[RUN_BYTES + ROCE_MAX];
} run;

/* Says from which of our addresses the packets leave.  A socket of IPv6 accepts IPv4's
 * control message as well, and the kernel reads the shorter message without allocating a
 * buffer. */
static struct cmsghdr *put_source(struct msghdr *msg, struct cmsghdr *c)
{
	if (run.flow.is_v6) {
		struct in6_pktinfo info = { 0 };

		memcpy(&info.ipi6_addr, run.flow.src, 16);
		c->cmsg_level = IPPROTO_IPV6;
		c->cmsg_type = IPV6_PKTINFO;
		c->cmsg_len = CMSG_LEN(sizeof(info));
		memcpy(CMSG_DATA(c), &info, sizeof(info));
	} else {
		struct in_pktinfo info = { 0 };

		memcpy(&info.ipi_spec_dst, run.flow.src, 4);
		c->cmsg_level = IPPROTO_IP;
		c->cmsg_type = IP_PKTINFO;
		c->cmsg_len = CMSG_LEN(sizeof(info));
		memcpy(CMSG_DATA(c), &info, sizeof(info));
	}
	return CMSG_NXTHDR(msg, c);
}

/* Caller holds tx_lock. */
static void send_run(void)
{
	struct sockaddr_storage to;
	union {
		char bytes[128];
		struct cmsghdr aligned;
	} control = { 0 };
	struct iovec iov = { run.bytes, run.n };
	struct msghdr msg = { .msg_name = &to,
			      .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };

	msg.msg_namelen = wire_sockaddr(run.flow.dst, run.flow.is_v6, &to);
	struct cmsghdr *c = put_source(&msg, CMSG_FIRSTHDR(&msg));
	if (run.n_packets > 1) {
		uint16_t part = (uint16_t)run.part;

		c->cmsg_level = IPPROTO_UDP;
		c->cmsg_type = UDP_SEGMENT;
		c->cmsg_len = CMSG_LEN(sizeof(part));
		memcpy(CMSG_DATA(c), &part, sizeof(part));
		c = CMSG_NXTHDR(&msg, c);
	}
	msg.msg_controllen = (size_t)((char *)c - control.bytes);
	/* What is not sent is lost on the way. */
	if (nocancel_sendmsg(wire.fd, &msg, MSG_NOSIGNAL) < 0 &&
	    run.n_packets > 1 && (errno == EINVAL || errno == EIO))
		run.cannot_cut = true;
	store_rlx(&run.n, 0);
	run.n_packets = 0;
	run.is_closed = false;
}

/* May a packet of @n bytes be one more of the run? */
static bool joins(const struct roce_flow *f, size_t n)
{
	return !run.is_closed && !run.cannot_cut && n <= run.part &&
	       run.n + n <= RUN_BYTES && run.n_packets < RUN_PACKETS &&
	       !memcmp(f, &run.flow, sizeof(*f));
}

void wire_put(const struct roce_flow *f, struct roce_head *h,
	      const struct iovec *iov, int n_iov)
{
	int saved = errno;
	uint32_t n_payload = 0;
	uint8_t head[ROCE_HEAD_MAX];

	for (int i = 0; i < n_iov; i++)
		n_payload += (uint32_t)iov[i].iov_len;
	size_t n_head = roce_build(h, n_payload, head);
	size_t n = n_head + n_payload + h->pad + ROCE_ICRC;
	GUARD(&wire.tx_lock);
	if (run.n && !joins(f, n))
		send_run();
	if (!run.n) {
		run.flow = *f;
		run.part = (uint32_t)n;
	}
	run.is_closed = n < run.part;
	uint8_t *packet = run.bytes + run.n, *p = packet;
	memcpy(p, head, n_head);
	p += n_head;
	for (int i = 0; i < n_iov; i++) {
		memcpy(p, iov[i].iov_base, iov[i].iov_len);
		p += iov[i].iov_len;
	}
	memset(p, 0, h->pad);
	p += h->pad;
	uint32_t crc = htole32(
	    icrc(f, (uint16_t)run.n_packets, packet, (size_t)(p - packet)));
	memcpy(p, &crc, sizeof(crc));
	if (show_is_wanted())
		show_packet(true, f, (uint16_t)run.n_packets, packet, n);
	store_rlx(&run.n, run.n + n);
	run.n_packets++;
	errno = saved;
}

void wire_flush(void)
{
	int saved = errno;

	/* Who has put a packet there flushes it, unless another thread has. */
	if (!load_rlx(&run.n))
		return;
	GUARD(&wire.tx_lock);
	if (run.n)
		send_run();
	errno = saved;
}
