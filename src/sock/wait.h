/* SPDX-License-Identifier: MIT */
/*
 * sock/wait.h - a call that can do nothing now
 *
 *     -EAGAIN  ->  wait_for(): spins, then sock_ops.sleep()  ->  the call looks again
 *                                            |
 *                                            +-> nap(): a poll() that loses no signal
 *
 * Who waits holds no lock.  A handler of a signal ends the wait as it would end a call
 * that sleeps in the kernel; one that ran after the call had begun, and before it
 * slept, too (handlers_seen()).
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "sock/sock.h"

struct call_wait {
	int dir;              /* DIR_RX: for bytes; DIR_TX: for room */
	bool partial;         /* bytes were moved: any handler ends the call */
	uint64_t deadline_ns; /* UINT64_MAX: none */
	bool is_part; /* the deadline is not the call's, which has none */
	struct handlers_seen seen; /* taken when the call began */
};

/* Is the call one that a handler with SA_RESTART does not end? */
static inline bool waiter_restarts(const struct call_wait *w)
{
	return !w->partial && (w->is_part || w->deadline_ns == UINT64_MAX);
}

/* Until a call on @sk that was told -EAGAIN may go on.  0: look again; -EINTR; -EAGAIN:
 * time is over; or the connection's error. */
int wait_for(struct sock *sk, int fd, const struct call_wait *w);

/*
 * Asleep on descriptors of the kernel's, of one socket or of many, with all signals held
 * back but while the thread sleeps, so that none is missed between the last look and
 * the sleep.
 */
struct nap {
	struct pollfd *fds; /* that end it */
	nfds_t n_fds;
	bool (*is_over)(void *arg); /* asked before each sleep */
	void (*woke)(void *arg);    /* called after each */
	void *arg;
	uint64_t deadline_ns;
	uint64_t tick_ns; /* look again this often */
	bool restarts;    /* a handler with SA_RESTART does not end it */
};

/* 0, -EINTR, or -EAGAIN at the deadline. */
int nap(const struct nap *n);
