/* SPDX-License-Identifier: MIT */
/*
 * sock/sock.h - what every socket is, whatever moves its bytes
 *
 * A struct sock is one open file description of a TCP socket.  It lives in the
 * process's statistics segment (sock/arena.h), which is shared memory, so that
 * processes that share the description by fork share this too: the indices into
 * a ring, the locks, the counters.  The peer process cannot reach it.
 *
 * Life of the data path, one way, except the last step:
 *
 *   YOUNG      the kernel moves the bytes; calls count themselves in and out
 *   UPGRADING  one thread negotiates; others wait, it takes microseconds
 *   CANDIDATE  the kernel moves the bytes, under the locks below, because the
 *              peer may start to use the ring at any time
 *   SHM        rings, after what was still in TCP
 *   KERNEL     for good: the tables no longer lead here for data calls
 *
 * Owner: the processes that hold the description.  Locks: rx for the receiving
 * half, tx for the sending half; both in that order to change the mode.
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
};

/* sock.state: the mode above a count of kernel calls in flight while YOUNG. */
#define SOCK_COUNT_BITS 20
#define SOCK_COUNT_MASK ((1u << SOCK_COUNT_BITS) - 1)
#define SOCK_STATE(mode) ((uint32_t)(mode) << SOCK_COUNT_BITS)

/* The producer's view of a ring; see shm/ring.h. */
struct ring_tx {
	uint8_t *base;
	uint32_t *tail_pub; /* where the consumer publishes its tail */
	uint32_t size;      /* used so far; see ring_tx_grow() */
	uint32_t grow_to;   /* as soon as it can */
	uint32_t head;      /* where the next record's header goes */
	uint32_t tail;      /* the consumer's, as last seen and checked */
	uint32_t look;      /* bytes until the consumer's tail is looked at */
	uint32_t
	    resume;    /* where the ring went on before it was rewound, or 0 */
	uint32_t hole; /* offset of a SKIP mark that the consumer may not have
			  * reached, or UINT32_MAX */
	uint8_t holds; /* the header of a record is not stored yet */
	/* Where it may be asked to go on: see ring_tx_areas(). */
	uint32_t area_bytes; /* 0: there is one area */
	uint8_t *other;
	uint32_t *other_tail;
};

/* The consumer's view. */
struct ring_rx {
	uint8_t *base;
	uint32_t *tail_pub;
	uint32_t size;
	uint32_t off;       /* header of the current or next record */
	uint32_t len;       /* of the current record's payload, 0: none begun */
	uint32_t pos;       /* bytes of it already delivered */
	uint32_t published; /* last value given to *tail_pub */
	uint32_t
	    hold; /* record whose bytes are still lent out, or UINT32_MAX */
	const uint8_t *data;    /* of the current record, once begun */
	uint32_t next;          /* the record behind it */
	uint8_t is_ref;         /* its bytes lie elsewhere */
	struct ring_refs *refs; /* NULL: references are none of its business */
	uint8_t moves; /* the producer was asked to go on in another area */
};

struct seg;
struct peer_inbox;

struct sock {
	struct osf_stats_sock st; /* public: osf stat reads it */

	/* Every call. */
	alignas(CACHE_LINE) uint32_t state; /* SOCK_STATE(mode) | in flight */
	uint8_t flags;                      /* SOCK_F_* */
	uint8_t nonblock;                   /* O_NONBLOCK, shared by dups */
	uint8_t side;        /* of the segment: 0 created it, 1 took it */
	uint8_t shut;        /* SHUT_BIT_*: what this side has shut */
	uint8_t maker_has;   /* the process that made it still holds it */
	int32_t n_procs;     /* processes that hold the description; 0: the last
			  * has ended without closing; -1: nobody any more */
	uint32_t turns;      /* changes of direction while YOUNG */
	uint32_t turns_next; /* look at the upgrade when turns reach this */
	uint64_t bytes_next; /* ... or bytes both ways do */
	uint8_t last_dir;
	struct seg *seg; /* mapped at the same address in all holders */
	struct peer_inbox *peer_inbox; /* mapped likewise */

