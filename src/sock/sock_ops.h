/* SPDX-License-Identifier: MIT */
/*
 * sock/sock_ops.h - the seam: what a protocol does for a socket
 *
 *     preload, file, group, api  ->  sock_ops(sk)->send(sk, ...)  ->  a protocol
 *
 * There is one table for each state of movement, and not for each protocol: a young
 * connection of the kernel's has another one than a connection that stays there.  So a
 * caller calls through the table, and compares no states.  A change of state is a change
 * of table; it is made under both locks of the socket.  Where a call finds in the end
 * that the socket has got another table meanwhile, it returns -ESTALE, and its caller
 * looks the table up and calls again.
 *
 * The table stands in struct sock as a number (enum sock_mode), which is looked up with a
 * mask: processes that share a socket by fork write this number, and it leads to a table
 * whatever it is.
 *
 * Every function gets @fd, a descriptor of the anchor, the kernel's socket underneath.
 * All return a negative errno on failure, and leave errno alone.  None sleeps if
 * is_ours is set; otherwise recv and send sleep as the kernel's calls do, and that is
 * all they wait for.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "sock/ready.h"
#include "sock/sock.h"
#include "sock/stash.h"

struct lend_ops;
struct call_wait;

struct sock_ops {
	const char *name; /* for people */
	bool
	    is_ours; /* its bytes move without the kernel's send() and recv() */

	/*
	 * Bytes.  MSG_DONTWAIT is for who calls; so are errno, SIGPIPE, and counts
	 * of calls.  Bytes moved, 0 at the end of the stream, or
	 *   -EAGAIN      nothing now: see is_ready()
	 *   -ESTALE      the socket has another table
	 *   -ECONNRESET  and others that end a connection, each told once
	 */
	ssize_t (*recv)(struct sock *sk, int fd, const struct iovec *iov,
			size_t n, int flags);
	ssize_t (*send)(struct sock *sk, int fd, const struct iovec *iov,
			size_t n, int flags);
	/* sendfile(): @n bytes of @in at most, at *@off or where it stands. */
	ssize_t (*send_file)(struct sock *sk, int fd, int in, off_t *off,
			     size_t n);
	/*
	 * The same with what only the kernel has: control messages, urgent bytes, an
	 * address.  They may sleep, whoever carries the stream.  -EOPNOTSUPP: what
	 * comes is not the kernel's to tell of; take the bytes alone.
	 */
	ssize_t (*recvmsg)(struct sock *sk, int fd, struct msghdr *msg,
			   int flags);
	ssize_t (*sendmsg)(struct sock *sk, int fd, const struct msghdr *msg,
			   int flags);
	/* A call has moved bytes, and the next is to fail with @err. */
	void (*error_later)(struct sock *sk, int err);

	/*
	 * Waiting, where is_ours is set: see sock/wait.h.  May a call go on that was
	 * told -EAGAIN?  1: yes; 0: not yet; -1: one has to sleep to know.  It is asked
	 * again and again, so it locks nothing, and makes no call.
	 */
	int (*is_ready)(struct sock *sk, int dir);
	/* Sleep until it may.  0: look again; -EINTR; -EAGAIN: time is over; or the
	 * connection's error. */
	int (*sleep)(struct sock *sk, int fd, const struct call_wait *w);

	/*
	 * Where is_ours is not set: a call of libc's that has no operation here is made
	 * between enter(), 0 or -ESTALE, and leave(), which is told what it moved.
	 */
	int (*enter)(struct sock *sk);
	void (*leave)(struct sock *sk, int dir, ssize_t n);
	/* Before a send, or after a receive: may another table serve better, so that a
	 * look (ops_look()) is worth its price? */
	bool (*is_due)(const struct sock *sk, int dir);
	/* A call of libc's has told the peer something: sent, shut, closed.  News that
	 * peers get by other ways comes after it. */
	void (*went_past)(void);

	/* FIONREAD and SIOCOUTQ: bytes, or -errno. */
	int (*inq)(struct sock *sk, int fd);
	int (*outq)(struct sock *sk, int fd);

	/* The POLL* bits that hold now. */
	unsigned (*events)(struct sock *sk, int fd);
	/* The same, having asked the kernel underneath whether the connection has ended:
	 * a call of the kernel's. */
	unsigned (*look)(struct sock *sk, int fd);
	/*
	 * Readiness: see sock/ready.h.
	 */
	/* It is not the anchor's, whose end has to be looked for besides. */
	bool own_events;
	/* Another thread may give it another table at any time; it is at it. */
	bool may_move, is_moving;
	/* @w was opened just now.  w->is_told tells the result: from now on its set is
	 * told of all that comes, or the anchor alone tells. */
	void (*watch)(struct sock *sk, struct watch *w);
	/* Tell @w's set of the next of @events, POLLIN and POLLOUT; NULL: end the sleep
	 * of whoever sleeps on what sleep_on() says.  The caller looks at events() once
	 * more before it sleeps.  True: @w is told of each arrival; else an edge may
	 * have to be found by counting bytes. */
	bool (*arm)(struct sock *sk, int fd, unsigned events,
		    const struct watch *w);
	/*
	 * The same of POLLIN for a thread that sleeps on its bell (base/bell.h) besides,
	 * and is alone in sleeping on this socket.  False, or NULL: nobody would ring
	 * it, so arm().  It takes the bell back when it has slept.
	 */
	bool (*arm_bell)(struct sock *sk, int fd);
	void (*disarm_bell)(struct sock *sk);
	/* @p asks for what the program asked; make it what a thread sleeps on. */
	void (*sleep_on)(struct sock *sk, struct pollfd *p);
	/* The kernel has reported POLL* bits of the anchor.  True: that is news, and no
	 * doorbell beside news that a set is told of. */
	bool (*hint)(struct sock *sk, int fd, unsigned events,
		     const struct watch *w);
	/* Is something of the protocol's own unread in the anchor?  Take it out; the
	 * caller holds the rx lock: see sock/anchor.h. */
	bool (*is_rung)(const struct sock *sk);
	void (*drain)(struct sock *sk, int fd);

	/* When events() may say more though nobody notifies: an instant, UINT64_MAX
	 * for never. */
	uint64_t (*next_ns)(struct sock *sk);

	/*
	 * Where is_ours is set, and the kernel's answer is not the whole: options,
	 * names, marks.  Otherwise they do nothing, and so_error() is -1.
	 *
	 * An option of sock/opt.h was set, or SOCK_F_ASYNC was.  True: the anchor is
	 * not to know.
	 */
	bool (*opt_changed)(struct sock *sk, int fd, int level, int name);
	void (*async_changed)(struct sock *sk, int fd);
	/* Add to what the kernel says of the anchor, @len bytes of a struct tcp_info. */
	void (*tcp_info)(struct sock *sk, int fd, void *info, size_t len);
	/* SO_ERROR: told once, positive; -1: the kernel knows. */
	int (*so_error)(struct sock *sk, int fd);
	/* Has the stream ended both ways, so that the kernel's socket would be closed? */
	bool (*is_over)(const struct sock *sk);
	/* SIOCATMARK: is there, before the anchor's next byte, something to read? */
	bool (*is_before_mark)(struct sock *sk, int fd);

	/* connect(AF_UNSPEC): the connection is taken apart. */
	int (*disconnect)(struct sock *sk, int fd, const struct sockaddr *addr,
			  socklen_t len);
	int (*shutdown)(struct sock *sk, int fd, int how);
	/* The last process that holds it closes it, or ends without closing. */
	void (*close)(struct sock *sk, int fd);
	void (*exit)(struct sock *sk, int fd);
	/* In the child, for a socket that it has inherited. */
	void (*after_fork)(struct sock *sk);
	/*
	 * For sockets that several processes hold (sock/shared.h): what the next one
	 * has to know, into memory that all of them may write, at most
	 * SHARED_CONN_BYTES of it, and from there.  To import is to check: -EPROTO
	 * when it is impossible, and then nothing was taken.  NULL: there is nothing.
	 */
	void (*export)(const struct sock *sk, void *shared);
	int (*import)(struct sock *sk, const void *shared);
	/* The other processes that held it are gone. */
	void (*alone)(struct sock *sk);
	/* A call is over: do what the peer has asked for meanwhile. */
	void (*settle)(struct sock *sk, int fd);
	/* The program's calls go past us from now on. */
	void (*passed)(struct sock *sk, int fd);
	/* What was anchor @from is @to now; both may still be open. */
	void (*anchor_moved)(struct sock *sk, int from, int to);
	/* Reset the connection, for @why, as one that cannot be saved. */
	void (*reset)(struct sock *sk, int fd, const char *why);

	/*
	 * Bytes where they lie; NULL: it lends none, and takes none.
	 */
	const struct lend_ops *lend; /* sock/lend.h */

	/*
	 * Give the connection back to the kernel, for @why, or leave it there.  What the
	 * program has not read stays readable; the rest of the way is gone in later
	 * calls.
	 */
	void (*fallback)(struct sock *sk, int fd, enum osf_reason why);
	/* The same at once, for somebody who knows nothing of us: see
	 * proto/shm/recall.c. */
	int (*fallback_now)(struct sock *sk, int fd, enum osf_reason why,
			    bool gently, struct stash *stash);
	/* After that: nothing is to be read here any more, so that libc serves it. */
	void (*retire)(struct sock *sk);
};

/* As many as the mask of sock_ops() lets through; src/ops fills them in. */
#define SOCK_TABLES (2 * SOCK_MODES)
extern const struct sock_ops *const sock_tables[SOCK_TABLES];

static inline const struct sock_ops *sock_ops(const struct sock *sk)
{
	return sock_tables[load_acq(&sk->state) >> SOCK_COUNT_BITS &
			   (SOCK_TABLES - 1)];
}

/* Until no thread is giving it another table any more; that takes microseconds. */
static inline void sock_await_move(const struct sock *sk)
{
	while (sock_ops(sk)->is_moving)
		cpu_relax();
}

/* For a call of libc's that has no operation: @sk has the table that is returned until
 * its leave().  NULL: it is ours, and not held. */
static inline const struct sock_ops *sock_hold_still(struct sock *sk)
{
	for (;;) {
		const struct sock_ops *ops = sock_ops(sk);

		if (ops->is_ours)
			return NULL;
		if (!ops->enter(sk))
			return ops;
	}
}

/* Is it for us to move its bytes? */
static inline bool sock_is_ours(const struct sock *sk)
{
	return sock_ops(sk)->is_ours;
}
