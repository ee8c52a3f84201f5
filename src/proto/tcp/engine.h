/* SPDX-License-Identifier: MIT */
/*
 * proto/tcp/engine.h - a stack of our own TCP on a port of a device
 *
 *     osfd's grant -> engine_open() -> engine_in(), engine_out() -> connections: tcp/calls.h
 *
 * The stack has those connections of the host's that were imported into it; the kernel
 * has the others, so a segment that belongs to none of ours is dropped without an answer.
 *
 * Owner: one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ip/ip.h"
#include "port/packet/packet.h"

struct tcp_conn;
struct engine;
struct tcp_stack;

/* What a grant says about its device. */
struct engine_device {
	uint32_t mtu; /* bytes from the IP header on */
	struct packet_ring ring;
};

/**
 * engine_open() - make a stack without connections
 * @fd: the packet socket; the engine's from now on, even if opening fails
 *
 * Return: 0 or a negative errno
 */
MUST_CHECK int engine_open(int fd, const struct engine_device *dev,
			   uint64_t now_ns, struct engine **out);
/* Without a word to the peers of connections that are left. */
void engine_close(struct engine *e);

/* The engine calls @leaves before a frame of a connection leaves. */
void engine_on_leave(struct engine *e, void (*leaves)(struct tcp_conn *c));

/* Goes on with the packet socket of another grant for the same device.  Call engine_in()
 * before, which takes the frames of the old one.  @fd: as for engine_open().  On success
 * the old socket belongs to the caller.  Return: 0, or a negative errno, and the old socket
 * stays in use */
MUST_CHECK int engine_reopen(struct engine *e, int fd,
			     const struct packet_ring *ring);

struct tcp_stack *engine_stack(struct engine *e);
/* Readable when a frame has arrived. */
int engine_fd(const struct engine *e);

/* A connection from @local to @to may be imported: frames go to @mac.  Return: 0, or
 * -ENOSPC */
MUST_CHECK int engine_reach(struct engine *e, const struct ip_addr *local,
			    const struct ip_addr *to, const uint8_t mac[6]);

/* Takes what has arrived, runs timers, sends what is to be sent. */
void engine_in(struct engine *e, uint64_t now_ns);
void engine_out(struct engine *e, uint64_t now_ns);

/* Is there a frame to be taken?  One load. */
bool engine_has_come(const struct engine *e);
/* When engine_in() has something to do, without a frame; UINT64_MAX: never. */
uint64_t engine_next_ns(const struct engine *e);
/* Has the port refused frames since the last call, which it cannot give to the stack?  The
 * kernel can take them, so their connections have to go back to it. */
bool engine_has_refused(struct engine *e);
/* Has the kernel kept only a part of some frames since the last call, because it had no
 * room for large ones?  Their senders send them again. */
bool engine_has_cut(struct engine *e);
/* Has the ring been full since the last call, or nearly?  Then frames may be lost, and a
 * peer does not repeat a reset. */
bool engine_has_been_full(struct engine *e);
/* Why the device moves no frames, asked once; 0: it does. */
int engine_error(struct engine *e);
