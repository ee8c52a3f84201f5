/* SPDX-License-Identifier: MIT */
/*
 * ops/module.h - asks modules, and installs their replacement descriptors
 *
 *     connect, listen, accept, close  ->  each candidate's op  ->  a replacement
 *
 * @provider is the provider that the matching rule names, or NULL.
 */
#pragma once

#include <stdint.h>
#include <sys/socket.h>

#include "base/compiler.h"

/* Installs @replacement at @fd: 0, or -errno and nothing has changed. */
typedef int module_place(int fd, int replacement);

/* Ask each candidate in turn.  0: @fd now is a replacement descriptor; else
 * -EAGAIN.  @place: NULL for dup3(). */
MUST_CHECK int module_connect(uint64_t id, int fd, const struct sockaddr *to,
			      socklen_t len, const char *provider,
			      module_place *place);
/* 0: @fd, just accepted, now is a replacement descriptor, and @from its peer;
 * -ECONNABORTED: the token's connection is gone; -EAGAIN: leave it to the
 * kernel.  @provider: the listener's, so that we ask the protocols that were
 * told of it. */
MUST_CHECK int module_accept(uint64_t listener, uint64_t id, int fd,
			     struct sockaddr_storage *from, socklen_t *len,
			     const char *provider);
void module_listen(uint64_t id, int fd, int backlog, const char *provider);
void module_close(uint64_t id);
