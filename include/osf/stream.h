/* SPDX-License-Identifier: MIT */
/*
 * osf/stream.h - a protocol that moves bytes itself, in user space
 *
 *     program  --send()-->  osf  --send-->  protocol  --osf_sock_notify()-->  osf
 *                            |                                                 |
 *                            +-- poll, epoll_wait, a blocking recv()  <--------+
 *
 * A protocol with a replacement (osf/proto.h) hands over a descriptor and is done.
 * A protocol with streams keeps each connection, and osf calls it for each of
 * the program's calls.  Such a protocol sets osf_proto.stream, and none of the
 * ops connect, listen and accept of struct osf_proto.
 *
 * The anchor.  The program's socket stays a kernel socket under the program's
 * own number.  It serves what osf cannot: an entry of an epoll set, a name in
 * /proc, a program without osf that inherits the descriptor.  A protocol may
 * connect it in the kernel to the listener that it wants to reach.  Then the
 * kernel's queue of arrivals notifies the other side, as a token does;
 * getpeername() and getsockname() work without the protocol; and to_kernel()
 * has a connection to fall back to.  No byte of the program's may go through
 * the anchor before to_kernel().
 *
 * osf does the following, so the protocol need not: blocking calls, their
 * timeouts, signals and cancellation; poll, select, epoll with edges and
 * EPOLLONESHOT; duplicates; SIGPIPE; errno; counters.  No op sleeps, except as
 * said at connect().
 *
 * Context.  Ops run in the program's threads.  For one connection at most one
 * of send() and shutdown() runs at a time, and at most one of recv() and
 * turn(); a send() and a recv() may run at once. events(), arm() and disarm()
 * may run beside all of them. close(), exit(), to_kernel() and the two of fork
 * run alone. osf holds the connection's locks for that.  So an op makes no call
 * of libc's on the program's own descriptor, and signals wait until it returns.
 * osf does not ask protocols about libc calls that an op makes.
 *
 * @conn is what the protocol made of the connection, in this process; osf does
 * not look at it.  @sk is osf's side of it; it is valid until close() or exit()
 * of the connection has returned, or to_kernel() has returned 0.
 *
 * The ABI grows at its end only, as that of struct osf_proto does: an op that
 * is NULL, or beyond size, is absent.  Required are connect or accept, send,
 * recv, events, arm and close.
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

/* Events of a connection, with the values of EPOLLIN and so on. */
enum osf_event {
	OSF_EVENT_IN = 0x001,  /* recv() returns bytes, the end or an error */
	OSF_EVENT_OUT = 0x004, /* send() takes at least one byte */
	OSF_EVENT_ERR =
	    0x008, /* error() has an error; IN and OUT are set too */
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
	 * osf asks in order of priority, before protocols that take over what
	 * the kernel has opened.  If @fd is blocking the op may sleep, at most
	 * for @timeout_ms.  Otherwise it returns -EINPROGRESS and decides
	 * later, in turn().  It notifies OSF_EVENT_OUT when the connection is
	 * open, or OSF_EVENT_ERR when it has failed: then osf calls error() and
	 * close(), and asks the next protocol.  The program sees only the
	 * result of the last one asked.
	 *
	 * Return: 0: open; -EINPROGRESS; any other -errno: the next is asked,
	 * the kernel last.  @fd must then be unchanged.
	 */
	int (*connect)(struct osf_sock *sk, uint64_t id, int fd,
		       const struct sockaddr *to, socklen_t len,
		       unsigned timeout_ms, void **conn);
	/**
	 * listen() - a socket has begun to listen in the kernel; serve it too
	 *
	 * Called again when the program calls listen() again, with the same
	 * @id.  Ends with osf_proto.close(@id).
	 *
	 * Return: 0, or -errno, which is logged.
	 */
	int (*listen)(uint64_t id, int fd, int backlog);
	/**
	 * accept() - is this arrival yours?
	 * @listener: the id of listen()
	 * @fd: what the kernel's accept() has returned; becomes the anchor
	 * @from, @len: in: where it came from; out: the peer for the program
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
	 * The vectors are the program's, which may reuse them after the call.
	 *
	 * Return: bytes taken, at least 1 if @iov has any; or
	 *   -EAGAIN      no room; osf arms OSF_EVENT_OUT before it sleeps
	 *   -EPIPE       shutdown(SHUT_WR) was called, or the peer is gone
	 *   -EOPNOTSUPP  the protocol does not support a flag: osf then omits
	 *                MSG_MORE and MSG_ZEROCOPY; MSG_OOB fails
	 *   others       as the kernel's send(); report each error once
	 */
	ssize_t (*send)(void *conn, const struct iovec *iov, size_t n,
			int flags);
	/**
	 * recv() - give bytes
	 * @flags: MSG_PEEK, MSG_TRUNC (discard the bytes); no others
	 *
	 * Return: bytes; 0 at the end of the stream, or for no room; or
	 *   -EAGAIN      nothing yet; osf arms OSF_EVENT_IN before it sleeps
	 *   others       as the kernel's recv(); report each error once
	 */
	ssize_t (*recv)(void *conn, const struct iovec *iov, size_t n,
			int flags);
	/* The OSF_EVENT_* that hold now.  Cheap: poll() asks each time. */
	unsigned (*events)(void *conn);
	/**
	 * arm() - a caller is about to sleep until one of @events is set
	 * @wait_fd: out: a descriptor that is readable when turn() has work to
	 *           do; stays -1 if osf_sock_notify() reports everything
	 *
	 * From now on until disarm() the protocol calls osf_sock_notify() for
	 * these events, at least once.  It first notes that, and then looks at
	 * the events, so that it misses none between a look and the sleep.
	 *
	 * Return: 0: sleep; 1: look again first.
	 */
	int (*arm)(void *conn, unsigned events, int *wait_fd);
	/* The last of those who slept is awake.  Optional: notifying costs then. */
	void (*disarm)(void *conn);

