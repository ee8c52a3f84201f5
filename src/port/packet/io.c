/* SPDX-License-Identifier: MIT */
/*
 * port/packet/io.c - frames out of the ring, and frames to the device
 *
 *     a slot -> packet_rx() -> its frame, in place or read by recvmsg()
 *     pieces -> packet_tx() -> send(), sendmsg(): virtio_net_hdr, then the frame
 *
 * The kernel writes a slot and then releases tp_status (A1 acquires it here).  When we are
 * done with the slot's bytes, we release tp_status to the kernel (R2).  Spec:
 * Documentation/networking/packet_mmap.rst
 */
#include "port/packet/packet.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <string.h>
#include <sys/socket.h>

#include "base/atomic.h"
#include "base/libc.h"
#include "base/nocancel.h"

/* The largest frame that is copied into one piece. */
#define SMALL_BYTES 512
/* A device that is merely full takes at least one frame of so many. */
#define REFUSED_MAX 8

static struct tpacket2_hdr *slot_at(const struct packet_port *p)
{
	return (struct tpacket2_hdr *)(p->map +
				       (size_t)p->next * p->ring.slot_bytes);
}

/* Offsets of a header are trusted only where they lie inside of the frame. */
static bool read_offload(const struct virtio_net_hdr *h, uint32_t len,
			 struct packet_offload *o)
{
	uint8_t gso = h->gso_type & (uint8_t)~VIRTIO_NET_HDR_GSO_ECN;

	*o = (struct packet_offload){
		.needs_csum = h->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.is_csum_good = h->flags & VIRTIO_NET_HDR_F_DATA_VALID,
		.csum_start = h->csum_start,
		.csum_off = h->csum_offset,
	};
	if (o->needs_csum && (uint32_t)h->csum_start + h->csum_offset + 2 > len)
		return false;
	if (gso == VIRTIO_NET_HDR_GSO_NONE)
		return true;
	if (gso != VIRTIO_NET_HDR_GSO_TCPV4 && gso != VIRTIO_NET_HDR_GSO_TCPV6)
		return false;
	o->gso_size = h->gso_size;
	o->is_v6 = gso == VIRTIO_NET_HDR_GSO_TCPV6;
	o->head_len = h->hdr_len;
	return h->gso_size > 0;
}

/* The whole of a frame of which the slot holds the beginning.  A device that has gone down
 * since leaves an error at the socket, and the first recvmsg() returns that and no frame.
 * The frame must leave the queue nevertheless, or each later one would be taken for the one
 * before it. */
