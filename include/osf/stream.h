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
 * the anchor before to_kernel().  For a protocol whose two ends are in one
 * process osf does all of this, and finds the listener: see pair().
 *
 * osf does the following, so the protocol need not: blocking calls, their
 * timeouts, signals and cancellation; poll, select, epoll with edges and
 * EPOLLONESHOT; duplicates; SIGPIPE; errno; MSG_PEEK, MSG_TRUNC, MSG_WAITALL,
 * SO_RCVLOWAT, FIONREAD; what a call may do after shutdown(), after an error
 * and during a fallback; that an error is reported once; sendfile() and
 * splice(); completions of MSG_ZEROCOPY.  No op sleeps, except as said at
 * connect().
 *
 * Context.  Ops run in the program's threads.  For one connection at most one
 * of send() and shutdown() runs at a time, and at most one of recv() and
 * turn(); a send() and a recv() may run at once.  events(), next_ns() and arm()
 * may run beside all of them.  close(), exit() and to_kernel() run alone.  osf
 * holds the connection's locks for that.  So an op makes no call of libc's on
 * the program's own descriptor, and signals wait until it returns.  osf does
 * not ask protocols about libc calls that an op makes.  A protocol whose
 * connections share state may set OSF_STREAM_SERIAL: then only one of its ops
 * runs at a time, and none during a fork.
 *
 * Processes.  A connection belongs to the process that opened or accepted it.
 * Before a fork, and before another process gets the descriptor (SCM_RIGHTS,
 * exec), osf calls to_kernel().  Where that is not possible, a fork leaves the
 * connection to the parent: osf calls exit() for the child's copy, and the
 * child's calls fail with ECONNRESET.  A listener that a fork shares is served
 * no longer: osf calls osf_proto.close() with its id.
 *
 * @conn is what the protocol made of the connection, in this process; osf does
 * not look at it.  @sk is osf's side of it; it is valid until close() or exit()
 * of the connection has returned.
 *
 * The ABI grows at its end only, as that of struct osf_proto does: an op that
 * is NULL, or beyond size, is absent.  Required are send, recv, events and
 * close, and one of pair, connect and accept.
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

/* Events of a connection, most with the values of EPOLLIN and so on. */
enum osf_event {
	OSF_EVENT_IN = 0x001,     /* recv() returns bytes, or the end */
	OSF_EVENT_OUT = 0x004,    /* send() takes at least one byte, or fails */
	OSF_EVENT_RDHUP = 0x2000, /* the peer will send no more */
	/* The peer falls back to the kernel: for osf_sock_notify() alone. */
	OSF_EVENT_BACK = 0x4000
};

/* Bits of comp_mask. */
#define OSF_STREAM_SERIAL UINT64_C(1) /* one op at a time */

struct osf_stream_ops {
	uint32_t size; /* sizeof(struct osf_stream_ops) of who compiled it */
	uint32_t reserved;  /* 0 */
	uint64_t comp_mask; /* what osf must know to serve this: OSF_STREAM_* */

	/**
	 * pair() - open a connection whose two ends are in this process
	 * @a: the end that connects; @b: the one that will be accepted
	 * @conn_a, @conn_b: out, for 0
	 *
	 * In place of connect, listen and accept.  osf asks for connections to
	 * listeners of the process, and connects the anchors.  Until @b is
	 * accepted, osf calls none of its ops, except recv() and close() if @a
	 * falls back or the listener closes.
	 *
	 * Return: 0; or -errno: the next protocol is asked.
	 */
	int (*pair)(struct osf_sock *a, struct osf_sock *b, void **conn_a,
		    void **conn_b);
	/**
	 * connect() - open a connection
	 * @id, @fd: as in struct osf_proto; @fd becomes the anchor
	 * @to: an address that caps say can be reached
	 * @timeout_ms: milliseconds within which to decide
	 * @conn: out, for 0 and -EINPROGRESS
	 *
	 * osf asks in order of priority, before protocols that take over what
	 * the kernel has opened.  The op may sleep, at most for @timeout_ms.
	 * Or it returns -EINPROGRESS and decides later, in turn(): then it
	 * notifies OSF_EVENT_OUT when the connection is open, or calls
	 * osf_sock_fail().  osf waits for one of them, at most @timeout_ms.  If
	 * there is none, or an error, osf calls close() and asks the next
	 * protocol.  The program sees only the result of the last one asked.
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
	 * @id.  Ends with osf_proto.close(@id): what nobody has accepted by
	 * then is reset.
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
	 * @flags: MSG_MORE: more follow, so there is no hurry; no others
	 *
	 * The vectors are the program's, which may reuse them after the call;
	 * none is empty, as with recv().
	 * osf calls again with the rest until the answer is negative.
	 *
	 * Return: bytes taken, at least 1 if @iov has any; or
	 *   -EAGAIN      no room
	 *   -EPIPE       the peer is gone
	 *   others       as the kernel's send()
	 */
	ssize_t (*send)(void *conn, const struct iovec *iov, size_t n,
			int flags);
	/**
	 * recv() - give bytes
	 * @flags: 0
	 *
	 * Return: bytes; 0 at the end of the stream, each time; -EAGAIN:
	 * nothing yet; others as the kernel's recv().
	 */
	ssize_t (*recv)(void *conn, const struct iovec *iov, size_t n,
			int flags);
	/* The OSF_EVENT_* that hold now.  Cheap: poll() asks each time. */
	unsigned (*events)(void *conn);
	/**
	 * arm() - a caller is about to sleep until one of @events is set
	 *
	 * After it the protocol calls osf_sock_notify() for these events, at
	 * least for the next of them.  It first notes that, and then looks at
	 * the events, so that it misses none between a look and the sleep.
	 * Optional: without it, the protocol always notifies.
	 *
	 * Return: 0: sleep; 1: look again first.
	 */
	int (*arm)(void *conn, unsigned events);

