/* SPDX-License-Identifier: MIT */
/* ops/registry.h - modules' protocols, by priority; see include/osf/proto.h */
#pragma once

#include <sys/socket.h>

void registry_init(void); /* loads OSF_MODULES */
/* Ask each candidate in turn, or only @provider if it is one of theirs; 0 when
 * one connected @fd. */
int registry_connect(int fd, const struct sockaddr *to, socklen_t len,
		     const char *provider);
void registry_listen(int fd, int backlog);
