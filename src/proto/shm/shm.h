/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/shm.h - how a TCP connection moves into shared memory
 *
 *     YOUNG --proposal, accept--> PENDING --confirm--> SHM --fallback--> KERNEL
 *
 * Every connection starts in the kernel.  When it has shown that it will be
 * used, the side that opened it proposes: it listens on a unix name and shows
 * that name on its TCP socket.  The side that accepted the connection finds the
 * proposal and sends a segment.  Then each side says "after K bytes of TCP, the
 * rest is in the ring" and switches.  The kernel's connection, the anchor, stays
 * established.  It reports the peer's death, and one byte through it is the
 * doorbell that wakes a peer which sleeps in the kernel on the descriptor.
 *
 *   rendezvous.c  names, proposals, announcements, passing memory
 *   notice.c      the proof that somebody has the other end
 *   trust.c       who may share memory with whom
 *   other_end.c   what the kernel says about the other end
 *   elsewhere.c   closing what a stranger has sent
 *   upgrade.c     the steps above, of the opener; accept.c: of the acceptor;
 *                 handshake.c: what both do
 *   rx.c tx.c     hot: bytes out of and into the rings
 *   rx_kernel.c   bytes that TCP brings, and how its connection ended
 *   rx_place.c    records that a poll group reads in the ring
 *   tx_file.c     sendfile()
 *   tx_grow.c     how much of its ring a stream uses
 *   lend.c        records that the application reads in the ring
 *   region.c      memory that a peer reads in place
 *   readahead.c   bytes of TCP that nobody has read yet
 *   cork.c        MSG_MORE, TCP_CORK
 *   wait.c        how a blocking call sleeps
 *   inbox.c       the ready list: which connections have news
 *   post.c        the peers' ready lists, to which we post
 *   ready.c       notifies the waiters of this process
 *   anchor.c      the anchor's end, byte counts
 *   doorbell.c    doorbells
 *   opt.c         answers that the anchor lacks: options, TCP_INFO, the end
 *   events.c      readiness
 *   shut.c        shutdown, fallback with the peer's help, what is put off
 *   close.c       close, the end of a process
 *   ctl.c         FIONREAD, SIOCOUTQ, a peer that breaks the protocol
 *   fallback.c    fallback at once, without the peer's help
 *   stash.c       what it takes out of TCP and the ring
 *   cut.c         the same, seen from the peer: what it sends again
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

/* An honest peer sets a flag once, so the second look finds it.  A hostile one may
 * set and clear it for ever. */
#define SHM_LOOKS_MAX 3

/* Use only this much of a ring's memory until a stream needs more. */
#define RING_WINDOW (1024u * 1024)

/* shared.c: see sock_ops. */
void shm_export(const struct sock *sk, enum sock_half half, void *shared);
int shm_import(struct sock *sk, enum sock_half half, const void *shared);
void shm_lost(struct sock *sk, const char *why);
/* Do for the kernel's socket what shm_lost() has left to a call. */
void shm_reset_due(struct sock *sk, int fd);
/* The half of its memory, 0 or 1, that a ring now uses. */
unsigned shm_rx_area(const struct sock *sk);

struct shm_config {
	bool enabled;
	uint32_t ring_bytes; /* of each direction */
	uint32_t
	    upgrade_pingpongs; /* changes of direction; 0: upgrade at once */
	uint64_t upgrade_bytes;
	bool
	    learns; /* these two are defaults: later, where connections are short */
	bool lends; /* calls that share a socket may be lent bytes */
};

/* table.c */
extern const struct sock_ops shm_ops, shm_pending_ops;
/* lend.c */
extern const struct lend_ops shm_lend_ops;
/* Bytes were read that were not lent, or shared, while a piece is lent, with the rx
 * lock: the stream must not stand still for it. */
void shm_lend_pinned(struct sock *sk, int fd);
/* Other processes will read: they know nothing of what is lent. */
void shm_lend_shares(struct sock *sk);
void shm_lend_close(struct sock *sk); /* the socket lets go of what it lent */

extern struct shm_config shm_config;
void shm_configure(void); /* reads OSF_SHM, OSF_RING, OSF_UPGRADE_* */

