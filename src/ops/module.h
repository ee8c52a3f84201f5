/* SPDX-License-Identifier: MIT */
/*
 * ops/module.h - asks modules: they open and accept connections
 *
 *     connect, listen, accept, close  ->  each candidate's op  ->  a replacement
 *                                         descriptor, or a stream (proto/module)
 *
 * @provider is the provider that the matching rule names, or NULL.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/compiler.h"

struct sock;

/* Installs @replacement at @fd: 0, or -errno and nothing has changed. */
typedef int module_place(int fd, int replacement);

/* What a caller can do with a connection that a module has opened. */
struct module_how {
	module_place *place; /* for a replacement descriptor; NULL: dup3() */
	bool is_fixed;       /* the socket cannot be replaced */
	bool no_streams;     /* its bytes must come from a descriptor */
};

/* A module knows a description by this, which all its holders share. */
static inline uint64_t module_id(const struct sock *sk)
{
	return (uintptr_t)sk;
}

/* Ask each candidate in turn.  0: a replacement descriptor is installed, or the module
 * moves the bytes, as @sk's mode says; else -EAGAIN. */
MUST_CHECK int module_connect(struct sock *sk, int fd,
			      const struct sockaddr *to, socklen_t len,
			      const char *provider,
			      const struct module_how *how);
/* The same of @fd, just accepted; 0: @from is its peer; -ECONNABORTED: the token's
 * connection is gone; -EAGAIN: leave it to the kernel.  @provider: the listener's, so
 * that we ask the protocols that know of it. */
MUST_CHECK int module_accept(uint64_t listener, struct sock *sk, int fd,
			     struct sockaddr_storage *from, socklen_t *len,
			     const char *provider, bool streams);
/* @streams: accept() of what arrives may say that the module moves the bytes. */
void module_listen(uint64_t id, int fd, int backlog, const char *provider,
		   bool streams);
/* Other processes may accept what arrives at the listener: those modules that move bytes
 * in this process serve it no longer. */
void module_listener_shared(uint64_t id);
void module_close(uint64_t id);
