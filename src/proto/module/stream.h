/* SPDX-License-Identifier: MIT */
/*
 * proto/module/stream.h - connections whose bytes a module moves (osf/stream.h)
 *
 *     src/ops:  stream_new()  ->  the module's connect() or accept()  ->  stream_begin()
 *     calls:    stream_ops    ->  the module's send(), recv(), events()
 *     module:   osf_sock_notify()  ->  sock_notify()  ->  who waits
 *     fork, exec, SCM_RIGHTS:  to_kernel(); both directions go on in the anchor's TCP
 *
 * Files: conn.c opens, falls back and ends; pair.c connects both ends in one process; io.c
 * moves bytes; wait.c has readiness and sleeps; table.c is the table of operations, with
 * what is small.
 *
 * Falling back.  After to_kernel() we send by TCP (tx_back).  We receive from the module
 * what the peer had sent before, then by TCP (rx_back); then the table is the kernel's.
 *
 * Processes.  struct osf_sock lies in the memory of the process that has the connection.
 * A child of a fork has a copy with is_gone set.
 *
 * Locks: the socket's, as osf/stream.h says.  events(), next_ns() and arm() take none; they
 * run between stream_enter() and stream_leave(), and whoever ends the connection waits for
 * them.  The program's signal handlers wait, too.  A module that asks for it has one more
 * lock around each op, stream_serial; the lock of pair.c comes before that.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "osf/stream.h"
#include "sock/sock.h"
#include "sock/sock_ops.h"

struct osf_sock {
	struct sock *sk;
	const struct osf_stream_ops *ops;
	void *conn;
	uint32_t n_inside; /* ops under way that hold no lock */
	uint32_t is_gone;  /* conn is: ended, or the parent's */
	uint8_t is_over;   /* it has failed; the module may have bytes left */
	uint8_t peer_back; /* the peer falls back */
	int32_t err;       /* that it has failed with, and nobody knows yet */

	/* Under rx_lock. */
	uint8_t rx_back; /* the kernel's TCP is next */
	uint8_t rx_ended;
	uint64_t rx_bytes; /* that the module has given */
	int32_t rx_err;    /* for the next call, positive */
	/* Taken from the module, and not read by the program. */
	struct {
		uint8_t *data;
		size_t at, end, cap;
	} held;

	/* Under tx_lock. */
	uint8_t tx_back;
	uint64_t tx_bytes; /* that the module has taken */

	/* pair.c: this end arrives from @from, and nobody has accepted it. */
	struct {
		struct osf_sock *next;
		const struct osf_sock *from;
		uint64_t listener;
		struct sockaddr_storage name;
	} pair;
};

/* Run an op: STREAM_RUN(s->ops, r =, s->ops->recv(...)). */
extern struct lock stream_serial;
#define STREAM_RUN(ops_, result, call)                                         \
	do {                                                                   \
		bool serial = (ops_)->comp_mask & OSF_STREAM_SERIAL;           \
		if (serial)                                                    \
			lock_get(&stream_serial);                              \
		result(call);                                                  \
		if (serial)                                                    \
			lock_put(&stream_serial);                              \
	} while (0)

/* The op, if the module's struct is long enough to have it. */
#define STREAM_OP(o, op)                                                       \
	((o)->size >= offsetof(struct osf_stream_ops, op) + sizeof((o)->op)    \
	     ? (o)->op                                                         \
	     : NULL)

/* The last bytes of sock.conn: no other protocol uses them, so a socket that never was a
 * module's has NULL there. */
#define STREAM_AT (SOCK_CONN_BYTES - sizeof(struct osf_sock *))

static inline struct osf_sock *stream_of(const struct sock *sk)
{
	return *(struct osf_sock *const *)(const void *)(sk->conn + STREAM_AT);
}

extern const struct sock_ops stream_ops;

/* conn.c.  For the module's connect() or accept().  NULL: no memory. */
struct osf_sock *stream_new(struct sock *sk, const struct osf_stream_ops *ops);
/* The module did not take it. */
void stream_discard(struct osf_sock *s);
/* connect() has returned -EINPROGRESS: wait for its decision.  0, or -errno and the
 * connection is closed. */