/* upgrade.c.  The thread that set mode UPGRADING calls these (propose, accept).
 * They set the next mode. */
int shm_propose(struct sock *sk, int fd); /* make a proposal: 0 or -errno */
int shm_proposal_advance(struct sock *sk,
			 int fd);        /* 1 upgraded, 0 not yet, -errno */
int shm_accept(struct sock *sk, int fd); /* 1 pending, 0 no proposal, -errno */
void shm_proposal_close(struct sock *sk, int fd); /* @fd: -1 if not at hand */
/* The same, of a process that is about to be somebody else: its unix sockets go on telling the
 * peer who it was.  Other holders of @sk keep theirs.  The socket may make a new proposal. */
void shm_withdraw(struct sock *sk, int fd);
/* Has any socket had such a unix socket since shm_forget_offers()? */
bool shm_had_offers(void);
void shm_forget_offers(void);
/* PENDING: has the peer mapped the segment?  Caller holds both locks. */
void shm_pending_step(struct sock *sk, int fd);
/* The peer has: leave PENDING, unless there is an error to report first. */
void shm_pending_follow(struct sock *sk, int fd);
/* The same, but leave PENDING now: either upgrade or fall back. */
void shm_pending_decide(struct sock *sk, int fd);
bool shm_pending_drop(struct sock *sk, int fd, enum osf_reason why);
/* The process is about to fork: young again, if nothing stands against it. */
void shm_pending_undo(struct sock *sk, int fd);
void shm_sndbuf_changed(struct sock *sk, int fd);
void shm_before_fork(struct sock *sk);

/* Announce a listener, which may be left to the kernel.  -1 if another process
 * has announced it. */
int shm_announce(int listen_fd, bool is_kernel);
void shm_unannounce(int fd); /* what shm_announce() has returned */
/* Does anybody announce the address that @fd is connected to? */
bool shm_is_announced(int fd);
/* Why has nobody accepted the proposal, or made one?  Takes some ten microseconds. */
enum osf_reason shm_why_alone(const struct sock *sk, int fd);

/* rx.c, rx_kernel.c, tx.c: modes PENDING and SHM.  One attempt each; they never sleep. */
ssize_t shm_recv_one(struct sock *sk, int fd, void *to, size_t max);
ssize_t shm_recv(struct sock *sk, int fd, const struct iovec *iov, size_t n,
		 int flags);
/* Has TCP been read to its end, so that the ring is next?  Finds out what it
 * can. */
bool shm_rx_sync(struct sock *sk, int fd);
/* Does TCP bring everything that comes, and nothing but the stream? */
bool shm_rx_is_kernels(struct sock *sk, int fd);
bool shm_rx_is_known(struct sock *sk); /* how much TCP comes before the ring */
int shm_rx_learn(struct sock *sk);     /* the peer has said K; 0 or -EPROTO */
/* The producer has moved to the other half of the ring: follow it. */
void shm_rx_move(struct sock *sk);
ssize_t shm_send(struct sock *sk, int fd, const struct iovec *iov, size_t n,
		 int flags);
ssize_t shm_send_file(struct sock *sk, int fd, int in, off_t *off, size_t n);
int shm_went_back(struct sock *sk); /* -ESTALE, or the error it ended with */
int shm_kept(struct sock *sk);      /* -EAGAIN: another holder has the half */

/*
 * For a caller that has the socket to itself, in one thread: these neither
 * lock nor wait.  They leave unusual cases to shm_recv() and shm_send().
 *
 * shm_recv_place() lends the unread bytes of the next record, at most @max.  It returns
 * their number, with *@data and the record's offset; 0: call shm_recv();
 * -ECONNRESET.  While rx.hold names the oldest record that is lent, its space
 * and all that follows stay unchanged.
 */
int32_t shm_recv_place(struct sock *sk, int fd, uint32_t max,
		       const uint8_t **data, uint32_t *off);
/* Keep unchanged what is lent, and ask the peer to continue in the other half
 * of the ring, in which nothing is lent. */
void shm_ask_to_move(struct sock *sk, int fd);
/* The same, but the peer is not told until somebody has read the ring empty. */
void shm_ask_to_move_later(struct sock *sk);
/* @len: bytes of the vectors.  Return the bytes taken, -EAGAIN, or another
 * error. */
