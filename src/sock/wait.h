/* SPDX-License-Identifier: MIT */
/*
 * sock/wait.h - a call that can do nothing now
 *
 *     -EAGAIN  ->  wait_for(): spins, sock_ops.sleep()  ->  call looks again
 *                                       |
 *                                       +-> nap(): poll(), losing no signal
 *
 * A waiting thread holds no lock.  A signal handler ends the wait as it would
 * end a call that sleeps in the kernel.  That includes a handler that ran
 * after the call began and before it slept (handlers_seen()).
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "sock/ready.h"
#include "sock/sock.h"

struct call_wait {
	int dir;              /* DIR_RX: for bytes; DIR_TX: for room */
	bool partial;         /* bytes were moved: any handler ends the call */
	uint64_t deadline_ns; /* UINT64_MAX: none */
	struct handlers_seen seen; /* taken when the call began */
};

/* Does the call continue after a handler with SA_RESTART? */
static inline bool waiter_restarts(const struct call_wait *w)
{
	return !w->partial && w->deadline_ns == UINT64_MAX;
}

/* Wait until a call on @sk that got -EAGAIN may continue.  0: look again;
 * -EINTR; -EAGAIN: timeout; or the connection's error. */
int wait_for(struct sock *sk, int fd, const struct call_wait *w);

/*
 * A ready set whose one thread sleeps on its bell (base/bell.h).  Without a bell it must
 * look now and then.
 */
void ready_init_bell(struct ready_set *rs);
/* When the thread must look at the latest. */
uint64_t ready_look_ns(const struct ready_set *rs);

/* Sleep on @fds, at most WAIT_FDS of them, until @until_ns at the latest.  0: look again;
 * -EINTR; -EAGAIN: @w's deadline. */
#define WAIT_FDS 2
int wait_fds(struct pollfd *fds, nfds_t n, const struct call_wait *w,
	     uint64_t until_ns);

/*
 * Sleep on descriptors of the kernel's, for one socket or many.  All signals
 * are blocked except during the sleep, so that none is missed between the last
 * look and the sleep.
 */
struct nap {
	struct pollfd *fds; /* these end it */
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
