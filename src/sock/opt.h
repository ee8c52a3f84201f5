/* SPDX-License-Identifier: MIT */
/*
 * sock/opt.h - socket options, whoever carries the bytes
 *
 *     setsockopt()  ->  opt_set()  ->  the anchor, struct sock, or both
 *                          |
 *                          +-> sock_ops.opt_changed(), or fallback()
 *
 * The anchor holds the options, so the kernel answers for nearly all of them.  Those
 * that somebody else has to know of are in opts.def, one list for every API:
 *
 *   OURS    while the bytes are ours, the anchor is not told: it would delay or swallow
 *           what wakes us
 *   BOTH    the anchor's, and ours to know
 *   TIMES   only the kernel knows when a byte came or went.  Programs ask to be told
 *           without ever looking (iperf 2), so a connection goes back only when the
 *           error queue is to tell of what is sent, or when recvmsg() has room for
 *           control messages (sock/io.c)
 *   KERNEL  only its own data path has it: the connection goes back
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "osf/stats.h"
#include "sock/sock.h"

enum opt_whose { OPT_OURS, OPT_BOTH, OPT_TIMES, OPT_KERNEL };

struct opt {
	int level, name;
	enum opt_whose whose;
	enum osf_reason why; /* with which a connection goes back */
};

/* NULL: the kernel's alone, and nobody else's business. */
const struct opt *opt_find(int level, int name);

/* Does setting it to @val give the connection back? */
bool opt_leaves(const struct opt *o, const void *val, socklen_t len);

/* setsockopt(), with all that follows from it; @o is what opt_find() says.  0 or
 * -errno. */
int opt_set(struct sock *sk, int fd, const struct opt *o, int level, int name,
	    const void *val, socklen_t len);

/* After the anchor's own getsockopt(): what it did not know, while the bytes are
 * ours. */
void opt_get(struct sock *sk, int fd, int level, int name, void *val,
	     socklen_t len);