ssize_t shm_send_sole(struct sock *sk, int fd, const struct iovec *iov,
		      size_t n, size_t len);

/* wait.c: see sock_ops.is_ready and sleep */
struct call_wait;
int shm_is_ready(struct sock *sk, int dir);
int shm_sleep(struct sock *sk, int fd, const struct call_wait *w);
/* close() with SO_LINGER: wait until all is sent (shm_outq() is 0), the
 * connection has ended, a signal has come, or @seconds have passed. */
void shm_linger(struct sock *sk, int fd, int seconds);

/* events.c.  Poll bits (POLL*), whatever the mode. */
unsigned shm_events(struct sock *sk, int fd);

enum shm_arm { ARM_INBOX, ARM_ANCHOR };
/* ready.c.  There is more to read than one call has read. */
void shm_tell_self(struct sock *sk);
/* Notify @w's set of news, if w->is_notified is true afterwards. */
void shm_watch(struct sock *sk, struct watch *w);
bool shm_arm_for(struct sock *sk, int fd, unsigned events,
		 const struct watch *w);
bool shm_anchor_event(struct sock *sk, int fd, unsigned events,
		      const struct watch *w);
/* Does the peer post to an inbox of this process?  If it posts to one of
 * another process that share it, it has to ring instead. */
bool shm_has_inbox(const struct sock *sk);
/* Ask for a notification of @events (POLLIN, POLLOUT).  Before it sleeps, the
 * caller looks at shm_events() once more. */
void shm_arm(struct sock *sk, int fd, unsigned events, enum shm_arm how);
/* See sock_ops.arm_bell. */
bool shm_arm_bell(struct sock *sk, int fd);
void shm_disarm_bell(struct sock *sk);
/* Publish what was read; the peer may wait for that space while we wait for it. */
void shm_tell_of_space(struct sock *sk, int fd);

/* shut.c */
int shm_shutdown(struct sock *sk, int fd, int how);
/* End our direction.  The caller notifies the peer, and holds the tx lock. */
void shm_push_fin(struct sock *sk);
/* sock_words.due: what is left for whoever has the halves next */
enum {
	SHM_DUE_SHUT_RD = 1,
	SHM_DUE_SHUT_WR = 2,
	SHM_DUE_FLUSH = 4,
	SHM_DUE_SNDBUF = 8,
	SHM_DUE_BACK = 16,
	SHM_DUE_SPACE = 32,
};
void shm_leave_due(struct sock *sk, int fd, uint8_t what);
/* The caller holds no lock of the socket.  False: something stays due. */
bool shm_do_due(struct sock *sk, int fd);
/* The same, then: does a process still keep a half? */
bool shm_is_kept(struct sock *sk, int fd);
/* A half could not be taken.  Is it so no longer, since an owner that died is known to
 * have changed nothing else than what the kernel has counted? */
bool shm_is_repaired(struct sock *sk, int fd);
void shm_due_by_kernel(struct sock *sk, int fd);
/* Start the fallback to the kernel: for a reason, or for NONE because the peer
 * has started it.  Pending bytes stay readable.  -EAGAIN: it starts as soon as another
 * process no longer keeps a half. */
int shm_fallback(struct sock *sk, int fd, enum osf_reason reason);

/* close.c */
void shm_close(struct sock *sk, int fd); /* the last process lets go */
/* Other processes still use it: drop what this process has of it. */
void shm_let_go(struct sock *sk, int fd);
void shm_leave(struct sock *sk, int fd); /* nobody will read here any more */
void shm_exit(struct sock *sk, int fd);  /* the last process ends */

/* ctl.c */
int shm_inq(struct sock *sk, int fd); /* FIONREAD */
int shm_outq(struct sock *sk, int fd);
size_t shm_room(struct sock *sk, int fd);
/* The peer did something that the protocol forbids: reset the connection. */
void shm_broken(struct sock *sk, int fd, const char *why);

