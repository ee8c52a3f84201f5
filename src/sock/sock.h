/* SPDX-License-Identifier: MIT */
/*
 * sock/sock.h - what every socket is, whatever moves its bytes
 *
 * A struct sock is one open file description of a TCP socket, as one process sees it: its
 * memory, with all pointers and descriptors, is the process's own, and a forked child has a
 * copy.  What processes that hold the description together must agree on are numbers
 * (sock/shared.h). osf stat reads another struct: st, an entry of the statistics file.
 *
 * The modes, usually in this order; KERNEL may follow any of them:
 *
 *   YOUNG      the kernel moves the bytes; calls count themselves in and out
 *   UPGRADING  one thread negotiates; others wait, which takes microseconds
 *   PENDING    both sides have a segment; the kernel moves the bytes, under the
 *              locks below, because the peer may start to use the ring at any time
 *   SHM        rings, after what was still in TCP
 *   KERNEL     for good: data calls no longer come here
 *   MODULE     a module of the process moves the bytes (osf/stream.h); then KERNEL
 *   TCP        our own TCP moves them over a port (proto/tcp/conn.h); then YOUNG
 *              again, or KERNEL
 *
 * Locks, between threads and processes: rx for the receiving half, tx for the sending half.
 * To change the mode, take both in that order.  If several processes hold the socket,
 * taking a half's lock also brings its numbers up to date.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "osf/stats.h"
#include "sock/ready.h"

enum sock_mode {
	SOCK_YOUNG,
	SOCK_UPGRADING,
	SOCK_PENDING,
	SOCK_SHM,
	SOCK_KERNEL,
	SOCK_MODULE,
	SOCK_TCP,
};

/* sock.state: from bit 0, a count of kernel calls in flight while YOUNG; then the mode. */
#define SOCK_COUNT_BITS 20
#define SOCK_COUNT_MASK ((1u << SOCK_COUNT_BITS) - 1)
#define SOCK_MODES 16u /* at most */
#define SOCK_MODE_MASK (SOCK_MODES - 1)
#define SOCK_STATE(mode) ((uint32_t)(mode) << SOCK_COUNT_BITS)

/* Room for the state of a protocol that moves the socket's bytes, or may do
 * so. */
#define SOCK_CONN_BYTES 512u

/* Room for what a protocol keeps in struct sock_words. */
#define SOCK_PROTO_WORDS 64u

/*
 * Words that threads also read and write without a lock.  Any process that holds the socket
 * may write them, so every value is possible, and none may do harm.
 */
struct sock_words {
	alignas(CACHE_LINE) int32_t rcvlowat;
	int32_t
	    anchor_err;   /* an error that the kernel has already given away */
	uint8_t nonblock; /* O_NONBLOCK, shared by dups */
	uint8_t shut;     /* SHUT_BIT_*: what this side has shut */
	uint8_t anchor_end; /* ANCHOR_*: how it has ended */
	uint8_t
	    anchor_deaf; /* the kernel has shut reading: never sleep in recv */
	uint8_t inq;     /* TCP_INQ: recvmsg() tells how many bytes are left */
	uint8_t times;   /* recvmsg() tells when bytes came */
	uint8_t nodelay, cork; /* as the application set them */
	uint8_t zc_on;         /* SO_ZEROCOPY is set */
	uint8_t is_async;      /* SIGIO wanted: always ring the anchor */
	uint8_t stays;   /* young, and never to be upgraded, whoever asks */
	uint8_t due;     /* the protocol's own: what a call has left for whoever
			* has the halves next, because a process kept one; and SOCK_DUE_REPAIR */
	uint8_t due_why; /* enum osf_reason, for that */
	uint32_t errq;   /* the error queue may hold something: another value
			* each time that was noted, or 0 */
	uint64_t rcvtimeo_ns, sndtimeo_ns; /* 0: none */
	/* Under the tx lock. */
	uint32_t zc_next; /* number of the next send with MSG_ZEROCOPY */
	uint32_t
	    zc_done; /* ours just before it, not yet reported to the program */
	uint32_t zc_kernel; /* the kernel's, not yet reported to the program */
	/* Under the rx lock. */
	uint32_t n_sleepers; /* threads asleep on the anchor, of all holders */
	uint32_t n_tx_sleepers; /* of them, those that wait for room */
	uint32_t n_ringing; /* threads about to ring the peer, under a lock */
	alignas(CACHE_LINE) uint8_t proto[SOCK_PROTO_WORDS];
};

/* A process has died with a half that is only uncounted: sock_ops.repair. */
#define SOCK_DUE_REPAIR 0x80u

struct shared_page;
struct holders;