	/* Receiving. */
	alignas(CACHE_LINE) struct lock rx_lock;
	uint8_t rx_tcp;   /* 1: bytes may still be in TCP, ahead of the ring */
	uint8_t rx_eof;   /* a FIN record, or the anchor's FIN, was reached */
	uint8_t rx_back;  /* the peer's BACK record was reached */
	uint8_t recalled; /* we recalled it: there are no doorbells any more */
	uint8_t
	    anchor_deaf; /* SHUT_RD was given to the kernel: never sleep in recv */
	uint8_t rx_broken;  /* the peer broke the protocol */
	uint8_t anchor_end; /* ANCHOR_*: what the kernel said of the anchor */
	uint8_t peer_died;  /* PEER_*: its process has ended without closing */
	uint8_t inq; /* TCP_INQ: recvmsg() tells how many bytes are left */
	int32_t anchor_err; /* an error that it has already given away */
	uint32_t errq;      /* the error queue may hold something: another value
			     * each time that was noted, or 0 */
	struct ring_rx rx;
	uint64_t rx_tcp_base; /* bytes of TCP that were read so far */
	int64_t rx_tcp_left;  /* bytes of TCP before the ring, once known */
	/* shm/backlog.c: bytes of TCP that wait here, in memory that forks share. */
	uint8_t *backlog;
	uint32_t backlog_pos, backlog_end;
	uint32_t bells_drained;
	uint32_t n_ringing;     /* threads that are about to ring the peer */
	uint32_t n_sleepers;    /* threads asleep on the anchor */
	uint32_t n_tx_sleepers; /* of them, those that wait for room */
	uint64_t looked_ns;     /* when the anchor was last asked */
	uint64_t polled_ns;     /* when a poll() without a timeout asked it */
	uint64_t rcvtimeo_ns, sndtimeo_ns; /* 0: none */
	int32_t rcvlowat;

	/* Sending. */
	alignas(CACHE_LINE) struct lock tx_lock;
	uint8_t tx_ring;       /* 1: the ring, 0: still (or again) TCP */
	uint8_t tx_fin;        /* a FIN record was pushed */
	uint8_t nodelay, cork; /* as the application set them */
	struct ring_tx tx;
	uint64_t tx_tcp_base; /* bytes sent by TCP, exact while CANDIDATE */
	uint32_t tx_limit;    /* bytes in flight at most, from SO_SNDBUF */
	uint32_t bulk_bytes;  /* in large chunks, since bulk_since_ns */
	uint64_t bulk_since_ns;
	uint32_t held_bytes; /* of records that wait for more; 0: none */
	uint32_t held_at;    /* the first of them, whose header is not stored */
	uint64_t held_hdr, held_since_ns;
	uint8_t bell_waits;   /* the kernel holds a doorbell back */
	uint32_t n_bulk_slow; /* looks at the pace in a row; see shm/tx.c */
	uint8_t times;        /* recvmsg() tells when bytes came */
	uint8_t zc_on;        /* SO_ZEROCOPY is set */
	uint32_t zc_next;     /* number of the next send with MSG_ZEROCOPY */
	uint32_t
	    zc_done; /* ours just before it that the program was not told of */
	uint32_t zc_kernel; /* the kernel's that the program was not told of */

	/* The upgrade. */
	int32_t offer_fd;    /* the listener of our offer, -1 */
	int32_t channel_fd;  /* to the taker of our segment, -1 */
	int32_t announce_fd; /* a listener's announcement, 0 for none */
	uint32_t n_looks;    /* at the upgrade, so far */
	uint32_t inbox_tag;  /* of the inbox that the peer was given */
	uint8_t adopted;     /* others may hold it that we do not know of */
	uint32_t slot;       /* this side's slot in its own inbox */
	uint32_t generation;
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
enum {
	PEER_LIVES,
	PEER_READ_ALL, /* the stream ends as with a FIN */
	PEER_TOLD, /* and we have written since: as with a reset that follows */
	PEER_RESET, /* it left bytes unread */
};
enum { DIR_NONE, DIR_RX, DIR_TX };

static inline enum sock_mode sock_mode(const struct sock *sk)
{
	return (enum sock_mode)(load_acq(&sk->state) >> SOCK_COUNT_BITS);
}

/* True if nobody else can be inside a call on this socket. */
static inline bool sock_is_alone(const struct sock *sk)
{
	return is_single_threaded() && load_rlx(&sk->n_procs) == 1;
}

/* @n processes do not hold it any more: have all let go?  Then it is the caller's to
 * end, and nobody else's. */
static inline bool sock_let_go(struct sock *sk, int32_t n)
{
	int32_t old;

	do
		old = load_rlx(&sk->n_procs);
	while (!cas(&sk->n_procs, old, old == n ? -1 : old - n));
	return old == n;
}

/* Enter a kernel call; false when the mode is no longer YOUNG. */
static inline bool sock_enter(struct sock *sk)
{
	if (sock_is_alone(sk)) {
		if (sk->state >> SOCK_COUNT_BITS != SOCK_YOUNG)
			return false;
		sk->state++;
		return true;
	}
	if (fetch_add(&sk->state, 1) >> SOCK_COUNT_BITS == SOCK_YOUNG)
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

/* Change mode without touching the count of those who peek in. */
void sock_set_mode(struct sock *sk, enum sock_mode mode);
void sock_set_reason(struct sock *sk, enum osf_reason reason);
const char *sock_reason_text(enum osf_reason reason);