/* tx_grow.c */
void shm_tx_shrink(struct sock *sk); /* give back what a stream was granted */
/* When is a ring to be stretched whose reader reads nothing?  UINT64_MAX: never. */
uint64_t shm_stretch_ns(const struct sock *sk);
/* Do it, if it is time.  The caller holds the tx lock. */
void shm_tx_stretch(struct sock *sk);

/* opt.c: see sock_ops.opt_changed and those that follow it there */
bool shm_opt_changed(struct sock *sk, int fd, int level, int name);
/* Give the anchor the options that the application has set. */
void anchor_restore(const struct sock *sk, int fd);
void shm_async_changed(struct sock *sk, int fd);
bool shm_is_before_mark(struct sock *sk, int fd);
bool shm_is_over(const struct sock *sk);
void shm_tcp_info(struct sock *sk, int fd, void *info, size_t len);
int shm_disconnect(struct sock *sk, int fd, const struct sockaddr *addr,
		   socklen_t len);
void shm_retire(struct sock *sk);

/* fallback.c */
/**
 * shm_fallback_now() - fall back to the kernel now @gently: only if no relay will be
 * needed to deliver bytes @stash: all zeroes; out: bytes that come before what
 * TCP will bring
 *
 * After this, any holder of the anchor's descriptor may use plain system
 * calls.  The caller holds no lock.  If the stash has bytes, the mode is
 * UPGRADING and other threads wait until the caller sets KERNEL.
 *
 * Return: 1 fell back; 0 the kernel carried it already, or it stays where it is
 * (@gently); -ENOMEM; -ECONNRESET: the peer broke the protocol, or did not
 * answer in time; -EBUSY: another process keeps a half, so a relay has to call
 * shm_fallback_late().
 */
int shm_fallback_now(struct sock *sk, int fd, enum osf_reason why, bool gently,
		     struct stash *stash);
/* The same in a relay, which waits until it has both halves.  The mode is KERNEL then. */
int shm_fallback_late(struct sock *sk, int fd, enum osf_reason why,
		      struct stash *stash);
/* cut.c */
/* Where does the peer's ring end?  Sets it, unless the peer has done that.  The caller
 * holds the rx lock and has told the peer that it falls back. */
uint32_t shm_cut_rx(struct sock *sk);
/* The peer has ended the ring alone: send by TCP from now on.  @mine: how
 * many of the caller's bytes are in the ring.  Return how many of them the
 * peer will not read, or -ECONNRESET.  The caller holds the tx lock. */
ssize_t shm_tx_fell_back(struct sock *sk, int fd, size_t mine);
/* Let the kernel send the FIN, at once or when the peer has settled.  The same
 * lock. */
void shm_fin(struct sock *sk, int fd);

/* cork.c: MSG_MORE and TCP_CORK.  For the sender, under the tx lock:
 *   hold        keep the record at @at of the ring, without its header
 *   hold_on     end a call that holds; the peer may take the record when due
 *   hold_claim  begin a call while a record waits; false: it no longer does
 *   release     store the header
 *   flush       release, and notify the peer */
void shm_cork(struct sock *sk, uint32_t at, uint32_t len);
void shm_cork_on(struct sock *sk, int fd);
bool shm_cork_claim(struct sock *sk, int fd);
void shm_release(struct sock *sk);
void shm_flush(struct sock *sk, int fd);
/* For the receiver.  Until when may the peer hold back what is next?
 * UINT64_MAX: it holds nothing.  Take it if it is due; the caller holds the rx lock.
 * The same without the lock. */
uint64_t shm_corked_until(const struct sock *sk);
bool shm_uncork(struct sock *sk);
bool shm_poll_corked(struct sock *sk);
/* Nobody reads here after this.  Take what the peer holds back at @off of @rx, due or not,
 * where the records end: what comes before it may be unread. */
void shm_uncork_last(struct sock *sk, struct ring_rx *rx, uint32_t off);

