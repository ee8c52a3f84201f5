/* SPDX-License-Identifier: MIT */
/*
 * sock/sock.h - what every socket is, whatever moves its bytes
 *
 * A struct sock is one open file description of a TCP socket.  It lies in memory
 * that processes share which hold the description since a fork, its locks and
 * positions included.  osf stat reads another struct: st, an entry of the
 * statistics segment.
 *
 * The modes, usually in this order; KERNEL may follow any of them:
 *
 *   YOUNG      the kernel moves the bytes; calls count themselves in and out
 *   UPGRADING  one thread negotiates; others wait, which takes microseconds
 *   CANDIDATE  pending: the kernel moves the bytes, under the locks below,
 *              because the peer may start to use the ring at any time
 *   SHM        rings, after what was still in TCP
 *   KERNEL     for good: data calls no longer come here
 *   MODULE     a module of the process moves the bytes (osf/stream.h); then KERNEL
 *
 * Locks, between threads and processes: rx for the receiving half, tx for the sending half.
 * To change the mode, take both in that order.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "osf/stats.h"

enum sock_mode {
	SOCK_YOUNG,
	SOCK_UPGRADING,
	SOCK_CANDIDATE,
	SOCK_SHM,
	SOCK_KERNEL,
	SOCK_MODULE,
};

/* sock.state: from bit 0, a count of kernel calls in flight while YOUNG; then
 * the mode; then whether other processes may be inside. */
#define SOCK_COUNT_BITS 20
#define SOCK_COUNT_MASK ((1u << SOCK_COUNT_BITS) - 1)
#define SOCK_MODES 16u /* at most */
#define SOCK_MODE_MASK (SOCK_MODES - 1)
#define SOCK_STATE(mode) ((uint32_t)(mode) << SOCK_COUNT_BITS)

/* Room for the state of a protocol that moves the socket's bytes, or may do
 * so. */
#define SOCK_CONN_BYTES 512u

struct sock {
	/* Used by every call. */
	alignas(CACHE_LINE) uint32_t state; /* SOCK_STATE(mode) | in flight */
	uint8_t flags;                      /* SOCK_F_* */
	uint8_t nonblock;                   /* O_NONBLOCK, shared by dups */
	uint8_t shut;              /* SHUT_BIT_*: what this side has shut */
	uint8_t maker_has;         /* the process that made it holds it */
	struct osf_stats_sock *st; /* public: osf stat reads it */
	int32_t n_procs; /* that hold it; 0: the last has ended without closing;
			  * -1: nobody any more */
	uint32_t turns;  /* changes of direction while YOUNG */
	uint32_t turns_next; /* look at the upgrade when turns reach this */
	uint8_t last_dir;
	uint64_t bytes_next; /* ... or bytes both ways do */

	/* Receiving. */
	alignas(CACHE_LINE) struct lock rx_lock;
	uint8_t inq;   /* TCP_INQ: recvmsg() tells how many bytes are left */
	uint8_t times; /* recvmsg() tells when bytes came */
	int32_t rcvlowat;
	uint64_t rcvtimeo_ns, sndtimeo_ns; /* 0: none */

	/* The anchor: what the kernel has said about it. */
	uint8_t
	    anchor_deaf; /* the kernel has shut reading: never sleep in recv */
	uint8_t anchor_end; /* ANCHOR_*: how it has ended */
	int32_t anchor_err; /* an error that it has already given away */
	uint32_t errq;      /* the error queue may hold something: another value
			     * each time that was noted, or 0 */
	uint32_t n_sleepers; /* threads asleep on it */
	uint64_t looked_ns;  /* when it was last asked */
	uint64_t polled_ns;  /* when a poll() without a timeout asked it */

	/* Sending. */
	alignas(CACHE_LINE) struct lock tx_lock;
	uint8_t nodelay, cork; /* as the application set them */
	uint8_t zc_on;         /* SO_ZEROCOPY is set */
	uint32_t zc_next;      /* number of the next send with MSG_ZEROCOPY */
	uint32_t
	    zc_done; /* ours just before it, not yet reported to the program */
	uint32_t zc_kernel; /* the kernel's, not yet reported to the program */

