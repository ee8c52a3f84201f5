/* SPDX-License-Identifier: MIT */
/*
 * port/packet/steer.h - what osfd and its BPF programs agree on
 *
 *     osfd writes flows -> a frame arrives -> steer_socket: the port takes it or not
 *                                          -> steer_tc: the kernel loses it or not
 *
 * Each grant of a port has maps and programs of its own (steer.bpf.c).  osfd and the
 * program that uses the grant hold their descriptors.  The kernel removes the programs
 * when the last of these descriptors is closed, so the frames of a flow that nobody
 * serves reach the kernel again, whoever was killed.
 */
#pragma once

#include <linux/types.h>

/* A connection as its arriving frames show it.  An IPv4 address is stored as
 * ::ffff:a.b.c.d.  The ports are in network order. */
struct steer_key {
	__u8 peer[16];
	__u8 local[16];
	__u16 peer_port;
	__u16 local_port;
};

#define STEER_PORT_BYTES 8192 /* a bit for each port */

/* What happens to the frames of a flow.  A flow starts as STEER_COPY.  So a frame that
 * arrives while the mode changes to STEER_OURS is not lost, whichever mode each of the two
 * programs sees. */
enum steer_mode {
	STEER_COPY = 1, /* the port and the kernel get it */
	STEER_OURS = 2, /* the port alone gets it */
};

/* What the map holds for a flow.  The programs read the mode alone. */
struct steer_flow {
	__u32 mode;    /* enum steer_mode */
	__u32 snd_nxt; /* when it was frozen; 0 until then */
};

/* Counters of a grant, one map entry each. */
enum steer_count {
	STEER_N_SEGMENTS, /* TCP frames kept from the kernel */
	STEER_N_ERRORS,   /* ICMP errors kept from the kernel */
	STEER_N_COUNTS,
};
