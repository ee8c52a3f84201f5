/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/upgrade.h - what both sides of an upgrade do (handshake.c)
 *
 *     upgrade.c  the opener    --+
 *                                +-->  hello, segment, rings  -->  mode SHM, or KERNEL
 *     accept.c   the acceptor  --+
 *
 * The thread that set mode UPGRADING, or holds both locks, calls these.
 */
#pragma once

#include "proto/shm/rendezvous.h"
#include "proto/shm/shm.h"

/* The anchor carries doorbells from now on. */
void upgrade_prepare_anchor(struct sock *sk, int fd);
/* Point both rings into the segment, for the side in shm_of(sk)->side. */
void upgrade_init_rings(struct sock *sk, struct seg *seg, uint32_t ring_size);
/* A unix socket is about to be open for an upgrade: see shm_had_offers(). */
void upgrade_will_offer(void);
/* The reason that osf stat shows for a negative errno of a step. */
enum osf_reason upgrade_reason(int err);
/* The mode is SHM from now on. */
void upgrade_done(struct sock *sk);
/* The mode is KERNEL from now on; returns @err. */
int upgrade_decline(struct sock *sk, int err);
/* What the peer may read once our flags say SEG_TX_RING: the stream continues in the ring
 * after @tcp_bytes. */
void upgrade_say_tx(struct sock *sk, int fd, uint64_t tcp_bytes);
/* Send our hello with the first @n of @fds, and the bell of the calling thread. */
MUST_CHECK int upgrade_say_hello(uint32_t inbox_tag, int channel,
				 int fds[HELLO_FDS], int n);
/* Our inbox for the process at the other end of @channel; 0: none. */
uint32_t upgrade_inbox_for(int channel);
/* If @h brought the peer's bell, keep it. */
void upgrade_keep_bell(struct sock *sk, const struct hello *h, int *fds,
		       int channel);
void upgrade_close_fds(int fds[HELLO_FDS]);
/* The program sees its own pacing rate, not the number that notice.h puts there. */
void upgrade_hide_rate(struct sock *sk);

/* Hints about us, with the flag that says that the ring begins.  The peer, which has not filled
 * its ring yet, learns in time to stay in its half. */
uint32_t upgrade_says(int fd);
