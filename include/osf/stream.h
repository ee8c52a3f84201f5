/* SPDX-License-Identifier: MIT */
/*
 * osf/stream.h - a protocol that moves bytes itself, in user space
 *
 *     program  --send()-->  osf  --send-->  protocol  --osf_sock_notify()-->  osf
 *                            |                                                 |
 *                            +-- poll, epoll_wait, a blocking recv()  <--------+
 *
 * A protocol with a carrier (osf/proto.h) hands over a descriptor and is out of the
 * way.  A protocol with streams keeps each connection, and osf calls it for each of
 * the program's calls.  Such a protocol sets osf_proto.stream, and none of the
 * ops connect, listen and accept of struct osf_proto.
 *
 * The anchor.  The program's socket stays the kernel socket that it is, under the
 * program's own number.  It is what osf could not answer for otherwise: an entry of
 * an epoll set, a name in /proc, what a program without osf inherits.  A protocol may
 * connect it in the kernel, to the listener that it wants to reach.  Then the kernel's
 * queue of arrivals tells the other side, as a token does, getpeername() and
 * getsockname() need no answer of the protocol's, and to_kernel() has somewhere to go.
 * No byte of the program's may pass through the anchor before to_kernel().
 *
 * What osf does, and the protocol need not: blocking calls, their timeouts, signals and
 * cancellation; poll, select, epoll with edges and EPOLLONESHOT; duplicates; SIGPIPE;
 * errno; counters.  No op sleeps, except as said at connect().
 *
 * Context.  Ops run in the program's threads.  For one connection at most one of
 * send() and shutdown() runs at a time, and at most one of recv() and turn(); a send()
 * and a recv() may run at once.  events(), arm() and disarm() may run beside all of
 * them.  close(), exit(), to_kernel() and the two of fork run alone.  osf has the
 * connection's locks for that, so an op makes no call of libc's on the program's own
 * descriptor, and signals wait until it is over.  What an op calls of libc is not asked
 * of protocols again.
 *
 * @conn is what the protocol made of the connection, in this process; osf does not look
 * at it.  @sk is osf's side of it; it is valid until close() or exit() of the connection
 * has returned, or to_kernel() has returned 0.
 *
 * The ABI grows at its end only, as that of struct osf_proto does: an op that is NULL,
 * or beyond size, is absent.  Required are connect or accept, send, recv, events, arm
 * and close.
 */
#ifndef OSF_STREAM_H
#define OSF_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct osf_sock;

/* What a connection is ready for: the values of EPOLLIN and so on. */
enum osf_event {
	OSF_EVENT_IN = 0x001,  /* recv() returns bytes, the end or an error */
	OSF_EVENT_OUT = 0x004, /* send() takes at least one byte */
	OSF_EVENT_ERR =
	    0x008, /* an error waits to be told; with it IN and OUT */
	OSF_EVENT_HUP = 0x010,   /* both directions are at their end */
	OSF_EVENT_RDHUP = 0x2000 /* the peer will send no more */
};

struct osf_stream_ops {
	uint32_t size; /* sizeof(struct osf_stream_ops) of who compiled it */
	uint32_t reserved; /* 0 */
	uint64_t
	    comp_mask; /* what osf must know to serve this: no bits so far */

	/**
	 * connect() - open a connection
	 * @id, @fd: as in struct osf_proto; @fd becomes the anchor
	 * @to: an address that caps say can be reached
	 * @timeout_ms: milliseconds within which to decide
	 * @conn: out, for 0 and -EINPROGRESS
	 *
	 * Asked in the order of priority, before protocols that take over what
	 * the kernel has opened.  Where @fd is blocking the op may sleep, but no
	 * longer than @timeout_ms.  Otherwise it returns -EINPROGRESS, and decides
	 * later, in turn(); it notifies of OSF_EVENT_OUT when the connection is
	 * open, and of OSF_EVENT_ERR when it is not to be: then osf calls error()
	 * and close(), and asks the next.  The program is told once, of the
	 * outcome of the last that was asked.
	 *
	 * Return: 0: open; -EINPROGRESS; any other -errno: the next is asked, and
	 * the kernel is the last.  @fd must then be as it was.
	 */
	int (*connect)(struct osf_sock *sk, uint64_t id, int fd,
		       const struct sockaddr *to, socklen_t len,
		       unsigned timeout_ms, void **conn);
	/**
	 * listen() - a socket has begun to listen in the kernel; serve it too
	 *
	 * Again when the program calls listen() again, with @listener as it was
	 * left.  Ends with osf_proto.close(@id).
	 *
	 * Return: 0, or -errno, which is logged.
	 */
	int (*listen)(uint64_t id, int fd, int backlog);
	/**
	 * accept() - did this arrival come to be yours?
	 * @listener: the id of listen()
	 * @fd: what the kernel's accept() has returned; becomes the anchor
	 * @from, @len: in: where it came from; out: whom the program is told of
	 * @conn: out, for 0
	 *
	 * Return: 0; -EAGAIN: not mine; -ECONNABORTED: mine, and gone: the
	 * program's accept() goes on waiting.
	 */
	int (*accept)(uint64_t listener, struct osf_sock *sk, uint64_t id,
		      int fd, struct sockaddr_storage *from, socklen_t *len,
		      void **conn);

