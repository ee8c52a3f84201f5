/* SPDX-License-Identifier: MIT */
/*
 * ops/module.h - asking modules, and putting their carriers in place
 *
 *     connect, listen, accept, close  ->  each candidate's op  ->  a carrier
 *
 * @provider is the word of the rule that matches, or NULL.
 */
#pragma once

#include <stdint.h>
#include <sys/socket.h>

#include "base/compiler.h"

/* Puts @carrier in the place of @fd: 0, or -errno with nothing done. */
typedef int module_place(int fd, int carrier);

/* Ask each candidate in turn; 0 when @fd is now a carrier's, else -EAGAIN.
 * @place: NULL for dup3(). */
MUST_CHECK int module_connect(uint64_t id, int fd, const struct sockaddr *to,
			      socklen_t len, const char *provider,
			      module_place *place);
/* 0 when @fd, just accepted, is now a carrier's, and @from whom it leads to;
 * -ECONNABORTED: it is a token of nothing any more; -EAGAIN: the kernel's.
 * @provider: of the listener, so that those are asked who were told of it. */
MUST_CHECK int module_accept(uint64_t listener, uint64_t id, int fd,
			     struct sockaddr_storage *from, socklen_t *len,
			     const char *provider);
void module_listen(uint64_t id, int fd, int backlog, const char *provider);
void module_close(uint64_t id);