MUST_CHECK int stream_await(struct osf_sock *s, unsigned timeout_ms);
/* From now on the module moves the bytes.  -EBUSY: another thread is inside a call of the
 * kernel's on the socket; the connection is closed. */
MUST_CHECK int stream_begin(struct osf_sock *s);
/* This process lets go of the socket; @sk may be a copy. */
void stream_free(const struct sock *sk);

/* False: the connection is gone.  stream_leave() must follow in both cases. */
bool stream_enter(struct osf_sock *s);
void stream_leave(struct osf_sock *s);
/* Ends the connection in the module, alone; the caller holds both locks, or is the only
 * one left.  @linger_s: for the module's close(). */
void stream_end(struct osf_sock *s, int linger_s);

/* What a call says of osf_sock_fail(): the error, once. */
int stream_failed(struct osf_sock *s);

/* Fall back.  False: the module cannot. */
bool stream_to_kernel(struct sock *sk, int fd, enum osf_reason why);
/* The peer has fallen back: follow it, or reset the connection.  True. */
bool stream_follow(struct sock *sk, int fd);
int stream_to_kernel_now(struct sock *sk, int fd, enum osf_reason why,
			 bool gently, struct stash *stash);
/* All is read that came through the module: the table becomes the kernel's. */
void stream_retire(struct sock *sk);
void stream_reset(struct sock *sk, int fd, const char *why);
void stream_close(struct sock *sk, int fd);
void stream_exit(struct sock *sk, int fd);
void stream_inherited(struct sock *sk);
/* Around a fork, in both processes: no serial op runs, and pair.c's lists are whole. */
void stream_before_fork(void);
void stream_after_fork(void);

/* pair.c, for protocols with pair().  In place of the module's connect() and listen(). */
MUST_CHECK int pair_connect(struct osf_sock *a, int fd,
			    const struct sockaddr *to, socklen_t len);
MUST_CHECK int pair_listen(uint64_t id, int fd);
void pair_unlisten(uint64_t id);
/* In place of its accept(): the end that comes from @from is @sk's.  NULL: none is. */
struct osf_sock *pair_accept(const struct osf_stream_ops *ops, struct sock *sk,
			     const struct sockaddr_storage *from);
/* The other end of @a, if nobody has accepted it, and nobody will: the caller's. */
struct osf_sock *pair_unaccepted(const struct osf_sock *a);
void pair_forget(const struct osf_sock *a); /* @a is about to be freed */
extern struct lock stream_pairs;

/* io.c */
ssize_t stream_recv(struct sock *sk, int fd, const struct iovec *iov, size_t n,
		    int flags);
ssize_t stream_send(struct sock *sk, int fd, const struct iovec *iov, size_t n,
		    int flags);
ssize_t stream_send_file(struct sock *sk, int fd, int in, off_t *off, size_t n);
int stream_inq(struct sock *sk, int fd);
/* Take up to @want bytes out of the module, beside those that are held; the caller holds
 * rx_lock.  0; -EAGAIN: there are fewer; others as recv(). */
int stream_pull(struct osf_sock *s, size_t want);
/* After a fallback: is the kernel's TCP next?  @is_over: the module has no more. */
void stream_rx_look(struct osf_sock *s, int fd, bool is_over);
static inline size_t stream_held(const struct osf_sock *s)
{
	return load_rlx(&s->held.end) - load_rlx(&s->held.at);
}

/* wait.c */
void stream_turn(struct osf_sock *s); /* if due; the caller holds rx_lock */
uint64_t stream_next_ns(struct sock *sk);
unsigned stream_events(struct sock *sk, int fd);
unsigned stream_kernel_events(int fd, unsigned want);
bool stream_arm(struct sock *sk, int fd, unsigned events,
		const struct watch *w);
int stream_sleep(struct sock *sk, int fd, const struct call_wait *w);
