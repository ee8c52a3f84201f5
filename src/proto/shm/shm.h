/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/shm.h - the protocol that moves a TCP connection into shared memory
 *
 *     YOUNG --offer/take--> CANDIDATE --ready--> SHM --take back--> KERNEL
 *
 * A connection begins as the kernel's.  When it has shown that it will be used,
 * the side that opened it offers (an abstract unix listener named after the
 * 4-tuple), the side that accepted it looks for the offer and passes a segment;
 * from then on each direction says "after K bytes of TCP, the rest is in the ring"
 * and switches.  The kernel connection, the anchor, stays established: it tells of
 * the peer's death, and one byte through it is the doorbell for a peer that
 * sleeps, so whatever waits on the descriptor in the kernel wakes.
 *
 *   rendezvous.c  names, offers, announcements, passing memory
 *   upgrade.c     the steps above
 *   rx.c tx.c     hot: bytes out of and into the rings
 *   lend.c        records that the application reads in the ring
 *   region.c      memory that a peer reads where it lies
 *   backlog.c     bytes of TCP that nobody has read yet
 *   held.c        MSG_MORE, TCP_CORK
 *   wait.c        how a blocking call sleeps
 *   inbox.c       which connections have news, as peers say
 *   ready.c       and who is told of that in this process
 *   anchor.c      doorbells, the anchor's end, byte counts
 *   opt.c         what the anchor does not know alone: options, TCP_INFO, the end
 *   ctl.c         shutdown, close, options, going back
 *   recall.c      going back at once, without the peer's help
 *
 * All functions return negative errno.  @fd is a descriptor of the anchor.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "sock/anchor.h"
#include "sock/cursor.h"
#include "sock/errq.h"
#include "sock/ready.h"
#include "sock/sock.h"
#include "sock/sock_ops.h"
#include "sock/lend.h"
#include "sock/stash.h"
#include "proto/shm/conn.h"
#include "proto/shm/ring.h"
#include "proto/shm/segment.h"

/* Of a ring's memory, this much is used until a stream has shown to be one. */
#define RING_WINDOW (1024u * 1024)

/* shared.c: see sock_ops. */
void shm_export(const struct sock *sk, void *shared);
int shm_import(struct sock *sk, const void *shared);
/* The half of its memory, 0 or 1, in which a ring goes on. */
unsigned shm_rx_area(const struct sock *sk);
void shm_rx_set_area(struct sock *sk, unsigned area);
void shm_tx_set_area(struct sock *sk, unsigned area);

struct shm_config {
	bool enabled;
	uint32_t ring_bytes;    /* of each direction */
	uint32_t upgrade_turns; /* 0: upgrade from the first byte */
	uint64_t upgrade_bytes;
};

/* table.c */
extern const struct sock_ops shm_ops, shm_candidate_ops;
/* lend.c */
extern const struct lend_ops shm_lend_ops;
void shm_lend_close(struct sock *sk); /* the socket lets go of what it lent */

extern struct shm_config shm_config;
void shm_configure(void); /* reads OSF_SHM, OSF_RING, OSF_UPGRADE_* */

/* upgrade.c.  Called in mode UPGRADING (offer, take) by the one thread that set
 * it; they leave the mode as the new one. */
int shm_offer(struct sock *sk, int fd);      /* open an offer: 0 or -errno */
int shm_offer_look(struct sock *sk, int fd); /* 1 upgraded, 0 not yet, -errno */
int shm_take(struct sock *sk, int fd); /* 1 candidate, 0 no offer, -errno */
void shm_offer_close(struct sock *sk);
/* CANDIDATE: has the peer mapped the segment?  Caller holds both locks. */
void shm_candidate_step(struct sock *sk, int fd);
/* Likewise: leave CANDIDATE now, one way or the other. */
void shm_candidate_decide(struct sock *sk, int fd);
bool shm_candidate_drop(struct sock *sk);
void shm_sndbuf_changed(struct sock *sk, int fd);
void shm_after_fork(struct sock *sk); /* in the child, for inherited ones */

/* The announcement of a listener, which may be left to the kernel; -1 when somebody
 * else has it. */
