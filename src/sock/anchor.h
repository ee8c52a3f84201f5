/* SPDX-License-Identifier: MIT */
/*
 * sock/anchor.h - the kernel's socket below ours, where threads sleep
 *
 *     anchor_sleep_begin() -> asleep in the kernel, on the anchor
 *                          -> anchor_sleep_end()
 *
 * To wake threads that sleep on the anchor, a protocol may send something of
 * its own through it: a doorbell.  While other threads sleep there, nobody
 * reads the doorbell, because it may be about to wake one of them.
 */
#pragma once

#include <stdbool.h>

#include "base/clock.h"
#include "sock/sock.h"

/* While awake, ask the kernel this often if the peer has died. */
#define ANCHOR_LOOK_NS (1 * NS_PER_MS)

/* A thread is about to sleep on the anchor.  If it is the first, remove old
 * doorbells.  @for_room: it waits until it may send.  True if other threads, of any
 * holder, already sleep there. */
bool anchor_sleep_begin(struct sock *sk, int fd, bool for_room);
void anchor_sleep_end(struct sock *sk, bool for_room);
/* Remove old doorbells, unless a thread sleeps on the anchor. */
void anchor_clear(struct sock *sk, int fd);

/*
 * Has TCP nothing but an urgent byte that nobody has read?  A read passes over it.  In the kernel a
 * call that sleeps when the byte comes does not, as it ends with what it has, or for SIGURG.  So
 * no call that may have slept (@flags: its own) reads then.
 */
bool anchor_is_urgent_alone(const struct sock *sk, int fd, int flags);

/* Is it time to ask the kernel again if the connection has ended? */
static inline bool anchor_ask_due(const struct sock *sk)
{
	return coarse_ns() - load_rlx(&sk->looked_ns) > ANCHOR_LOOK_NS;
}
