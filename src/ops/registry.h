/* SPDX-License-Identifier: MIT */
/*
 * ops/registry.h - modules' protocols, by priority; see include/osf/proto.h
 *
 * @provider is a rule's word: one module, or which of osf's own, or NULL.  A name
 * that nobody has registered counts as none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/compiler.h"

void registry_init(void); /* loads OSF_MODULES */
bool registry_any(void);
bool registry_has(const char *name); /* is there a module of that name? */
/* Ask each candidate in turn; 0 when @fd is now a carrier's, else -EAGAIN. */
MUST_CHECK int registry_connect(uint64_t id, int fd, const struct sockaddr *to,
				socklen_t len, const char *provider);
/* 0 when @fd, just accepted, is now a carrier's, and @from whom it leads to;
 * -ECONNABORTED: it is a token of nothing any more; -EAGAIN: the kernel's. */
MUST_CHECK int registry_accept(uint64_t listener, uint64_t id, int fd,
			       struct sockaddr_storage *from, socklen_t *len);
void registry_listen(uint64_t id, int fd, int backlog, const char *provider);
void registry_close(uint64_t id);
