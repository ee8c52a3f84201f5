/* SPDX-License-Identifier: MIT */
/*
 * ops/candidates.h - which protocols may have a connection, and in what order
 *
 *     the table of protocols, a rule, the kernel's route  ->  a list, or a reason
 *
 * One function judges each protocol.  Those that pass make the list; for one
 * that does not, its answer is the reason in the statistics.
 */
#pragma once

#include <sys/socket.h>

#include "ops/registry.h"
#include "osf/proto.h"
#include "osf/stats.h"

/* A question to the table. */
struct question {
	int fd;                      /* the socket; its route counts */
	const struct sockaddr *peer; /* the destination; NULL: it listens */
	socklen_t len;               /* of @peer */
	const char *provider;        /* of the rule that matches, or NULL */
	struct osf_route route; /* to @peer; kind is read if size is not 0 */
};

/* The protocols that may serve the connection, preferred ones first. inet is
 * always among them once it is registered, and is the last. */
struct protos candidates(struct question *q);
/* Why the protocol @name is not in the list; OSF_REASON_NONE: it is. */
enum osf_reason candidate_refused(struct question *q, const char *name);