/* anchor.c */
void anchor_ring(struct sock *sk, int fd);
/* The kernel delivers this doorbell after 200 ms, or with the next bytes. */
void anchor_ring_later(struct sock *sk, int fd);
void anchor_silence(struct sock *sk);
bool shm_repair(struct sock *sk, int fd); /* see sock_ops.repair */
void anchor_back(struct sock *sk, int fd);
void anchor_drain(struct sock *sk, int fd);
bool anchor_drain_all(struct sock *sk, int fd);
/* Nothing is rung.  If the anchor has bytes all the same, the peer breaks the protocol. */
void anchor_not_rung(struct sock *sk, int fd);
void anchor_ask(struct sock *sk, int fd); /* sets sk->w->anchor_end */
/* Another connection of the peer process says that there is no need to ask yet. */
bool anchor_peer_lives(const struct sock *sk);
bool anchor_has_fin(int fd);
bool anchor_is_closed(const struct sock *sk, int fd);
bool anchor_note(struct sock *sk, int err);
int anchor_error(struct sock *sk);
int anchor_so_error(struct sock *sk, int fd);
/* The same, 0 or positive, of a direction that the program has shut. */
int anchor_end_error(struct sock *sk, int fd);
/* What a reset leaves as the socket's error, as in Linux: ECONNRESET or EPIPE. */
int anchor_reset_error(const struct sock *sk);
void anchor_fin(struct sock *sk);
int anchor_counts(int fd, bool active, uint64_t *sent);
int anchor_consumed(int fd, uint64_t *consumed);

/* More than both kernels' buffers hold by default (tcp_rmem, tcp_wmem). */
#define READAHEAD_MAX (16u * 1024 * 1024)

/*
 * readahead.c.  A thread calls this before it sleeps without having read what
 * TCP still has; this takes those bytes out of the kernel.  Otherwise they may
 * close TCP's window, and the FIN of a peer that dies could not arrive.
 * @n_own: 1 if the caller counts as a sleeper on the anchor, but does not wait
 * for room.
 */
void shm_readahead_fill(struct sock *sk, int fd, uint32_t n_own);
/* The same, for the holder of the rx lock. */
void readahead_fill_locked(struct sock *sk, int fd);
/* Read at most @want of the bytes that were read ahead.  MSG_PEEK and MSG_TRUNC work. */
size_t readahead_read(struct sock *sk, struct iov_cursor *c, size_t want,
		      int flags);
void readahead_free(struct sock *sk);

static inline uint32_t readahead_bytes(const struct sock *sk)
{
	return load_rlx(&shm_of(sk)->readahead_end) -
	       load_rlx(&shm_of(sk)->readahead_pos);
}

/* Our side, and the peer's. */
static inline struct seg_side *shm_me(const struct sock *sk)
{
	return &shm_of(sk)->seg->side[shm_of(sk)->side];
}

static inline struct seg_side *shm_peer(const struct sock *sk)
{
	return &shm_of(sk)->seg->side[!shm_of(sk)->side];
}

/* The peer must ring for a thread that sleeps on the anchor, and for SIGIO. */
static inline uint32_t shm_ring_how(const struct sock *sk)
{
	return unlikely(load_rlx(&sk->w->is_async)) ? RING_EACH_TIME
						    : RING_ONCE;
}

/* May the peer hold bytes back? */
static inline bool shm_is_corked(const struct sock *sk)
{
	return unlikely(load_rlx(&shm_peer(sk)->held_ns) != 0);
}

void shm_wake_peer(struct sock *sk, int fd, uint32_t *inbox_word,
		   uint32_t *anchor_word, uint32_t *bell_word, bool stays);

/* After putting bytes into the ring: notify the consumer if it has asked for
 * that.  The early version is for the middle of a write: it may miss a
 * consumer that is just going to sleep. */
static inline void shm_notify_early(struct sock *sk, int fd)
{
	struct seg_side *p = shm_peer(sk);

	if (unlikely(load_rlx(&p->rx_inbox) | load_rlx(&p->rx_anchor) |
		     load_rlx(&p->rx_bell1)))
		shm_wake_peer(sk, fd, &p->rx_inbox, &p->rx_anchor, &p->rx_bell1,
			      true);
}

static inline void shm_notify_data(struct sock *sk, int fd)
{
	fence_full();
	shm_notify_early(sk, fd);
}

/* After publishing a tail: notify the producer if it has asked for that. */
static inline void shm_notify_space(struct sock *sk, int fd)
{
	struct seg_side *p = shm_peer(sk);

	fence_full();
	if (unlikely(load_rlx(&p->tx_inbox) | load_rlx(&p->tx_anchor)))
		shm_wake_peer(sk, fd, &p->tx_inbox, &p->tx_anchor, NULL, false);
}

