/* SPDX-License-Identifier: MIT */
/*
 * sock/sleep.h - a thread that sleeps for one socket or many, in one ppoll()
 *
 *     sleep_arm() each  ->  look  ->  sleep_poll()  ->  sleep_disarm() each
 *
 * For poll(), select() and blocking calls.  What a socket has to sleep on, its protocol says:
 * the anchor, the thread's bell (base/bell.h), or a watch that sock_notify() reaches.  The
 * thread also looks after base/idle.h.
 */
#pragma once

#include <poll.h>
#include <signal.h>
#include <time.h>

#include "sock/ready.h"
#include "sock/sock_ops.h"

/* What a sleep polls besides what it is asked to: the bell, and base/idle.h's. */
#define SLEEP_EXTRA 2

struct sleeper {
	struct ready_set rs; /* of the watches; wake is NULL: none so far */
	uint32_t n_bells;    /* entries that ring the thread's bell */
	bool may_leave;      /* one may leave its protocol: sleepers_wake() */
	bool
	    is_full; /* the kernel takes no more of them: no place for a bell */
};

static inline void sleeper_init(struct sleeper *s)
{
	s->rs.wake = NULL;
	s->n_bells = 0;
	s->may_leave = false;
	s->is_full = false;
}

struct sleep_entry {
	struct sock *sk;
	int fd;
	bool is_armed, for_room;
	const struct sock_ops *by_bell; /* whose peer rings the thread's bell */
	struct watch watch; /* open while we sleep, if a protocol tells it */
};

void sleep_entry_init(struct sleep_entry *e, struct sock *sk, int fd);
/* From now on the socket's next POLLIN or POLLOUT of @events wakes the thread. */
void sleep_arm(struct sleeper *s, struct sleep_entry *e, unsigned events);
/* @sk has left its protocol for the kernel, and may be at another descriptor of the kernel's
 * now: whoever in this process waits for it looks again. */
void sleepers_wake(struct sock *sk);
/* It does not any more; nothing if it is not armed. */
void sleep_disarm(struct sleeper *s, struct sleep_entry *e);
/* When to look although no bell has rung; UINT64_MAX: never. */
uint64_t sleep_look_ns(const struct sleeper *s, uint64_t now);
/* ppoll() of @fds, which has room for SLEEP_EXTRA more; @left: NULL for ever.  How many of
 * the @n have events; 0: none, look again; -errno. */
int sleep_poll(struct sleeper *s, struct pollfd *fds, nfds_t n,
	       const struct timespec *left, const sigset_t *mask);