int shm_announce(int listen_fd, bool is_kernel);
/* Does anybody announce the address that @fd is connected to? */
bool shm_is_announced(int fd);
/* Nobody has taken the offer, or made one: what is known of the reason?  Takes some
 * ten microseconds. */
enum osf_reason shm_why_alone(const struct sock *sk, int fd);

/* rx.c, tx.c: modes CANDIDATE and SHM.  One attempt each; they never sleep. */
ssize_t shm_recv(struct sock *sk, int fd, const struct iovec *iov, size_t n,
		 int flags);
/* Is TCP read out, so that the ring is next?  Whatever can be told now. */
bool shm_rx_settle(struct sock *sk, int fd);
/* Is all that comes in TCP, and nothing but the stream? */
bool shm_rx_is_kernels(struct sock *sk, int fd);
int shm_rx_learn(struct sock *sk); /* the peer has said K; 0 or -EPROTO */
ssize_t shm_send(struct sock *sk, int fd, const struct iovec *iov, size_t n,
		 int flags);
ssize_t shm_send_file(struct sock *sk, int fd, int in, off_t *off, size_t n);
int shm_went_back(struct sock *sk); /* -ESTALE, or the error it ended with */

/*
 * For who has the socket to himself, in one thread: nothing is locked, and nothing
 * waits.  Whatever is out of the ordinary is left to shm_recv() and shm_send().
 *
 * shm_recv_place() lends the unread bytes of the next record: their number, with
 * *@data and the record's offset; 0: ask shm_recv(); -ECONNRESET.  While rx.hold
 * names the oldest record lent out, its space and what follows stay as they are.
 */
int32_t shm_recv_place(struct sock *sk, int fd, const uint8_t **data,
		       uint32_t *off);
/* What is lent stays as it is from now on; the peer is asked to go on in the other half
 * of the ring, in which nothing is lent. */
void shm_ask_to_move(struct sock *sk, int fd);
/* @len: bytes of the vectors.  Bytes taken, -EAGAIN, or the connection's error. */
ssize_t shm_send_sole(struct sock *sk, int fd, const struct iovec *iov,
		      size_t n, size_t len);

/* wait.c: see sock_ops.is_ready and sleep */
struct call_wait;
int shm_is_ready(struct sock *sk, int dir);
int shm_sleep(struct sock *sk, int fd, const struct call_wait *w);
/* close() with SO_LINGER: until nothing waits to be sent (shm_outq()), the connection
 * has ended, a signal has come, or @seconds are over. */
void shm_linger(struct sock *sk, int fd, int seconds);

/* Poll bits (POLL*), whatever the mode. */
unsigned shm_events(struct sock *sk, int fd);

enum shm_arm { ARM_INBOX, ARM_ANCHOR };
/* ready.c: @w's set is told of news, if w->is_told says so afterwards. */
void shm_watch(struct sock *sk, struct watch *w);
bool shm_arm_for(struct sock *sk, int fd, unsigned events,
		 const struct watch *w);
bool shm_hint(struct sock *sk, int fd, unsigned events, const struct watch *w);
/* Is the peer's word for news this process's own inbox, or that of another one of the
 * family, so that it has to ring? */
bool shm_has_inbox(const struct sock *sk);
/* Ask to be told of news for @events (POLLIN, POLLOUT).  The caller looks at
 * shm_events() afterwards, before it sleeps. */
void shm_arm(struct sock *sk, int fd, unsigned events, enum shm_arm how);
/* See sock_ops.arm_bell. */
bool shm_arm_bell(struct sock *sk, int fd);
void shm_disarm_bell(struct sock *sk);

/* ctl.c */
int shm_shutdown(struct sock *sk, int fd, int how);
void shm_close(struct sock *sk, int fd); /* the last process lets go */
/* Others of the family go on: this process needs no mapping any more.  @sk may be a copy
 * from before it let go. */
void shm_let_go(const struct sock *sk);
void shm_leave(struct sock *sk, int fd); /* nobody will read here any more */
void shm_exit(struct sock *sk, int fd);  /* the last process ends */
int shm_inq(struct sock *sk, int fd);    /* FIONREAD */
int shm_outq(struct sock *sk, int fd);
void shm_tx_shrink(struct sock *sk); /* give back what a stream was granted */
/* Start going back to the kernel, for a reason, or for NONE because the peer has; pending
 * bytes stay readable. */
