/* SPDX-License-Identifier: MIT */
/*
 * sock/sock_ops.h - the interface of a protocol: what it does for a socket
 *
 *     preload, file, group, api -> sock_ops(sk)->send(sk, ...) -> a protocol
 *
 * Each mode has its own table, not each protocol: a young connection of the
 * kernel has a different table than a connection that stays there.  So callers
 * call through the table and never compare modes.  To change the mode is to
 * change the table, under both locks of the socket.  If a call finds that the
 * socket has got another table meanwhile, it returns -ESTALE, and its caller
 * looks the table up and calls again.
 *
 * struct sock stores the table as a number (enum sock_mode), and the lookup
 * masks it: any number leads to a table.
 *
 * Every function gets @fd, a descriptor of the anchor, the kernel's socket
 * below.  All return a negative errno on failure and do not change errno.  If
 * is_ours is set, none sleeps.  Otherwise recv and send sleep as the kernel's
 * calls do, and wait for nothing else.
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
	/* It lives in this process alone.  It calls sock_notify() for all that
	 * comes, so who sleeps opens a watch; and it falls back before a fork.
	 */
	bool in_process;

	/*
	 * Bytes.  The caller handles MSG_DONTWAIT, errno, SIGPIPE, and counts
	 * calls.  Return the bytes moved, 0 at the end of the stream, or
	 *   -EAGAIN      nothing now: see is_ready()
	 *   -ESTALE      the socket has another table
	 *   -ECONNRESET  and others that end a connection, each reported once
	 */
	ssize_t (*recv)(struct sock *sk, int fd, const struct iovec *iov,
			size_t n, int flags);
	/* What lies there as one piece, without a look at what follows, which the
	 * peer may be writing just now.  0: call recv().  NULL: as that. */
	ssize_t (*recv_one)(struct sock *sk, int fd, void *to, size_t max);
	ssize_t (*send)(struct sock *sk, int fd, const struct iovec *iov,
			size_t n, int flags);
	/* sendfile(): at most @n bytes of @in, from *@off or its position. */
	ssize_t (*send_file)(struct sock *sk, int fd, int in, off_t *off,
			     size_t n);
	/*
	 * The same with what only the kernel has: control messages, urgent
	 * bytes, an address.  They may sleep, whoever carries the stream.
	 * -EOPNOTSUPP: the kernel knows nothing about these bytes; call
	 * recv().
	 */
	ssize_t (*recvmsg)(struct sock *sk, int fd, struct msghdr *msg,
			   int flags);
	ssize_t (*sendmsg)(struct sock *sk, int fd, const struct msghdr *msg,
			   int flags);
	/* A call has moved bytes, and the next call must fail with @err. */
	void (*error_later)(struct sock *sk, int err);

	/*
	 * Waiting, if is_ours is set: see sock/wait.h.  May a call that got
	 * -EAGAIN continue?  1: yes; 0: not yet; -1: only sleeping can tell.
	 * Callers ask this again and again, so it takes no lock and makes no
	 * system call.
	 */
	int (*is_ready)(struct sock *sk, int dir);
	/* Sleep until it may.  0: look again; -EINTR; -EAGAIN: timeout; or the
	 * connection's error.  NULL: as poll() does, see wait_asleep(). */
	int (*sleep)(struct sock *sk, int fd, const struct call_wait *w);

	/*
	 * If is_ours is not set: a call of libc's that has no operation here
	 * is made between enter(), which returns 0 or -ESTALE, and leave(),
	 * which learns what the call moved.
	 */
	int (*enter)(struct sock *sk);
	void (*leave)(struct sock *sk, int dir, ssize_t n);
	/* Before a send or after a receive: may another table serve better, so
	 * that ops_advance() is worth its cost? */
	bool (*is_due)(const struct sock *sk, int dir);

	/* FIONREAD and SIOCOUTQ: bytes, or -errno. */
	int (*inq)(struct sock *sk, int fd);
	int (*outq)(struct sock *sk, int fd);
	/* Bytes that a send takes now without a wait, or fewer.  0, or NULL: it may take none. */
	size_t (*room)(struct sock *sk, int fd);

	/* The POLL* bits that hold now. */
	unsigned (*events)(struct sock *sk, int fd);
	/* The same, after asking the kernel if the connection has ended: one
	 * system call. */
	unsigned (*events_now)(struct sock *sk, int fd);
	/*
	 * Readiness: see sock/ready.h.
	 */
	/* Readiness is the protocol's own; callers must also check the anchor
	 * for the end. */
	bool own_events;
	/* Another thread may change its table at any time; another thread is
	 * doing so. */
	bool may_move, is_moving;
	/* @w was just opened.  w->is_notified tells the result: from now on the
	 * protocol notifies its set of everything, or only the anchor reports
	 * news. */
	void (*watch)(struct sock *sk, struct watch *w);
	/* Notify @w's set of the next of @events, POLLIN and POLLOUT.  NULL:
	 * wake whoever sleeps on what sleep_on() says.  Before it sleeps, the
	 * caller checks events() once more.  True: @w is notified of each
	 * arrival.  False: to find an edge, the caller may have to count
	 * bytes. */
	bool (*arm)(struct sock *sk, int fd, unsigned events,
		    const struct watch *w);
	/*
	 * The same of POLLIN for a thread that also sleeps on its bell
	 * (base/bell.h), and is the only one to sleep on this socket.  False,
	 * or NULL: nobody would ring it, so call arm().  After its sleep the
	 * thread calls disarm_bell().
	 */
	bool (*arm_bell)(struct sock *sk, int fd);
	void (*disarm_bell)(struct sock *sk);
	/* @p holds what the program asked for; replace it by what a thread
	 * sleeps on. */
	void (*sleep_on)(struct sock *sk, struct pollfd *p);
	/* The kernel has reported POLL* bits of the anchor.  True: they are
	 * news.  False: they are only a doorbell, whose news the set gets in
	 * another way.  EPOLLET: the set reports only
	 * what is new, so the protocol reads the doorbell even if the program
	 * has not read all bytes. */
	bool (*anchor_event)(struct sock *sk, int fd, unsigned events,
			     const struct watch *w);
	/* Does the anchor hold something unread of the protocol's own?  Remove
	 * it; the caller holds the rx lock: see sock/anchor.h. */
	bool (*is_rung)(const struct sock *sk);
	void (*drain)(struct sock *sk, int fd);
	/* It does not, and yet the anchor may have woken somebody; the caller holds no
	 * lock.  NULL: that is nothing to look into. */
	void (*not_rung)(struct sock *sk, int fd);

	/* The time when events() may change without a notification;
	 * UINT64_MAX: never. */
	uint64_t (*next_ns)(struct sock *sk);

	/* The protocol's own answers.  NULL, or -EOPNOTSUPP: the anchor has
	 * them. */
	int (*getsockopt)(struct sock *sk, int level, int name, void *val,
			  socklen_t *len);
	int (*setsockopt)(struct sock *sk, int fd, int level, int name,
			  const void *val, socklen_t len);
	/* getsockname(), or getpeername() with @peer. */
	int (*name_of)(struct sock *sk, bool peer, struct sockaddr_storage *out,
		       socklen_t *len);
	/* connect() of a socket that is connected. */
	int (*connect)(struct sock *sk, int fd, const struct sockaddr *to,
		       socklen_t len);

	/*
	 * If is_ours is set, these complete the kernel's answer about options,
	 * names and marks.  Otherwise they do nothing, and so_error() is -1.
	 *
	 * An option of sock/opt.h was set, or SIGIO was asked for.  True: do not
	 * tell the anchor.
	 */
	bool (*opt_changed)(struct sock *sk, int fd, int level, int name);
	void (*async_changed)(struct sock *sk, int fd);
	/* Complete the kernel's answer for the anchor, @len bytes of a struct
	 * tcp_info. */
	void (*tcp_info)(struct sock *sk, int fd, void *info, size_t len);
	/* SO_ERROR: positive, reported once; -1: the kernel knows. */
	int (*so_error)(struct sock *sk, int fd);
	/* Has the stream ended both ways, so that the kernel would close its
	 * socket? */
	bool (*is_over)(const struct sock *sk);
	/* SIOCATMARK: is there something to read before the anchor's next
	 * byte? */
	bool (*is_before_mark)(struct sock *sk, int fd);

	/* connect(AF_UNSPEC): disconnect. */
	int (*disconnect)(struct sock *sk, int fd, const struct sockaddr *addr,
			  socklen_t len);
	int (*shutdown)(struct sock *sk, int fd, int how);
	/* The last process that holds the socket closes it, or ends without
	 * closing. */
	void (*close)(struct sock *sk, int fd);
	void (*exit)(struct sock *sk, int fd);
	/* A child is about to hold the socket, too. */
	void (*before_fork)(struct sock *sk);
	/* In the child, for a socket that it has inherited. */
	void (*after_fork)(struct sock *sk);
	/*
	 * For sockets that several processes hold (sock/shared.h), with the
	 * half's lock: export what the next process must know, at most
	 * HALF_BYTES, to memory that all of them may write; and import it from
	 * there.  Import checks: it returns -EPROTO, and takes nothing, if a
	 * value is impossible.  NULL: there is nothing.
	 */
	void (*export)(const struct sock *sk, enum sock_half half, void *to);
	int (*import)(struct sock *sk, enum sock_half half, const void *from);
	/* A process has died while only its count of what went through the anchor was
	 * not exported.  The caller has both halves.  Ask the kernel, and correct the
	 * count; false: that does not work out. */
	bool (*repair)(struct sock *sk, int fd);
	/* What they share cannot be used any more: the connection ends, and is
	 * reset as soon as a call has the descriptor.  NULL: nothing is lost. */
	void (*lost)(struct sock *sk, const char *why);
	/* The other processes that held it have gone. */
	void (*alone)(struct sock *sk);
	/* A call is over: do what the peer has asked for meanwhile. */
	void (*sync)(struct sock *sk, int fd);
	/* From now on the program's calls go to the kernel without us. */
	void (*passthrough)(struct sock *sk, int fd);
	/* The anchor was @from and is @to now; both may still be open. */
	void (*anchor_moved)(struct sock *sk, int from, int to);
	/* The connection cannot be saved: reset it, for @why. */
	void (*reset)(struct sock *sk, int fd, const char *why);

	/*
	 * Reading and sending in place; NULL: not supported.
	 */
	const struct lend_ops *lend; /* sock/lend.h */

	/*
	 * Fall back to the kernel, for @why, or stay there.  What the program
	 * has not read stays readable; later calls finish the fallback.
	 * -EAGAIN: it has not begun, and will by itself, because another process
	 * has stopped inside a call.  recv()'s wait ends then.
	 */
	int (*fallback)(struct sock *sk, int fd, enum osf_reason why);
	/* The same at once, for a holder that knows nothing of us: see
	 * proto/shm/fallback.c.  -EBUSY: another process has stopped inside a call on the
	 * connection, and only a relay can wait for it. */
	int (*fallback_now)(struct sock *sk, int fd, enum osf_reason why,
			    bool gently, struct stash *stash);
	/* In that relay, which is a process of its own: wait until that process goes on or
	 * ends, then do the same. */
	int (*fallback_late)(struct sock *sk, int fd, enum osf_reason why,
			     struct stash *stash);
	/* After that: nothing is left to read here, so libc serves it. */
	void (*retire)(struct sock *sk);
};

