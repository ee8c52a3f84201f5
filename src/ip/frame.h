/* SPDX-License-Identifier: MIT */
/*
 * ip/frame.h - frames, as stacks and ports exchange them
 *
 *     port -> struct tcp_rx_frame -> stack -> struct tcp_frame -> port
 *
 * A frame begins at the IP header.  In both directions it may be longer than the MTU:
 * the port, or its device, joins and cuts segments (GRO, GSO), and makes and checks sums.
 */
#pragma once

#include "base/extent.h"
#include "ip/ip.h"
#include "ip/tcp_head.h"

enum tcp_rx_flags {
	TCP_RX_SUM_GOOD = 1, /* the port has checked the TCP checksum */
	TCP_RX_LENT = 2, /* the stack may keep no reference, so no payload */
};

/* A frame that has arrived: @len bytes from @off on in @ext. */
struct tcp_rx_frame {
	struct extent *ext;
	uint32_t off, len;
	unsigned flags; /* enum tcp_rx_flags */
};

struct tcp_conn;

#define TCP_FRAME_PIECES 20
#define TCP_FRAME_HEAD (IPV6_HEAD + TCP_HEAD_MAX)

struct tcp_piece {
	struct extent *ext;
	const uint8_t *data;
	uint32_t len;
};

/* A frame to be sent has a header of its own and pieces of extents.  It holds a reference
 * to each of these extents. */
struct tcp_frame {
	uint8_t head[TCP_FRAME_HEAD];
	uint16_t head_len; /* IP and TCP */
	uint16_t ip_len;   /* where TCP begins */
	/* Not 0: the port cuts the frame into segments of this payload, and completes
	 * the checksum, which then covers the pseudo-header alone. */
	uint16_t gso_size;
	uint32_t len; /* payload */
	uint32_t n_pieces;
	struct tcp_conn
	    *conn; /* valid until the stack is called again; NULL: none */
	struct tcp_piece pieces[TCP_FRAME_PIECES];
};

/* Gives the frame's references back, once the port has read its bytes. */
static inline void tcp_frame_done(struct tcp_frame *f)
{
	for (uint32_t i = 0; i < f->n_pieces; i++)
		extent_put(f->pieces[i].ext);
	f->n_pieces = 0;
}

/* Room for any packet of a frame. */
#define TCP_PACKET_MAX (TCP_FRAME_HEAD + IP_MAX)

/**
 * frame_packet() - write a packet of a frame, as it is on a wire
 * @i: which one; from 0 on
 * @out: TCP_PACKET_MAX bytes, or fewer if all packets are known to be smaller
 *
 * Return: the packet's bytes; 0: the frame has no more
 */
uint32_t frame_packet(const struct tcp_frame *f, uint32_t i, uint8_t *out);

/* Writes the frame as one packet, although it may be larger than the MTU.  Return: its
 * bytes */
uint32_t frame_whole(const struct tcp_frame *f, uint8_t *out);