struct sock {
	/* Used by every call. */
	alignas(CACHE_LINE) uint32_t state; /* SOCK_STATE(mode) | in flight */
	uint8_t flags;                      /* SOCK_F_* */
	uint8_t is_live;                    /* from sock_new() to sock_free() */
	uint8_t is_held; /* by a file, or a group's socket, of this process */
	uint8_t is_lost; /* the page cannot be used: the connection is reset */
	struct sock_words *w;      /* own_words, or those of the page */
	struct osf_stats_sock *st; /* public: osf stat reads it */
	struct shared_page *page;  /* NULL: no other process holds it */
	uint32_t pingpongs;        /* changes of direction while YOUNG */
	uint32_t pingpongs_next; /* try the upgrade when pingpongs reach this */
	uint64_t bytes_next;     /* ... or bytes both ways do */
	uint8_t last_dir;
	uint8_t history; /* the level with which it began: ops/history.h */

	/* Receiving. */
	alignas(CACHE_LINE) struct lock rx_lock;
	uint8_t rx_is_in; /* and the page's is taken, too */
	/* A process of our user has had a half for long, or has left w->due
	 * undone: who waits for the socket comes again soon. */
	uint8_t is_kept;
	uint8_t
	    reset_due; /* it is lost, and the kernel's socket not reset yet */
	/* Of w->n_sleepers and w->n_tx_sleepers, threads of this process. */
	uint32_t my_sleepers, my_tx_sleepers;
	uint64_t looked_ns; /* when the anchor was last asked */
	uint64_t polled_ns; /* when a poll() without a timeout asked it */

	/* Sharing: sock/shared.h. */
	uint32_t writer; /* this process's number in the page; 0: none yet */
	uint32_t epoch;  /* of the process that may free the page */
	struct holders *holders;      /* of a socket without a page */
	struct shared_page *old_page; /* the others have let go */
	uint64_t
	    moved_ns; /* another process gives it to the kernel since then */
	uint8_t
	    free_due; /* shared_all_let_go() has said so while it was held */

	/* Sending. */
	alignas(CACHE_LINE) struct lock tx_lock;
	uint8_t tx_is_in;

	/* The upgrade. */
	int32_t announce_fd; /* a listener's announcement, 0 for none */
	uint32_t n_attempts; /* looks at the upgrade, so far */
	/* Another descriptor of the socket, plus 1, since the program has closed one in the
	 * middle of a call, or since a relay has taken the socket's place: then it is a
	 * descriptor of the relay's.  0: neither. */
	uint32_t moved_fd1;
	/* The descriptor whose close set moved_fd1 last, plus 1: the number may be another file's
	 * by now.  0: none, or the number is the socket's again. */
	uint32_t closed_fd1;
	/* SO_MAX_PACING_RATE, while it shows the peer a number in place of the
	 * program's own rate; 0: it does not. */
	uint64_t rate_shown, rate_was;
	uint8_t adopted; /* others may hold it that we do not know of */
	uint8_t
	    standard; /* 1 << fd: it is standard input, output or error here, where
			   * stdio uses it without us.  It is not upgraded meanwhile. */
	uint8_t n_returns; /* from our own TCP: proto/tcp/rest.h */
	uint32_t generation;
	struct watch_list watches; /* who waits for it in this process */

	struct sock_words own_words;

	/* The protocol's own struct; zeroed when the socket is made. */
	alignas(CACHE_LINE) uint8_t conn[SOCK_CONN_BYTES];
};