/* As many as the mask of sock_ops() allows; src/ops fills them in. */
#define SOCK_TABLES SOCK_MODES
extern const struct sock_ops *const sock_tables[SOCK_TABLES];

static inline const struct sock_ops *sock_ops(const struct sock *sk)
{
	return sock_tables[load_acq(&sk->state) >> SOCK_COUNT_BITS &
			   (SOCK_TABLES - 1)];
}

/* Wait until no thread is changing its table; that takes microseconds. */
static inline void sock_await_move(struct sock *sk)
{
	while (sock_ops(sk)->is_moving)
		sock_moving(sk);
}

/* For a call of libc's that has no operation: keep the returned table until
 * its leave().  NULL: the socket is ours, and nothing is kept. */
static inline const struct sock_ops *sock_keep_table(struct sock *sk)
{
	for (;;) {
		const struct sock_ops *ops = sock_ops(sk);

		if (ops->is_ours)
			return NULL;
		if (!ops->enter(sk))
			return ops;
	}
}

/* Does the kernel move its bytes, and may another protocol still take over? */
static inline bool sock_is_young(const struct sock *sk)
{
	const struct sock_ops *ops = sock_ops(sk);

	return ops->may_move && !ops->is_moving;
}

/* Do we move its bytes? */
static inline bool sock_is_ours(const struct sock *sk)
{
	return sock_ops(sk)->is_ours;
}