	/**
	 * turn() - run timers, receive what has arrived, send what is due
	 * @now_ns: CLOCK_MONOTONIC
	 *
	 * osf calls it at next_ns(), when wait_fd is readable, and when a call
	 * of the program's would sleep.  Optional.
	 */
	void (*turn)(void *conn, uint64_t now_ns);
	/* When turn() has work to do: CLOCK_MONOTONIC, UINT64_MAX for never.  A
	 * sleep ends then at the latest.  Optional. */
	uint64_t (*next_ns)(void *conn);

	/* @how: SHUT_RD, SHUT_WR or SHUT_RDWR.  0 or -errno, as the kernel's. */
	int (*shutdown)(void *conn, int how);
	/* SO_ERROR: the error that was not reported yet, as a positive number;
	 * this call reports it.  0: none. */
	int (*error)(void *conn);
	/**
	 * getsockopt(), setsockopt() - an option, where the protocol's answer
	 * counts
	 *
	 * Return: 0; -errno for the program; -EOPNOTSUPP, or the op is absent:
	 * the anchor has the option. osf itself answers for SO_ERROR and the
	 * timeouts.
	 */
	int (*getsockopt)(void *conn, int level, int name, void *val,
			  socklen_t *len);
	int (*setsockopt)(void *conn, int level, int name, const void *val,
			  socklen_t len);
	/* FIONREAD, SIOCOUTQ, SIOCATMARK.  0; -errno; -EOPNOTSUPP: the
	 * anchor's, which for the first two means 0. */
	int (*ioctl)(void *conn, unsigned long request, void *arg);
	/* getsockname(), or getpeername() with @peer.  0, or -errno for the
	 * program.  Absent: the anchor's names, which for @peer are those of
	 * its kernel connection. */
	int (*name)(void *conn, int peer, struct sockaddr_storage *out,
		    socklen_t *len);

	/**
	 * to_kernel() - fall back to the kernel's connection
	 * @fd: the anchor, with a kernel connection to the peer
	 *
	 * Called for what only the kernel can do: exec, SCM_RIGHTS, io_uring,
	 * an option.  All bytes sent before must arrive before what the kernel
	 * sends. recv() returns the unread bytes until it returns -ESTALE.  The
	 * peer's half falls back in the same way.
	 *
	 * Return: 0: @conn is gone; -EAGAIN: later, after a turn; -EOPNOTSUPP or
	 * absent: not possible; the caller goes without, or osf resets the
	 * connection.
	 */
	int (*to_kernel)(void *conn, int fd);
	/**
	 * fork(), after_fork() - around a fork of the process
	 * @is_child: in which of the two processes after_fork() runs
	 *
	 * osf calls fork() before the fork, for each connection.  0: the
	 * protocol lets both processes use the connection.  -EOPNOTSUPP, or
	 * absent: it stays the parent's; osf calls exit() for the child's
	 * copy, and the child's calls fail with -ECONNRESET.
	 */
	int (*fork)(void *conn);
	void (*after_fork)(void *conn, int is_child);

	/* The program closed its last descriptor of it.  Bytes already sent
	 * must still arrive; @linger_s: seconds that close() may take for that,
	 * -1 for none; 0: reset it. */
	void (*close)(void *conn, int linger_s);
	/* The process ends, or was never to have it: let go.  Absent: close(). */
	void (*exit)(void *conn);
};

/* The sizes that a struct osf_stream_ops has had. */
#define OSF_STREAM_SIZE_1 sizeof(struct osf_stream_ops)

/**
 * osf_sock_notify() - an event is set that may not have been set before
 * @events: OSF_EVENT_*; new data counts even if the event was set already, for
 *          edge-triggered sets.  0: next_ns() has become earlier
 *
 * Wakes whoever sleeps for it.  Cheap if nobody does.  Weak, so that a module
 * that works without streams loads in an osf that lacks them.
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