static COLD bool read_large(struct packet_port *p, struct packet_frame *out)
{
	struct virtio_net_hdr h;
	struct iovec iov[2] = { { &h, sizeof(h) },
				{ p->large, PACKET_FRAME_MAX } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	ssize_t n = nocancel_recvmsg(p->fd, &msg, MSG_DONTWAIT);

	if (n < 0 && errno != EAGAIN) {
		p->rx_error = -errno;
		n = nocancel_recvmsg(p->fd, &msg, MSG_DONTWAIT);
	}

	if (n < (ssize_t)sizeof(h) || msg.msg_flags & MSG_TRUNC)
		return false;
	out->data = p->large;
	out->len = (uint32_t)n - (uint32_t)sizeof(h);
	return read_offload(&h, out->len, &out->offload);
}

static bool read_slot(struct packet_port *p, const struct tpacket2_hdr *s,
		      uint32_t status, struct packet_frame *out)
{
	struct virtio_net_hdr h;
	uint32_t mac = s->tp_mac, len = s->tp_snaplen;

	if (unlikely(status & TP_STATUS_COPY))
		return read_large(p, out);
	if (unlikely(len != s->tp_len || mac < sizeof(*s) + sizeof(h) ||
		     mac + (uint64_t)len > p->ring.slot_bytes))
		return false;
	out->data = (const uint8_t *)s + mac;
	out->len = len;
	memcpy(&h, out->data - sizeof(h), sizeof(h));
	return read_offload(&h, len, &out->offload);
}

bool packet_has_come(const struct packet_port *p)
{
	return load_rlx(&slot_at(p)->tp_status) & TP_STATUS_USER;
}

/*
 * The kernel drops a frame for which the ring has no slot.  It reports that only in the
 * slot of a later frame, which may never come.  But a program that empties a full ring
 * finds a frame in each slot.  The kernel may still be writing some of the last slots, so
 * this counts the ring as full when three quarters of it hold frames.
 */
static inline void note_frame(struct packet_port *p)
{
	if (likely(++p->n_in_row < p->ring.n_slots / 4 * 3))
		return;
	p->n_in_row = 0;
	p->stats.n_rx_full++;
}

bool packet_rx(struct packet_port *p, struct packet_frame *out)
{
	for (uint32_t i = 0; i < p->ring.n_slots; i++) {
		struct tpacket2_hdr *s = slot_at(p);
		uint32_t status = load_acq(&s->tp_status); /* A1 */

		if (!(status & TP_STATUS_USER)) {
			p->n_in_row = 0;
			return false;
		}
		note_frame(p);
		if (likely(read_slot(p, s, status, out))) {
			p->stats.n_rx++;
			return true;
		}
		p->stats.n_rx_cut++;
		packet_rx_done(p);
	}
	return false;
}

void packet_rx_done(struct packet_port *p)
{
	store_rel(&slot_at(p)->tp_status, TP_STATUS_KERNEL); /* R2 */
	p->next = (p->next + 1) & (p->ring.n_slots - 1);
}

static void write_offload(const struct packet_offload *o,
			  struct virtio_net_hdr *h)
{
	*h = (struct virtio_net_hdr){ 0 };
	if (!o)
		return;
	if (o->needs_csum) {
		h->flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
		h->csum_start = o->csum_start;
		h->csum_offset = o->csum_off;
	}
	if (o->gso_size) {
		h->gso_type = o->is_v6 ? VIRTIO_NET_HDR_GSO_TCPV6
				       : VIRTIO_NET_HDR_GSO_TCPV4;
		h->gso_size = o->gso_size;
		h->hdr_len = o->head_len;
	}
}

/* The kernel takes 70 ns longer for the pieces of sendmsg() than for the one of send(). */
static ssize_t send_small(int fd, const struct virtio_net_hdr *h,
			  const struct iovec *iov, unsigned n)
{
	uint8_t frame[sizeof(*h) + SMALL_BYTES];
	size_t at = sizeof(*h);

	memcpy(frame, h, sizeof(*h));
	for (unsigned i = 0; i < n; i++) {
		memcpy(frame + at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	return nocancel_send(fd, frame, at, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static ssize_t send_large(int fd, struct virtio_net_hdr *h,
			  const struct iovec *iov, unsigned n)
{
	struct iovec all[1 + PACKET_IOV_MAX];
	struct msghdr msg = { .msg_iov = all, .msg_iovlen = 1 + n };

	all[0] = (struct iovec){ h, sizeof(*h) };
	memcpy(all + 1, iov, n * sizeof(*iov));
	return nocancel_sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static bool is_small(const struct iovec *iov, unsigned n)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < n; i++)
		bytes += iov[i].iov_len;
	return bytes <= SMALL_BYTES;
}

/* The kernel has refused a large frame.  When frames bypass the qdisc and the device does
 * not cut segments (tso off), the kernel does not cut them either, and returns the same
 * error as for a full queue.  An administrator may turn tso off at any time. */
static COLD void large_refused(struct packet_port *p)
{
	int off = 0;

	if (p->has_qdisc || ++p->n_refused < REFUSED_MAX)
		return;
	p->has_qdisc = true;
	(void)libc.setsockopt(p->fd, SOL_PACKET, PACKET_QDISC_BYPASS, &off,
			      sizeof(off));
}

int packet_tx(struct packet_port *p, const struct iovec *iov, unsigned n,
	      const struct packet_offload *o)
{
	struct virtio_net_hdr h;

	assert(n <= PACKET_IOV_MAX);
	write_offload(o, &h);
	ssize_t sent = likely(is_small(iov, n)) ? send_small(p->fd, &h, iov, n)
						: send_large(p->fd, &h, iov, n);
	if (likely(sent >= 0)) {
		p->stats.n_tx++;
		p->n_refused = 0;
		return 0;
	}
	if (errno != ENOBUFS && errno != EAGAIN)
		return -errno;
	if (errno == ENOBUFS && o && o->gso_size)
		large_refused(p);
	p->stats.n_tx_full++;
	return -EAGAIN;
}