void shm_take_back(struct sock *sk, int fd, enum osf_reason reason);

/* opt.c: see sock_ops.opt_changed and those that follow it there */
bool shm_opt_changed(struct sock *sk, int fd, int level, int name);
void shm_async_changed(struct sock *sk, int fd);
bool shm_is_before_mark(struct sock *sk, int fd);
bool shm_is_over(const struct sock *sk);
void shm_tcp_info(struct sock *sk, int fd, void *info, size_t len);
int shm_disconnect(struct sock *sk, int fd, const struct sockaddr *addr,
		   socklen_t len);
void shm_retire(struct sock *sk);

/* recall.c */
/**
 * shm_recall() - give the connection back to the kernel, now
 * @gently: only if nothing will have to be delivered by a relay
 * @stash: all zeroes; out: bytes that come before what TCP will bring
 *
 * Whoever has a descriptor of the anchor may use it afterwards with plain system
 * calls.  No lock is held by the caller.  With bytes in the stash the mode is
 * UPGRADING, for the caller to end in KERNEL: other threads wait for that.
 *
 * Return: 1 recalled, 0 the kernel carried it already, or it stays
 * where it is (@gently), -ENOMEM, or -ECONNRESET: the
 * peer broke the protocol, or did not answer in time.
 */
int shm_recall(struct sock *sk, int fd, enum osf_reason why, bool gently,
	       struct stash *stash);
/* The peer has recalled it: send by TCP from now on.  @mine: the bytes of the
 * caller's own that lie in the ring; returns how many of them the peer has not
 * taken, -ECONNRESET.  Caller holds the tx lock. */
ssize_t shm_tx_recalled(struct sock *sk, int fd, size_t mine);
bool shm_cut_is_known(struct sock *sk, int fd);

/* What the protocol says about the peer is impossible: reset the connection. */
void shm_broken(struct sock *sk, int fd, const char *why);

/* held.c: MSG_MORE and TCP_CORK.  Of the sending side, under the tx lock:
 * hold        the record at @at of the ring, without its header, waits for more
 * hold_on     ends a call that holds: the peer may take it when it is due
 * hold_claim  begins a call while one waits; false: not any more
 * release     it waits no more; flush: likewise, and the peer is told */
void shm_hold(struct sock *sk, uint32_t at, uint32_t len);
void shm_hold_on(struct sock *sk, int fd);
bool shm_hold_claim(struct sock *sk, int fd);
void shm_release(struct sock *sk);
void shm_flush(struct sock *sk, int fd);
/* Of the receiving side.  Until when the peer may hold back what is next, UINT64_MAX:
 * it does not.  Take it if it is due, or @at_once; the caller holds the rx lock.  The
 * same without the lock, if due. */
uint64_t shm_held_until(const struct sock *sk);
bool shm_take_held(struct sock *sk, bool at_once);
bool shm_look_held(struct sock *sk);

/* anchor.c */
void anchor_ring(struct sock *sk, int fd);
/* The kernel delivers it in 200 ms, or with the next. */
void anchor_ring_later(struct sock *sk, int fd);
void anchor_silence(struct sock *sk);
void anchor_back(struct sock *sk, int fd);
void anchor_drain(struct sock *sk, int fd);
void anchor_look(struct sock *sk, int fd); /* sets sk->anchor_end */
bool anchor_has_fin(int fd);
bool anchor_is_closed(const struct sock *sk, int fd);
bool anchor_note(struct sock *sk, int err);
int anchor_error(struct sock *sk);
int anchor_so_error(struct sock *sk, int fd);
void anchor_fin(struct sock *sk);
int anchor_counts(int fd, bool active, uint64_t *sent);
int anchor_consumed(int fd, uint64_t *consumed);

/* More than the buffers of both kernels hold by default (tcp_rmem, tcp_wmem). */
#define BACKLOG_MAX (16u * 1024 * 1024)

