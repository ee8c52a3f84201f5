/* SPDX-License-Identifier: MIT */
/*
 * ops/ops.h - the offload protocol switch
 *
 *     socket, connect, listen, accept  ->  rules, routes, capabilities  ->  protocol
 *
 * Decides where a connection may run and records why.  One table holds all
 * protocols; each registers through include/osf/proto.h.  Two are built in:
 * inet is the kernel and always last; shm takes a connection over after inet
 * has opened it.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "ops/module.h"
#include "osf/proto.h"
#include "sock/sock.h"

/* At program start: reads the settings, modules and rules, and opens the log
 * and the statistics file.  If a rule is wrong, it warns and leaves all
 * sockets to the kernel.  False: osf is switched off, or there is no memory for
 * the segment. */
bool ops_start(void);

/* What the program asked socket() for, by family.def; false: not our family. */
struct ops_family {
	int domain;   /* what the kernel is to be given */
	bool offload; /* or connect() is to fail */
	bool direct;  /* never */
};
bool ops_family(int domain, int type, int protocol, struct ops_family *out);
/* Rewrites AF_INET_OFFLOAD and AF_INET_DIRECT in @in to what the kernel knows. */
const struct sockaddr *ops_sockaddr(const struct sockaddr *in, socklen_t len,
				    struct sockaddr_storage *copy);

extern bool ops_nodelay; /* sockets of a program begin with TCP_NODELAY */
void ops_created(struct sock *sk, const struct ops_family *family);
/* Asks modules before the kernel.  0: a module has opened the connection: by a
 * replacement descriptor, or @sk has its table; else -EAGAIN. */
MUST_CHECK int ops_connect_first(struct sock *sk, int fd,
				 const struct sockaddr *to, socklen_t len,
				 const struct module_how *how);
/* Has any module registered? */
bool ops_has_modules(void);
/* May there be connections that live in this process alone (sock_ops.in_process)? */
bool ops_is_in_process(void);
/* Does this thread run an op of a module's? */
bool ops_is_inside(void);
/* Call after the kernel's connect() returned 0 or EINPROGRESS.  Returns 0, or
 * the errno with which connect() must fail (AF_INET_OFFLOAD). */
int ops_connected(struct sock *sk, int fd, const struct sockaddr *to);
/* @streams: arrivals may be connections that a module of this process moves. */
void ops_listening(struct sock *sk, int fd, int backlog, bool streams);
/* Another process may accept from it, too. */
void ops_listener_shared(struct sock *sk);
/* Asks modules about what the kernel's accept() returned.  0: @from is the
 * peer; -EAGAIN: call ops_accepted() next; -ECONNABORTED: nothing has arrived.
 * @streams: as with ops_listening(). */
MUST_CHECK int ops_accept_first(struct sock *sk, int fd, struct sock *listener,
				struct sockaddr_storage *from, socklen_t *len,
				bool streams);
void ops_accepted(struct sock *sk, int fd, struct sock *listener,
		  const struct sockaddr *from);
/* Takes the next step towards shared memory or a port, if that may be worth while now.  The
 * socket's mode is the result. */
void ops_advance(struct sock *sk, int fd);
void ops_closed(struct sock *sk);

/* upgrade.c.  The last holder closes @sk: all protocols release it. */
void ops_close(struct sock *sk, int fd);
/* Other processes still use it: release our part. */
void ops_let_go(struct sock *sk, int fd);
/* Descriptors that become readable when the next step of an upgrade is
 * possible; 0: none. */
#define OPS_UPGRADE_FDS 2
void ops_upgrade_fds(const struct sock *sk, int32_t fds[OPS_UPGRADE_FDS]);
/* An upgrade of @sk may have no descriptors any more.  True: it had some, which are closed, and
 * @sk stays on TCP. */
bool ops_spare_fds(struct sock *sk, int fd, enum osf_reason why);
/* Close descriptors of no socket; then no connection is upgraded any more. */
bool ops_spare_own_fds(void);
/* A child will have @sk, too. */
void ops_before_sharing(struct sock *sk, int fd);
/* Bytes of connections to come may be lent to callers that share them: sock/lend.h. */
void ops_will_lend(void);
/* Before a fork, when all that falls back has done so: no op of a serial module runs until
 * one of the next two. */
void ops_before_fork(void);
void ops_forked(
    void); /* in the parent; nothing if there was no ops_before_fork() */
/* In the child: drop what protocols keep for the parent process. */
void ops_after_fork(void);

/* The process gives up authority: leave what forks share. */
void ops_unshare(void);
/* It gives up authority: withdraw what an upgrade of @sk has open, which tells the peer who the
 * process was.  If a thread is inside a call on @sk, it stays. */
void ops_withdraw(struct sock *sk, int fd);
/* May any socket have that?  Yes, if there was some since ops_forget_offers(). */
bool ops_had_offers(void);
void ops_forget_offers(void);

/* Announce @sk, a listener, if it is not yet. */
void ops_announce(struct sock *sk, int fd);
/* Withdraw the announcement of @sk, a listener. */
void ops_unannounce(struct sock *sk);
/* Leave @sk to the kernel for good, from mode YOUNG.  False: it is not young,
 * or others are inside a kernel call on it; then it is not looked at again. */
bool ops_keep_kernel(struct sock *sk, enum osf_reason reason);
/* False: leave sockets that this thread makes to the kernel; true: offload. */
void ops_thread_offload(bool offload);
/* The same for thread @tid, which must exist.  -ENOMEM: too many wait for their
 * threads to make a socket. */
int ops_thread_offload_of(pthread_t tid, bool offload);
/* Leave all future sockets to the kernel; true: it was called before. */
bool ops_leave_all(enum osf_reason reason);
