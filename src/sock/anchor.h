/* SPDX-License-Identifier: MIT */
/*
 * sock/anchor.h - the kernel's socket underneath, where threads sleep
 *
 *     anchor_sleep_begin() -> asleep in the kernel, on the anchor -> anchor_sleep_end()
 *
 * A protocol may put something of its own into the anchor to wake who sleeps there: a
 * doorbell.  Nobody takes it out while others sleep, for it may be the one by which one
 * of them has just been woken.
 */
#pragma once

#include <stdbool.h>

#include "base/clock.h"
#include "sock/sock.h"

/* An awake process asks the kernel about its peer's death this often. */
#define ANCHOR_LOOK_NS (1 * NS_PER_MS)

/* Somebody is about to sleep on the anchor.  The first wants no old doorbells in it.
 * True if others sleep there already. */
bool anchor_sleep_begin(struct sock *sk, int fd);
void anchor_sleep_end(struct sock *sk);
/* Take old doorbells out, if nobody minds. */
void anchor_clear(struct sock *sk, int fd);

/* Has it been a while since the kernel was asked whether the connection has ended? */
static inline bool anchor_look_due(const struct sock *sk)
{
	return coarse_ns() - load_rlx(&sk->looked_ns) > ANCHOR_LOOK_NS;
}
