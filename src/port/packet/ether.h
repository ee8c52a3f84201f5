/* SPDX-License-Identifier: MIT */
/*
 * port/packet/ether.h - a port (port/port.h) over a packet socket
 *
 *     ring -> a copy without the Ethernet header -> recv() -> the stack
 *     the stack -> send() -> Ethernet header, addresses of the next hop -> the device
 *
 * The port copies arriving frames, so that a program that does not read holds memory of its
 * own and never the ring.  Small frames have one pool, and frames that the device has
 * merged another.  The owner tells the port the hardware address of each next hop before a
 * connection to it moves (ether_hop()); the port drops a frame to an unknown next hop.
 *
 * If the device's queue is full, a frame stays here, and room() tries it again later.  If
 * the device says that it is gone or down, ether_error() returns why.
 *
 * Owner: one thread at a time.
 */
#pragma once

#include "port/packet/packet.h"
#include "port/tap.h"
#include "port/port.h"

#define ETHER_HEAD 14
#define ETHER_MAC 6
#define ETHER_HOPS 256 /* a power of two */

struct ether_hop {
	struct ip_addr to;
	uint8_t mac[ETHER_MAC];
	bool is_used;
};

struct ether_port {
	struct port port;
	struct packet_port io;
	struct tap tap; /* shows frames to `osf tap' */
	struct pool small, large;
	void *mem;
	size_t mem_bytes;
	struct tcp_frame frame; /* the one that leaves */
	/* NULL, or called before a frame of a connection leaves */
	void (*leaves)(struct tcp_conn *c);
	bool is_full;      /* the device has not taken @frame */
	uint64_t retry_ns; /* then: when to try again */
	int err;           /* negative: the device takes nothing more */
	uint8_t mac[ETHER_MAC];
	struct ether_hop hops[ETHER_HOPS];
	uint32_t n_hops;
	uint64_t
	    n_strange; /* frames that are not IP, or for which there was no place */
	uint64_t n_lost; /* frames that the device refused */
	/* Frames that the port cannot give to the stack and drops: segments with an urgent
	 * pointer, which no thaw could give back, and frames larger than PACKET_FRAME_MAX.
	 * The kernel can take them, so their connections should go back to it. */
	uint64_t n_refused;
};

/**
 * ether_open() - make a port of a packet socket
 * @fd: the port's from now on, even if opening fails
 *
 * Return: 0, -ENOMEM, or what packet_open() or getsockname() said
 */
MUST_CHECK int ether_open(struct ether_port *p, int fd,
			  const struct packet_ring *ring);
/* Lets `osf tap' see the port's frames, as @program's, as far as there is memory for it. */
void ether_show(struct ether_port *p, const char *program);

/* Goes on with another packet socket of the same device.  Frames in the ring of the old
 * socket are lost.  @fd: as for ether_open().  On success the old socket belongs to the
 * caller.  Return: 0, or an error of packet_open(), and the old socket stays in use */
MUST_CHECK int ether_reopen(struct ether_port *p, int fd,
			    const struct packet_ring *ring);

/* The stack holds no frame any more. */
void ether_close(struct ether_port *p);

/* From now on, frames to @to go to @mac.  Return: 0, or -ENOSPC */
MUST_CHECK int ether_hop(struct ether_port *p, const struct ip_addr *to,
			 const uint8_t mac[ETHER_MAC]);

/* Whether a frame has arrived.  Cheap enough to be called in a loop. */
static inline bool ether_has_come(const struct ether_port *p)
{
	return packet_has_come(&p->io);
}

/* Return: 0, or why the device moves no frames, or has not for a while (-ENETDOWN, -ENXIO,
 * ...).  Says each error once. */
static inline int ether_error(struct ether_port *p)
{
	int err = p->err ? p->err : p->io.rx_error;

	if (unlikely(err != 0))
		p->err = p->io.rx_error = 0;
	return err;
}