	/**
	 * send() - take bytes
	 * @flags: MSG_MORE, MSG_OOB, MSG_ZEROCOPY; no others
	 *
	 * The vectors are the program's, and free for reuse afterwards.
	 *
	 * Return: bytes taken, at least 1 if @iov has any; or
	 *   -EAGAIN      no room; osf arms OSF_EVENT_OUT before it sleeps
	 *   -EPIPE       shutdown(SHUT_WR) was called, or the peer is gone
	 *   -EOPNOTSUPP  a flag that the protocol has no meaning for: of MSG_MORE
	 *                and MSG_ZEROCOPY osf then does without; MSG_OOB fails
	 *   others       as the kernel's send() returns, each told once
	 */
	ssize_t (*send)(void *conn, const struct iovec *iov, size_t n,
			int flags);
	/**
	 * recv() - give bytes
	 * @flags: MSG_PEEK, MSG_TRUNC (drop what is not wanted); no others
	 *
	 * Return: bytes; 0 at the end of the stream, or for no room; or
	 *   -EAGAIN      nothing yet; osf arms OSF_EVENT_IN before it sleeps
	 *   others       as the kernel's recv() returns, each told once
	 */
	ssize_t (*recv)(void *conn, const struct iovec *iov, size_t n,
			int flags);
	/* The OSF_EVENT_* that hold now.  Cheap: poll() asks each time. */
	unsigned (*events)(void *conn);
	/**
	 * arm() - somebody is about to sleep until one of @events holds
	 * @wait_fd: out: a descriptor that is readable when turn() has something
	 *           to do; stays -1 where osf_sock_notify() tells of everything
	 *
	 * From now on the protocol calls osf_sock_notify() for these events, once
	 * at least, until disarm().  It looks at the events after it has noted
	 * that, so that none is missed between a look and the sleep.
	 *
	 * Return: 0: sleep; 1: look again first.
	 */
	int (*arm)(void *conn, unsigned events, int *wait_fd);
	/* The last of those who slept is awake.  Optional: notifying costs then. */
	void (*disarm)(void *conn);

	/**
	 * turn() - do what is due: timers, what has come in, what is to go out
	 * @now_ns: CLOCK_MONOTONIC
	 *
	 * Called at next_ns(), when wait_fd is readable, and when a call of the
	 * program's would sleep.  Optional.
	 */
	void (*turn)(void *conn, uint64_t now_ns);
	/* When turn() has something to do: CLOCK_MONOTONIC, UINT64_MAX for never.
	 * Who sleeps, sleeps no longer.  Optional. */
	uint64_t (*next_ns)(void *conn);

	/* @how: SHUT_RD, SHUT_WR or SHUT_RDWR.  0 or -errno, as the kernel's. */
	int (*shutdown)(void *conn, int how);
	/* SO_ERROR: the error that nobody was told of, as a positive number, which
	 * is told hereby; 0: none. */
	int (*error)(void *conn);
	/**
	 * getsockopt(), setsockopt() - an option, where the protocol's answer counts
	 *
	 * Return: 0; -errno for the program; -EOPNOTSUPP: it is the anchor's, and
	 * stays so if the op is absent.  osf itself answers for SO_ERROR and the
	 * timeouts.
	 */
	int (*getsockopt)(void *conn, int level, int name, void *val,
			  socklen_t *len);
	int (*setsockopt)(void *conn, int level, int name, const void *val,
			  socklen_t len);
	/* FIONREAD, SIOCOUTQ, SIOCATMARK.  0; -errno; -EOPNOTSUPP: the anchor's,
	 * which for the first two means 0. */
	int (*ioctl)(void *conn, unsigned long request, void *arg);
	/* getsockname(), or getpeername() with @peer.  0, or -errno for the
	 * program.  Absent: the anchor's names, which for @peer are those of its
	 * kernel connection. */
	int (*name)(void *conn, int peer, struct sockaddr_storage *out,
		    socklen_t *len);

	/**
	 * to_kernel() - give the connection back to the kernel
	 * @fd: the anchor, with a kernel connection to the peer
	 *
	 * For what only the kernel can go on with: exec, SCM_RIGHTS, io_uring,
	 * an option.  All that was sent before arrives before what the kernel
	 * sends; what was not read yet is given back by recv() until that returns
	 * -ESTALE.  The peer's half comes after the same way.
	 *
	 * Return: 0: @conn is gone; -EAGAIN: later, after a turn; -EOPNOTSUPP or
	 * absent: it cannot, and what asked for it goes without, or the connection
	 * is reset.
	 */
	int (*to_kernel)(void *conn, int fd);
	/**
	 * fork(), after_fork() - around a fork of the process
	 * @is_child: which of the two it is called in
	 *
	 * fork() is called before, for each connection.  0: both processes have the
	 * connection, and the protocol sees to it that they may.  -EOPNOTSUPP, or
	 * absent: it stays the parent's; calls of the child's fail with
	 * -ECONNRESET, after the child's copy has had exit().
	 */
	int (*fork)(void *conn);
	void (*after_fork)(void *conn, int is_child);

	/* The program's last descriptor of it is closed.  What was sent is still to
	 * arrive; @linger_s: seconds that close() may take for that, -1 for none;
	 * 0: reset it. */
	void (*close)(void *conn, int linger_s);
	/* The process ends, or was never to have it: let go.  Absent: close(). */
	void (*exit)(void *conn);
};

/* The sizes that a struct osf_stream_ops has had. */
#define OSF_STREAM_SIZE_1 sizeof(struct osf_stream_ops)

/**
 * osf_sock_notify() - something holds that may not have held before
 * @events: OSF_EVENT_*; news of what held already counts, for edge-triggered sets.
 *          0: next_ns() has become earlier
 *
 * Wakes whoever sleeps for it.  Cheap where nobody does.  Weak, so that a module that
 * can do without streams loads in an osf that lacks them.
 *
 * Context: any thread of the process, inside an op or not, with any lock of the
 * protocol's that its ops do not take.
 */
#ifdef __GNUC__
__attribute__((weak))
#endif
void osf_sock_notify(struct osf_sock *sk, unsigned events);

#ifdef __cplusplus
}
#endif

#endif
