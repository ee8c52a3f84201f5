/* SPDX-License-Identifier: MIT */
/*
 * port/packet/packet.h - a port over AF_PACKET: frames through a mapped ring
 *
 *     osfd:    packet_socket() -> a socket with a ring and a filter -> SCM_RIGHTS
 *     program: packet_open() -> packet_rx(), packet_rx_done(), packet_tx()
 *
 * Arriving frames lie in the ring (TPACKET_V2), where the program reads them in place.  If
 * the device merged segments, a frame may be larger than a slot.  Then it also lies in the
 * socket's queue, and one recvmsg() reads it.  In both cases the frame says what is left to
 * do on it: a checksum to be filled in, segments to be cut.
 *
 * The program sends by sendmsg(), not by a mapped ring.  If the peer is a veth, the kernel
 * copies the frame with a ring as well, and one 64 B frame costs 0.2 us more.
 *
 * Owner: one thread at a time; there are no locks.  Frames are input of strangers, and the
 * ring's lengths are checked before use.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/compiler.h"

/* With the Ethernet header.  lo has packets of 65536 bytes. */
#define PACKET_FRAME_MAX (65536 + 14)
#define PACKET_IOV_MAX 22 /* pieces of a frame that is sent */
#define PACKET_SLOTS_MAX 1024
#define PACKET_SLOTS_MIN 128
#define PACKET_RING_BYTES                                                      \
	(2 << 20) /* what a ring has, unless slots are large */

/* A ring's geometry; osfd decides it from the device's MTU. */
struct packet_ring {
	uint32_t slot_bytes; /* a power of two */
	uint32_t n_slots;    /* a power of two */
};

/* What the sender left to be done, as struct virtio_net_hdr says it. */
struct packet_offload {
	uint16_t gso_size; /* payload of each segment; 0: one segment */
	bool is_v6;        /* of the segments to be cut */
	bool needs_csum;   /* the checksum covers the pseudo-header only */
	bool is_csum_good; /* somebody has verified it; arriving frames only */
	uint16_t head_len; /* Ethernet to TCP, of segments to be cut */
	uint16_t csum_start, csum_off; /* from where, and where to */
};

struct packet_frame {
	const uint8_t *data; /* from the Ethernet header on */
	uint32_t len;
	struct packet_offload offload;
};

struct packet_stats {
	uint64_t n_rx, n_tx;
	uint64_t n_rx_cut;  /* frames of which the kernel kept only a part */
	uint64_t n_tx_full; /* the device's queue was full */
	uint64_t
	    n_rx_full; /* times that the ring was full, or nearly: frames may be lost */
};

struct packet_port {
	int fd; /* poll() says POLLIN when a frame has arrived */
	struct packet_ring ring;
	uint8_t *map, *large;
	uint32_t next; /* the slot that the next frame will lie in */
	uint32_t
	    n_in_row; /* frames since the ring was empty, or n_rx_full has grown */
	uint32_t n_refused; /* large frames that did not leave, in a row */
	bool has_qdisc;     /* PACKET_QDISC_BYPASS is off */
	int rx_error;       /* negative: the device has gone down meanwhile */
	struct packet_stats stats;
};
#define PACKET_NONE ((struct packet_port){ .fd = -1 })

/* The ring for a device with this MTU. */
struct packet_ring packet_ring_for(uint32_t mtu);

/**
 * packet_socket() - make the socket of a port; needs CAP_NET_RAW and CAP_NET_ADMIN
 * @filter_fd: a BPF program that says which frames are the port's; it cannot be removed
 *
 * Return: a descriptor, or a negative errno
 */
MUST_CHECK int packet_socket(int ifindex, const struct packet_ring *ring,
			     int filter_fd);

/**
 * packet_listen() - set whether the socket's ring gets frames; it does from the beginning
 *
 * Each frame of the device costs the kernel something for each socket that gets frames,
 * even if the filter wants none of them.  In this call the kernel waits for all of its
 * processors, which takes some 16 ms.  Return: 0, or what bind() said
 */
MUST_CHECK int packet_listen(int fd, int ifindex, bool is_on);

/**
 * packet_open() - map the ring of a socket that packet_socket() has made
 * @fd: the port's from now on, even if opening fails
 *
 * Return: 0, -EINVAL for an impossible ring, or what mmap() said
 */
MUST_CHECK int packet_open(struct packet_port *p, int fd,
			   const struct packet_ring *ring);
void packet_close(struct packet_port *p);

/* @by takes the place of @p, whose descriptor the caller has.  Other threads may call
 * packet_has_come() meanwhile. */
void packet_replace(struct packet_port *p, const struct packet_port *by);

/* Is there a frame in the ring?  One load. */
bool packet_has_come(const struct packet_port *p);

/* The next frame that has arrived.  It stays valid until packet_rx_done(), which must
 * follow each frame. */
HOT bool packet_rx(struct packet_port *p, struct packet_frame *out);
HOT void packet_rx_done(struct packet_port *p);

/**
 * packet_tx() - send one frame, of up to PACKET_IOV_MAX pieces
 * @o: NULL: the frame is complete
 *
 * Return: 0, -EAGAIN where the device takes no frame at the moment, or another errno
 */
HOT MUST_CHECK int packet_tx(struct packet_port *p, const struct iovec *iov,
			     unsigned n, const struct packet_offload *o);