enum {
	SOCK_F_ACTIVE = 1,  /* it called connect() */
	SOCK_F_PASSIVE = 2, /* it came from accept() */
	SOCK_F_LISTEN = 4,
	SOCK_F_EAGER = 8,     /* upgrade at once: asked for */
	SOCK_F_PORT = 16,     /* what may take it is our own TCP */
	SOCK_F_OFFLOAD = 32,  /* AF_INET_OFFLOAD */
	SOCK_F_PROPOSED = 64, /* a proposal was made once */
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
	return is_single_threaded() && !load_rlx(&sk->page);
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
/* sock/shared.c: the page's part of a half, under the process's own lock of it. */
enum sock_half { HALF_RX, HALF_TX };
enum page_use { PAGE_LOOKS = 1, PAGE_MOVES, PAGE_CHANGES, PAGE_REPAIRS };
void page_enter(struct sock *sk, enum sock_half half, enum page_use use);
/* The same, without patience.  False: a process of our user keeps the half; then this
 * process's own lock of it is released, too, and sk->is_kept is set. */
MUST_CHECK bool page_enter_soon(struct sock *sk, enum sock_half half,
				enum page_use use);
/* What others see of a half is about to change: see sock_look_rx(). */
void page_begin_change(struct sock *sk, enum sock_half half);
void page_leave(struct sock *sk, enum sock_half half);
/* What others see of a half is whole again: see sock_settles_rx(). */
void page_settle(struct sock *sk, enum sock_half half);
/* For a while, the halves that the caller has are only uncounted (HALF_UNCOUNTED), unless
 * they change anyway; then they are whole again.  What page_count_begin() returns is for
 * page_count_end(). */
uint32_t page_count_begin(struct sock *sk);
void page_count_end(struct sock *sk, uint32_t was);
/* Take both halves, of which one is uncounted.  False: a process keeps one. */
MUST_CHECK bool page_repair_begin(struct sock *sk);

/* Take the lock of a half.  This costs less if nobody else can be there.  If a process of our
 * user keeps the half for longer than PAGE_PATIENCE_NS, the connection is lost.  So this is
 * for protocols that live in one process, and for callers that can do nothing else.  Others
 * use sock_take_rx() and the like. */
static inline void sock_lock_rx(struct sock *sk)
{
	if (sock_is_alone(sk)) {
		lock_enter();
		return;
	}
	lock_get(&sk->rx_lock);
	if (unlikely(sk->page))
		page_enter(sk, HALF_RX, PAGE_CHANGES);
}

static inline void sock_lock_tx(struct sock *sk)
{
	if (sock_is_alone(sk)) {
		lock_enter();
		return;
	}
	lock_get(&sk->tx_lock);
	if (unlikely(sk->page))
		page_enter(sk, HALF_TX, PAGE_CHANGES);
}

/* The same for a look: if this process is killed before sock_changes_rx(), other
 * holders go on with the half as it was before.  False: as page_enter_soon(). */
MUST_CHECK static inline bool sock_look_rx(struct sock *sk)
{
	if (sock_is_alone(sk)) {
		lock_enter();
		return true;
	}
	lock_get(&sk->rx_lock);
	return likely(!sk->page) || page_enter_soon(sk, HALF_RX, PAGE_LOOKS);
}

MUST_CHECK static inline bool sock_look_tx(struct sock *sk)
{
	if (sock_is_alone(sk)) {
		lock_enter();
		return true;
	}
	lock_get(&sk->tx_lock);
	return likely(!sk->page) || page_enter_soon(sk, HALF_TX, PAGE_LOOKS);
}

/* The same for a call that moves this process's positions, which others take over when
 * it releases the half.  It says sock_changes_rx() before anything else of it can be
 * seen outside the process.  False: as page_enter_soon(). */
MUST_CHECK static inline bool sock_move_rx(struct sock *sk)
{
	if (sock_is_alone(sk)) {
		lock_enter();
		return true;
	}
	lock_get(&sk->rx_lock);
	return likely(!sk->page) || page_enter_soon(sk, HALF_RX, PAGE_MOVES);
}

MUST_CHECK static inline bool sock_move_tx(struct sock *sk)
{
	if (sock_is_alone(sk)) {
		lock_enter();
		return true;
	}
	lock_get(&sk->tx_lock);
	return likely(!sk->page) || page_enter_soon(sk, HALF_TX, PAGE_MOVES);
}

static inline void sock_changes_rx(struct sock *sk)
{
	if (unlikely(sk->rx_is_in))
		page_begin_change(sk, HALF_RX);
}

static inline void sock_changes_tx(struct sock *sk)
{
	if (unlikely(sk->tx_is_in))
		page_begin_change(sk, HALF_TX);
}

/* Between two parts of a call that moves positions: if this process is killed from here
 * on, others go on behind what it has done so far. */
static inline void sock_settles_rx(struct sock *sk)
{
	if (unlikely(sk->rx_is_in == PAGE_MOVES))
		page_settle(sk, HALF_RX);
}

static inline void sock_settles_tx(struct sock *sk)
{
	if (unlikely(sk->tx_is_in == PAGE_MOVES))
		page_settle(sk, HALF_TX);
}

/* As sock_lock_rx().  False: as page_enter_soon(). */
MUST_CHECK static inline bool sock_take_rx(struct sock *sk)
{
	if (unlikely(!sock_move_rx(sk)))
		return false;
	sock_changes_rx(sk);
	return true;
}

MUST_CHECK static inline bool sock_take_tx(struct sock *sk)
{
	if (unlikely(!sock_move_tx(sk)))
		return false;
	sock_changes_tx(sk);
	return true;
}

/* Do not unlock what was never locked because this was the only thread.  The
 * lock's word tells, even if another thread has started since. */
static inline void sock_unlock_rx(struct sock *sk)
{
	if (!load_rlx(&sk->rx_lock.word)) {
		lock_leave();
		return;
	}
	if (unlikely(sk->rx_is_in))
		page_leave(sk, HALF_RX);
	lock_put(&sk->rx_lock);
}

static inline void sock_unlock_tx(struct sock *sk)
{
	if (!load_rlx(&sk->tx_lock.word)) {
		lock_leave();
		return;
	}
	if (unlikely(sk->tx_is_in))
		page_leave(sk, HALF_TX);
	lock_put(&sk->tx_lock);
}

/* Takes the lock of the half for a look, without waiting for another thread of this process,
 * and only briefly for another process.  False: somebody has it. */
MUST_CHECK static inline bool sock_try_rx(struct sock *sk)
{
	if (!lock_try(&sk->rx_lock))
		return false;
	return likely(!sk->page) || page_enter_soon(sk, HALF_RX, PAGE_LOOKS);
}

MUST_CHECK static inline bool sock_try_tx(struct sock *sk)
{
	if (!lock_try(&sk->tx_lock))
		return false;
	return likely(!sk->page) || page_enter_soon(sk, HALF_TX, PAGE_CHANGES);
}

/* For a thread that waits while the mode is UPGRADING. */
void sock_moving(struct sock *sk);
/* It is another process that gives the connection to the kernel, and takes so long that a
 * call that may not wait ends with EAGAIN. */
bool sock_moves_long(const struct sock *sk);

/* Before a look without locks at what only they keep up to date: learn what other
 * processes have done, or that they have gone.  That does not wait long: then
 * sk->is_kept says that nothing is known. */
void sock_catch_up(struct sock *sk);

static inline void sock_refresh(struct sock *sk)
{
	if (unlikely(load_rlx(&sk->page) != NULL))
		sock_catch_up(sk);
}

/* Store @v in a word, without a lock, while the words may move. */
#define SOCK_PUT(sk, word, v)                                                  \
	do {                                                                   \
		struct sock_words *w_;                                         \
		do {                                                           \
			w_ = load_acq(&(sk)->w);                               \
			store_rlx(&w_->word, (v));                             \
			fence_full();                                          \
		} while (w_ != load_acq(&(sk)->w));                            \
	} while (0)

static inline void sock_lock_both(struct sock *sk)
{
	sock_lock_rx(sk);
	sock_lock_tx(sk);
}

static inline void sock_unlock_both(struct sock *sk)
{
	sock_unlock_tx(sk);
	sock_unlock_rx(sk);
}

/* The same without patience.  False: neither lock is held. */
MUST_CHECK static inline bool sock_take_both(struct sock *sk)
{
	if (unlikely(!sock_take_rx(sk)))
		return false;
	if (likely(sock_take_tx(sk)))
		return true;
	sock_unlock_rx(sk);
	return false;
}

/* Take both locks to change the mode or act on it.  True if the mode is still
 * @mode; if not, neither lock is held. */
static inline bool sock_lock_mode(struct sock *sk, enum sock_mode mode)
{
	sock_lock_both(sk);
	if (likely(sock_mode(sk) == mode))
		return true;
	sock_unlock_both(sk);
	return false;
}

/* The same without patience.  False also if a process of our user keeps a half:
 * then sk->is_kept is set. */
MUST_CHECK static inline bool sock_take_mode(struct sock *sk,
					     enum sock_mode mode)
{
	if (unlikely(!sock_take_both(sk)))
		return false;
	if (likely(sock_mode(sk) == mode))
		return true;
	sock_unlock_both(sk);
	return false;
}

static inline void sock_unlock_rx_cleanup(struct sock **sk)
{
	sock_unlock_rx(*sk);
}

static inline void sock_unlock_tx_cleanup(struct sock **sk)
{
	sock_unlock_tx(*sk);
}

/* Hold a half to the end of the block. */
#define SOCK_GUARD_RX(sk) SOCK_GUARD_(rx, sk)
#define SOCK_GUARD_TX(sk) SOCK_GUARD_(tx, sk)
#define SOCK_GUARD_(half, sk)                                                  \
	struct sock *guard_##half                                              \
	    __attribute__((cleanup(sock_unlock_##half##_cleanup), unused)) =   \
		(sock_lock_##half(sk), (sk))

/* Change the mode, and keep the count of calls in flight. */
void sock_set_mode(struct sock *sk, enum sock_mode mode);
void sock_set_reason(struct sock *sk, enum osf_reason reason);
const char *sock_reason_text(enum osf_reason reason);
/* A call moved nothing and returned @err, a negative errno.  @is_ours is that
 * of the table that served the call. */
COLD void sock_count_failed(struct sock *sk, int dir, int err, bool is_ours);