/* Have bytes gone by TCP to a peer that had closed, or shut both directions? */
static inline bool shm_is_late(const struct sock *sk)
{
	return load_rlx(&shm_me(sk)->flags) & SEG_TX_LATE;
}

/* Has the peer reset the connection, or does its kernel answer what we have sent after its end? */
static inline bool shm_is_reset(const struct sock *sk)
{
	return shm_is_late(sk) || load_rlx(&shm_peer(sk)->flags) & SEG_ABORTED;
}

/* Is the connection to be reset, for what the peer or another holder did? */
static inline bool shm_is_broken(const struct sock *sk)
{
	return unlikely(load_rlx(&shm_w(sk)->rx_broken) | sk->is_lost);
}

/* The size of each ring's memory. */
static inline uint32_t shm_ring_bytes(const struct sock *sk)
{
	return 2 * shm_of(sk)->tx.area_bytes;
}

/* Has so much been read that the peer must be looked at? */
static inline bool shm_rx_is_unlooked(const struct sock *sk)
{
	return shm_of(sk)->rx_unlooked > shm_ring_bytes(sk);
}

/* The anchor has another descriptor now. */
static inline void shm_anchor_moved(struct sock *sk, int from, int to)
{
	if (shm_of(sk)->seg && load_rlx(&shm_me(sk)->anchor_fd) == from)
		store_rlx(&shm_me(sk)->anchor_fd, to);
	if (shm_of(sk)->notice.fd == from)
		shm_of(sk)->notice.fd = to;
}

/* One direction is back in TCP.  When both are, the connection is the
 * kernel's. */
static inline void shm_note_back(struct sock *sk)
{
	if (load_rlx(&shm_w(sk)->rx_back) && !load_rlx(&shm_w(sk)->tx_ring))
		sk->st->proto = OSF_PROTO_INET;
}

/* Has the peer stopped reading the ring? */
static inline bool shm_has_fallen_back(const struct sock *sk)
{
	return unlikely(load_rlx(&shm_peer(sk)->flags) & SEG_FALLBACK);
}

/* The peer's process has died: its connection has ended, and it had not shut down its
 * direction, which shows in the flags that it leaves.  If it had, the kernel tells
 * (anchor_ask()). */
static inline bool shm_is_gone(const struct sock *sk, uint32_t flags)
{
	uint8_t end = load_rlx(&sk->w->anchor_end);

	return end == ANCHOR_RST ||
	       (end != ANCHOR_OPEN && (!(flags & (SEG_TX_FIN | SEG_TX_BACK)) ||
				       load_rlx(&shm_of(sk)->is_orphan)));
}

/* May it be putting bytes back?  Until it has settled, nothing may go by TCP.  Only who has begun
 * to read the ring has something to put back: the opener is ready then, and the acceptor sends by
 * ring. */
static inline bool shm_is_unsettled(const struct sock *sk)
{
	uint32_t flags = load_acq(&shm_peer(sk)->flags); /* S4 */

	return unlikely((flags & (SEG_FALLBACK | SEG_SETTLED)) ==
			SEG_FALLBACK) &&
	       flags & (shm_of(sk)->side ? SEG_TX_RING : SEG_READY) &&
	       load_rlx(&shm_of(sk)->seg->first_back) !=
		   shm_of(sk)->side + 1u &&
	       !shm_is_gone(sk, flags);
}

/* When may something be due that nobody notifies us of?  UINT64_MAX: never. */
uint64_t shm_next_ns(struct sock *sk);

/* Has the peer asked for a fallback that we have not done yet? */
static inline bool shm_wants_back(const struct sock *sk)
{
	return unlikely(load_rlx(&shm_peer(sk)->flags) & SEG_WANT_BACK) &&
	       (shm_w(sk)->tx_ring || shm_of(sk)->fin_due);
}

/* When to look again, if the peer has not settled: it may lose its core, and may not
 * be able to ring. */
#define SETTLE_LOOK_NS (2 * NS_PER_MS)
