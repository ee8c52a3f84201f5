/* SPDX-License-Identifier: MIT */
/*
 * sock/wait.h - a call that can do nothing now
 *
 *     recv, send:        -EAGAIN  ->  wait_for()  --+
 *     poll(), select()            ->  file/poll.c  --+->  wait_step()  ->  look again
 *     epoll_wait()          ->  file/epoll_wait.c  --+
 *
 * A waiting thread holds no lock.  A signal handler ends the wait as it would
 * end a call that sleeps in the kernel.  That includes a handler that ran
 * after the call began and before it slept (handlers_seen()).
 */
#pragma once

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/lock.h"
#include "base/spin.h"
#include "base/unwind.h"
#include "sock/sock.h"

/* Waits of one call that ended without anything for it: vain_again(). */
struct vain {
	uint32_t n;
	uint64_t since_ns;
};

/* The call is about to wait again.  A few waits in vain are nothing unusual.  But who writes
 * to shared memory must not be able to keep a call awake that should sleep: where they follow
 * each other closely, this takes a nap. */
void vain_sleep(struct vain *v);
#define VAIN_WAITS 32u

static inline void vain_again(struct vain *v)
{
	if (unlikely(++v->n % VAIN_WAITS == 0))
		vain_sleep(v);
}

struct call_wait {
	int dir;              /* DIR_RX: for bytes; DIR_TX: for room */
	bool partial;         /* bytes were moved: any handler ends the call */
	uint64_t deadline_ns; /* UINT64_MAX: none */
	struct handlers_seen seen; /* taken when the call began */
	struct vain vain;
};

/* Does the call continue after a handler with SA_RESTART? */
static inline bool waiter_restarts(const struct call_wait *w)
{
	return !w->partial && w->deadline_ns == UINT64_MAX;
}

/* The thread closes a descriptor of a socket that calls still use, perhaps its own: it may be
 * in a handler. */
void wait_closes(const struct sock *sk);

/* Has a handler closed the descriptor @fd that a call names?  Then the call ends; where it was
 * another thread, the call goes on.  @seen: taken when the call began.  The handler may have
 * run before that. */
bool wait_is_closed(const struct sock *sk, int fd, struct handlers_seen seen);

/* A descriptor for a call that goes on after a wait.  It is @fd, unless another thread has closed
 * that, or has put a relay in the socket's place: the file keeps one as long as a call is inside.
 * Where a handler of this thread has closed @fd, it is @fd all the same, so that the next sleep
 * ends the call. */
int wait_fd(const struct sock *sk, int fd, struct handlers_seen seen);

/* What a wait returns.  A handler may have closed the descriptor while the thread did not
 * sleep.  The kernel's call has the socket and does not see that: it ends by the signal.  Only a
 * call that begins anew finds no descriptor. */
static inline int waiter_ended(const struct call_wait *w, int err)
{
	return err == -EBADF && handlers_ran(w->seen, waiter_restarts(w))
		   ? -EINTR
		   : err;
}

/* Wait until a call on @sk that got -EAGAIN may continue.  0: look again;
 * -EINTR; -EAGAIN: timeout; or the connection's error. */
int wait_for(struct sock *sk, int fd, const struct call_wait *w);

/*
 * The one step of all loops that wait: it spins as long as that pays, then tells those who
 * notify us that we sleep, looks once more, and sleeps.
 */
struct wait;

struct wait_ops {
	spin_ready *has_come; /* of the struct wait; NULL: never spin */
	void (*begin)(struct wait *w);       /* from now on news wakes us */
	bool (*look)(struct wait *w);        /* after that: has it come? */
	uint64_t (*next_ns)(struct wait *w); /* look again then at the
					    * latest; it is w->asleep_ns
					    * now.  NULL: never */
	/* In the kernel, at most @left; NULL: for ever.  0 or -errno. */
	int (*sleep)(struct wait *w, const struct timespec *left);
	void (*end)(struct wait *w); /* also of a call that is left */
};

struct wait {
	const struct wait_ops *ops;
	uint64_t deadline_ns;      /* UINT64_MAX: none */
	struct handlers_seen seen; /* taken when the call began */
	bool restarts;             /* handlers with SA_RESTART do not end it */
	bool has_slept;            /* out: it did not only spin */
	uint64_t asleep_ns;        /* out: since when */
	const sigset_t *mask;      /* for the sleep, or NULL */
	struct vain vain;
};

/* 0: look again; -EAGAIN: the deadline; -EINTR, or the sleep's error. */
int wait_step(struct wait *w);

/* What a protocol without sock_ops.sleep does: sleep as poll() does. */
int wait_asleep(struct sock *sk, int fd, const struct call_wait *w);

/*
 * Sleep on descriptors of the kernel's, for one socket or many.  All signals
 * are blocked except during the sleep, so that none is missed between the last
 * look and the sleep.
 *
 * It has nothing in common with the naps of file/batch.h but the word: those are sleeps of
 * epoll_wait() that peers in other processes do not end.
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
/* ppoll() on at most one of @fds, and on the descriptor of base/idle.h.  Return: how many of
 * @fds are ready; -1, errno. */
int poll_too(struct pollfd *fds, nfds_t n, const struct timespec *left,
	     const sigset_t *mask);
