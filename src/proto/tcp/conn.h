/* SPDX-License-Identifier: MIT */
/*
 * proto/tcp/conn.h - connections that our own TCP carries over a port
 *
 *     src/ops:  moved_try()  ->  freeze, import  ->  tcp_ops
 *     calls:    tcp_ops      ->  the engine
 *     close, shutdown, exec, fork, an option, the peer's end  ->  moved_back()
 *
 * The kernel opens the connection.  It gets the connection back before anything happens
 * that only a kernel's socket can do.  The connection's descriptor stays the same.
 *
 * Files: conn.c moves there and back; io.c moves bytes; wait.c has readiness and sleeps;
 * table.c is the table of operations; wire.c has the process's engine, escrow.c what osfd
 * needs if this process dies.
 *
 * If the engine sees something that only the kernel can handle (the peer's FIN or reset, a
 * device that is gone), it makes the connection due: the next call or look on it gives it
 * back.
 *
 * Locks: the socket's, then wire_lock().  While a thread has one of the socket's two locks
 * and has found the mode SOCK_TCP, the connection does not move.
 */
#pragma once

#include "base/list.h"
#include "osf/stats.h"
#include "osfd/frozen.h"
#include "proto/tcp/escrow.h"
#include "sock/sock.h"
#include "sock/sock_ops.h"

struct tcp_conn;

struct moved {
	struct sock *sk;
	struct tcp_conn *c;
	struct list link;     /* of the wire's */
	struct frozen frozen; /* as osfd has said */
	struct escrow escrow;
	int fd; /* of the anchor, our own: for an osfd that has it no more */
	uint32_t events; /* enum tcp_events, after the last turn */
	uint32_t due; /* enum osf_reason: to be given back for; 0: it is not */
	uint64_t tx_bytes, rx_bytes;
};

/* The last bytes of sock.conn but one pointer, which is stream_of()'s. */
#define MOVED_AT (SOCK_CONN_BYTES - 2 * sizeof(void *))

static inline struct moved *moved_of(const struct sock *sk)
{
	return *(struct moved *const *)(const void *)(sk->conn + MOVED_AT);
}

extern const struct sock_ops tcp_ops;

/* conn.c */

/**
 * moved_try() - have our TCP go on with a connection
 * @ifindex, @mac: the device and the next hop's address there
 *
 * The mode is SOCK_UPGRADING, and is SOCK_TCP or SOCK_YOUNG afterwards.
 *
 * Return: 0, or
 *   -EAGAIN  not now: bytes are under way, or a thread waits
 *   another  not at all; *@why says so
 */
MUST_CHECK int moved_try(struct sock *sk, int fd, uint32_t ifindex,
			 const uint8_t mac[6], enum osf_reason *why);

/* Gives the connection to the kernel, for @why.  Nothing happens if it is there. */
void moved_back(struct sock *sk, int fd, enum osf_reason why);
/* The same; where @why passes, it may move again later. */
void moved_rest(struct sock *sk, int fd, enum osf_reason why);
int moved_back_now(struct sock *sk, int fd, enum osf_reason why, bool gently,
		   struct stash *stash);
void moved_after_fork(struct sock *sk);

/* With wire_lock(): the engine has news of it; it has to go back. */
void moved_news(struct moved *m);
void moved_due(struct moved *m, enum osf_reason why);
/* The same, now and then: does nobody answer?  @may_leave: osfd is there */
void moved_check(struct moved *m, bool may_leave);
/* The same: an ACK that is delayed leaves now. */
void moved_hurry(struct moved *m);
/* The same: frames of it may be lost, and none has come for @silent_ms.  The peer sends all
 * of them again except a reset.  It repeats the reset when it hears from us, so this sends
 * it an ACK. */
void moved_ask(struct moved *m, uint32_t silent_ms);
/* The same: a new osfd is there. */
void moved_found(struct moved *m);

/* The same, before a frame leaves and after a call: the escrow gets the numbers. */
void moved_say(struct moved *m);
/* How many bytes send() may take, as far as the escrow goes. */
uint32_t moved_room(struct moved *m);

/* io.c */
ssize_t moved_recv(struct sock *sk, int fd, const struct iovec *iov, size_t n,
		   int flags);
ssize_t moved_send(struct sock *sk, int fd, const struct iovec *iov, size_t n,
		   int flags);
int moved_inq(struct sock *sk, int fd);
int moved_outq(struct sock *sk, int fd);
size_t moved_room_now(struct sock *sk, int fd);

/* wait.c */
unsigned moved_events(struct sock *sk, int fd);
int moved_is_ready(struct sock *sk, int dir);