	/**
	 * turn() - run timers, receive what has arrived, send what is due
	 * @now_ns: CLOCK_MONOTONIC
	 *
	 * osf calls it in the program's calls on the connection, and while
	 * they sleep, as soon as next_ns() has come.  Optional.
	 */
	void (*turn)(void *conn, uint64_t now_ns);
	/* When turn() has work to do: CLOCK_MONOTONIC, UINT64_MAX for never.  A
	 * sleep ends then at the latest.  Optional. */
	uint64_t (*next_ns)(void *conn);

	/* The program sends no more: SHUT_WR.  0, or -errno for the program.
	 * Optional; but the peer then learns only of close(). */
	int (*shutdown)(void *conn, int how);
	/* SIOCOUTQ: bytes that the peer has not got yet.  Optional: 0. */
	int (*outq)(void *conn);
	/**
	 * getsockopt(), setsockopt() - an option, where the protocol's answer
	 * counts
	 *
	 * Return: 0; -errno for the program; -EOPNOTSUPP, or the op is absent:
	 * the anchor has the option.  osf itself answers for SO_ERROR and the
	 * timeouts.
	 */
	int (*getsockopt)(void *conn, int level, int name, void *val,
			  socklen_t *len);
	int (*setsockopt)(void *conn, int level, int name, const void *val,
			  socklen_t len);
	/* getsockname(), or getpeername() with @peer.  0, or -errno for the
	 * program.  Absent: the anchor's names, which for @peer are those of
	 * its kernel connection. */
	int (*name)(void *conn, int peer, struct sockaddr_storage *out,
		    socklen_t *len);

	/**
	 * to_kernel() - fall back to the kernel's connection
	 * @fd: the anchor, with a kernel connection to the peer
	 *
	 * Called for what only the kernel can do: fork, exec, SCM_RIGHTS,
	 * io_uring, an option, urgent data; and when the peer has fallen back.
	 * The protocol notifies the peer's end of OSF_EVENT_BACK.  From then on
	 * osf calls send() at neither end.  recv() gives what was sent before,
	 * without delay, and then -EAGAIN, or 0 if the stream had ended.  At
	 * last osf calls close(), and this ends nothing for the peer.
	 *
	 * Return: 0; -errno, or absent: not possible; the caller goes without,
	 * or osf resets the connection.
	 */
	int (*to_kernel)(void *conn, int fd);

	/* The program closed its last descriptor of it.  Bytes already sent
	 * must still arrive, and then the end; @linger_s: seconds that close()
	 * may take for that, -1 for none; 0: reset it. */
	void (*close)(void *conn, int linger_s);
	/* The process ends, or is a child that was not to have it: let go.
	 * Absent: close(), but nothing in a child. */
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
 * protocol's: it calls no op.
 */
#ifdef __GNUC__
__attribute__((weak))
#endif
void osf_sock_notify(struct osf_sock *sk, unsigned events);

/**
 * osf_sock_fail() - the connection has ended with an error, both ways
 * @err: a positive errno: ECONNRESET, ETIMEDOUT, ...
 *
 * What recv() still gives is read first; then osf reports the error once, and wakes
 * whoever sleeps.  The protocol goes on as if nothing had happened until close().
 *
 * Context: as osf_sock_notify().
 */
#ifdef __GNUC__
__attribute__((weak))
#endif
void osf_sock_fail(struct osf_sock *sk, int err);

#ifdef __cplusplus
}
#endif

#endif
