/* SPDX-License-Identifier: MIT */
/*
 * sock/opt.h - socket options, whoever carries the bytes
 *
 *     setsockopt()  ->  opt_set()  ->  the anchor, struct sock, or both
 *                          |
 *                          +-> sock_ops.opt_changed(), or fallback()
 *
 * The anchor holds the options, so the kernel answers for nearly all of them.
 * opts.def lists, for every API, the options that others must know too:
 *
 *   OURS    while the bytes are ours, we do not tell the anchor, because the
 *           option would delay or swallow what wakes us
 *   BOTH    the anchor has it, and we must know it
 *   TIMES   only the kernel knows when a byte came or went.  Programs set it
 *           without ever reading the times (iperf 2).  So we fall back only
 *           if the error queue must report sends, or if recvmsg() has room
 *           for control messages (sock/io.c)
 *   KERNEL  only the kernel's own data path has it: fall back
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

/* NULL: only the kernel needs to know the option. */
const struct opt *opt_find(int level, int name);

/* Does setting it to @val cause a fallback? */
bool opt_leaves(const struct opt *o, const void *val, socklen_t len);

/* A protocol is about to carry the bytes: it must know what the program has set so far, and
 * what an accepted socket has from its listener. */
void opt_read(struct sock *sk, int fd);

/* What the kernel has for SO_RCVTIMEO or SO_SNDTIMEO; 0: none. */
uint64_t opt_timeout_ns(int fd, int name);

/* setsockopt() with all that follows from it; @o comes from opt_find().
 * Return 0 or -errno. */
int opt_set(struct sock *sk, int fd, const struct opt *o, int level, int name,
	    const void *val, socklen_t len);

/* Call this after the anchor's own getsockopt().  It adds what the anchor does
 * not know while the bytes are ours. */
void opt_get(struct sock *sk, int fd, int level, int name, void *val,
	     socklen_t len);
