/* SPDX-License-Identifier: MIT */
/*
 * port/sim/port.h - a port between two wires in virtual time
 *
 *     struct tcp_frame -> packets -> the wire @out
 *     the wire @in -> packets -> frames of the pool @rx
 *
 * Its frames leave at once, so there is always room.  The port keeps one frame of the pool
 * back, for a stack that holds all others (TCP_RX_LENT).
 *
 * Owner: the one who owns the wires.
 */
#pragma once

#include "port/port.h"
#include "port/sim/wire.h"

#define SIM_PORT_RESERVE 1 /* frames that are only lent */

struct sim_port {
	struct port port;
	struct wire *out, *in;
	struct pool rx;
	struct tcp_frame frame; /* the one that leaves */
	/* Whether the wire leads to where a packet goes; NULL: always. */
	bool (*is_there)(const uint8_t *packet);
};

/* @mem: for @n_frames of @cap bytes; see sim_port_bytes() */
void sim_port_init(struct sim_port *p, struct wire *out, struct wire *in,
		   void *mem, uint32_t cap, uint32_t n_frames);
size_t sim_port_bytes(uint32_t cap, uint32_t n_frames);

/* Copies a packet into a frame of @rx.  Return: the frame, with TCP_RX_LENT if it is the
 * last one */
struct tcp_rx_frame sim_frame(struct pool *rx, const struct wire_packet *w);
