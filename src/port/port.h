/* SPDX-License-Identifier: MIT */
/*
 * port/port.h - what moves frames between a stack and a wire
 *
 *     wire -> recv() -> the stack     the stack -> room(), send(), flush() -> wire
 *
 * A frame may be larger than the MTU in both directions (ip/frame.h).  A port knows no
 * connections; proto/tcp/drive.h connects it to a stack.
 *
 * Owner: one thread at a time.  A port that waits for a device keeps what it has not sent
 * in memory of its own.
 */
#pragma once

#include "ip/frame.h"

struct port;

struct port_ops {
	/* Writes frames that have arrived, @max at most, and passes a reference to the
	 * extent of each one.  While is_short(), there is one frame at most, with
	 * TCP_RX_LENT.  Return: how many */
	uint32_t (*recv)(struct port *p, struct tcp_rx_frame *f, uint32_t max,
			 uint64_t now_ns);
	/* Whether the stack refers to so many frames that the port has only one left. */
	bool (*is_short)(const struct port *p);
	/* Return: a place for the next frame to be sent, or NULL: the port is full. */
	struct tcp_frame *(*room)(struct port *p, uint64_t now_ns);
	/* @f, which room() has returned, is complete.  The port calls tcp_frame_done()
	 * once it has read the bytes. */
	void (*send)(struct port *p, struct tcp_frame *f, uint64_t now_ns);
	/* The turn has no more frames. */
	void (*flush)(struct port *p, uint64_t now_ns);
	/* Return: when there is something to receive, or room again; UINT64_MAX: the port
	 * does not know. */
	uint64_t (*next_ns)(const struct port *p);
};

struct port {
	const struct port_ops *ops;
};