/*
 * backlog.c.  Before somebody goes to sleep without having read what TCP still has:
 * takes it out of the kernel.  Otherwise it may close TCP's window, and then the FIN
 * of a peer that dies has no place behind it.  @n_own: 1 if the caller counts among
 * those who sleep on the anchor, but not among those who wait for room.
 */
void shm_backlog_fill(struct sock *sk, int fd, uint32_t n_own);
/* The same, for the holder of the rx lock. */
void backlog_fill_locked(struct sock *sk, int fd);
/* Read from it, at most @want bytes; MSG_PEEK and MSG_TRUNC are looked at. */
size_t backlog_read(struct sock *sk, struct iov_cursor *c, size_t want,
		    int flags);
void backlog_free(struct sock *sk);

static inline uint32_t backlog_bytes(const struct sock *sk)
{
	return load_rlx(&shm_of(sk)->backlog_end) -
	       load_rlx(&shm_of(sk)->backlog_pos);
}

/* The side of ours, and of the peer. */
static inline struct seg_side *shm_me(const struct sock *sk)
{
	return &shm_of(sk)->seg->side[shm_of(sk)->side];
}

static inline struct seg_side *shm_peer(const struct sock *sk)
{
	return &shm_of(sk)->seg->side[!shm_of(sk)->side];
}

/* Whoever sleeps on the anchor wants to be rung, or whoever waits for SIGIO. */
static inline uint32_t shm_ring_how(const struct sock *sk)
{
	return unlikely(load_rlx(&sk->flags) & SOCK_F_ASYNC) ? RING_EACH_TIME
							     : RING_ONCE;
}

/* May the peer hold bytes back? */
static inline bool shm_is_held(const struct sock *sk)
{
	return unlikely(load_rlx(&shm_peer(sk)->held_ns) != 0);
}

void shm_wake_peer(struct sock *sk, int fd, uint32_t *inbox_word,
		   uint32_t *anchor_word, uint32_t *bell_word, bool stays);

/* After putting bytes into the ring: does the consumer want to be told?  Early is
 * for in between: it may miss one who is just going to sleep. */
static inline void shm_told_early(struct sock *sk, int fd)
{
	struct seg_side *p = shm_peer(sk);

	if (unlikely(load_rlx(&p->rx_inbox) | load_rlx(&p->rx_anchor) |
		     load_rlx(&p->rx_bell1)))
		shm_wake_peer(sk, fd, &p->rx_inbox, &p->rx_anchor, &p->rx_bell1,
			      true);
}

static inline void shm_told_data(struct sock *sk, int fd)
{
	fence_full();
	shm_told_early(sk, fd);
}

/* After publishing a tail: does the producer want to be told? */
static inline void shm_told_space(struct sock *sk, int fd)
{
	struct seg_side *p = shm_peer(sk);

	fence_full();
	if (unlikely(load_rlx(&p->tx_inbox) | load_rlx(&p->tx_anchor)))
		shm_wake_peer(sk, fd, &p->tx_inbox, &p->tx_anchor, NULL, false);
}

/* Of the memory of each ring. */
static inline uint32_t shm_ring_bytes(const struct sock *sk)
{
	return 2 * shm_of(sk)->tx.area_bytes;
}

/* The anchor has another descriptor now. */
static inline void shm_anchor_moved(struct sock *sk, int from, int to)
{
	if (shm_of(sk)->seg && load_rlx(&shm_me(sk)->anchor_fd) == from)
		store_rlx(&shm_me(sk)->anchor_fd, to);
}

/* A direction is TCP's again.  When both are, so is the connection. */
static inline void shm_note_back(struct sock *sk)
{
	if (load_rlx(&shm_of(sk)->rx_back) && !load_rlx(&shm_of(sk)->tx_ring))
		sk->st->proto = OSF_PROTO_INET;
}

/* Has the peer stopped reading the ring? */
static inline bool shm_is_recalled(const struct sock *sk)
{
	return unlikely(load_rlx(&shm_peer(sk)->flags) & SEG_RECALL);
}

/* The peer asked to go back to the kernel, and we have not yet? */
static inline bool shm_wants_back(const struct sock *sk)
{
	return unlikely(load_rlx(&shm_peer(sk)->flags) & SEG_WANT_BACK) &&
	       shm_of(sk)->tx_ring;
}
