/* SPDX-License-Identifier: MIT */
/*
 * preload/times.h - SO_TIMESTAMP and its kin, and what else control messages ask for
 *
 * Only the kernel knows when a byte came or went.  Programs set these options without
 * ever asking (iperf 2), so that alone changes nothing: a connection goes back to the
 * kernel, or stays there, when recvmsg() has room for control messages.
 */
#pragma once

#include <linux/net_tstamp.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "file/file.h"

struct call;

#ifndef SO_TIMESTAMP_NEW
#define SO_TIMESTAMP_NEW 63
#define SO_TIMESTAMPNS_NEW 64
#define SO_TIMESTAMPING_NEW 65
#endif

/* Of SO_TIMESTAMPING: the error queue is to tell of what is sent.  The last one is
 * SOF_TIMESTAMPING_TX_COMPLETION, which is not in every header. */
#define TIMES_SENT                                                             \
	(SOF_TIMESTAMPING_TX_RECORD_MASK | SOF_TIMESTAMPING_TX_ACK | 1u << 18)

bool times_are_of(int level, int name); /* an option about times? */
/* One was set, or inherited. */
void times_changed(struct sock *sk, int fd);
/* recvmsg() is to tell them: of a young socket; of one that we carry.  The latter is
 * true if the kernel has all that comes, and is to be asked. */
void times_wanted_young(struct file *f);
bool times_wanted(struct file *f, int fd);

/* Does a stream look at this control message when it sends? */
bool control_is_kernels(const struct cmsghdr *c);
/* sendmsg() with such: the connection goes back before. */
ssize_t control_send(struct call *c, int fd, const struct msghdr *msg,
		     int flags);