	/* The upgrade. */
	int32_t announce_fd; /* a listener's announcement, 0 for none */
	uint32_t n_looks;    /* at the upgrade, so far */
	uint8_t adopted;     /* others may hold it that we do not know of */
	uint32_t generation;
	/* Who waits for it in this process: sock/ready.h.  It has the same
	 * address in all processes that share the socket. */
	struct watch_list *watches;

	/* The protocol's own struct; zeroed when the socket is made. */
	alignas(CACHE_LINE) uint8_t conn[SOCK_CONN_BYTES];
};

enum {
	SOCK_F_ACTIVE = 1,  /* it called connect() */
	SOCK_F_PASSIVE = 2, /* it came from accept() */
	SOCK_F_LISTEN = 4,
	SOCK_F_EAGER = 8,    /* upgrade at once: asked for */
	SOCK_F_ASYNC = 16,   /* SIGIO wanted: always ring the anchor */
	SOCK_F_OFFLOAD = 32, /* AF_INET_OFFLOAD */
	SOCK_F_OFFERED = 64, /* an offer was made once */
	SOCK_F_ANNOUNCED = 128,
};

enum { SHUT_BIT_RD = 1, SHUT_BIT_WR = 2 };
enum { ANCHOR_OPEN, ANCHOR_FIN, ANCHOR_RST };
enum { DIR_NONE, DIR_RX, DIR_TX };

static inline enum sock_mode state_mode(uint32_t state)
{
	return (enum sock_mode)(state >> SOCK_COUNT_BITS & SOCK_MODE_MASK);
}

static inline enum sock_mode sock_mode(const struct sock *sk)
{
	return state_mode(load_acq(&sk->state));
}

/* True if nobody else can be inside a call on this socket. */
static inline bool sock_is_alone(const struct sock *sk)
{
	return is_single_threaded() && load_rlx(&sk->n_procs) == 1;
}

/* Enter a kernel call; false when the mode is no longer YOUNG. */
static inline bool sock_enter(struct sock *sk)
{
	if (sock_is_alone(sk)) {
		if (state_mode(sk->state) != SOCK_YOUNG)
			return false;
		sk->state++;
		return true;
	}
	if (state_mode(fetch_add(&sk->state, 1)) == SOCK_YOUNG)
		return true;
	fetch_sub(&sk->state, 1);
	return false;
}

static inline void sock_leave(struct sock *sk)
{
	if (sock_is_alone(sk))
		sk->state--;
	else
		fetch_sub(&sk->state, 1);
}

/* Go from YOUNG to UPGRADING if no thread is inside a call.  False: one is, or
 * the socket is not young. */
bool sock_start_moving(struct sock *sk);
/* Take both locks to change the mode or act on it.  True if the mode is still
 * @mode; if not, neither lock is held. */
static inline bool sock_hold(struct sock *sk, enum sock_mode mode)
{
	lock_get(&sk->rx_lock);
	lock_get(&sk->tx_lock);
	if (likely(sock_mode(sk) == mode))
		return true;
	lock_put(&sk->tx_lock);
	lock_put(&sk->rx_lock);
	return false;
}

static inline void sock_drop(struct sock *sk)
{
	lock_put(&sk->tx_lock);
	lock_put(&sk->rx_lock);
}

/* Take one of its locks; cheaper if nobody else can be there. */
static inline void sock_lock(const struct sock *sk, struct lock *l)
{
	if (sock_is_alone(sk))
		lock_enter();
	else
		lock_get(l);
}

static inline void sock_unlock(const struct sock *sk, struct lock *l)
{
	/* Do not unlock what was not locked because we were alone.  The lock's
	 * word tells, even if a thread has appeared since. */
	if (load_rlx(&l->word))
		lock_put(l);
	else
		lock_leave();
}

/* Change the mode, and keep the count of calls in flight. */
void sock_set_mode(struct sock *sk, enum sock_mode mode);
void sock_set_reason(struct sock *sk, enum osf_reason reason);
const char *sock_reason_text(enum osf_reason reason);
