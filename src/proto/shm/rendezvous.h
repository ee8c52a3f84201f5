/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/rendezvous.h - how both ends of a connection find each other
 *
 *     opener                                   acceptor
 *     listens under a random name,
 *     shows its number on its TCP socket       reads the number
 *                                              binds a random name, shows its
 *                                              number on its own TCP socket
 *                                        <-    connects, by name
 *     reads the number, which must be
 *     that of the name at the other end
 *
 * Each side so knows that the other has the other end of this very connection
 * (proto/shm/notice.h), and asks the kernel whose process it is
 * (proto/shm/trust.h), before it sends or receives anything.  A process that is
 * turned away has sent nothing that we have received.  Nobody can take the names
 * beforehand.  They are abstract unix names, which belong to the network
 * namespace, as TCP connections do:
 *
 *     osf8/NUMBER    of either side, for one connection
 *     osf1/a/PORT    a listener under osf announces itself
 *     osf1/k/PORT    the same, but it stays in the kernel
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "proto/shm/notice.h"

#define HELLO_MAGIC 0x316f736fu
#define HELLO_FDS 3

/* Both sides send one hello over the channel, with descriptors.  The acceptor
 * sends the segment and its inbox, the opener returns its inbox.  Each adds
 * the bell of the calling thread. */
struct hello {
	uint32_t magic;
	uint16_t version; /* SEG_VERSION */
	uint16_t size;    /* of this struct; newer ones only append */
	uint32_t pid;
	uint16_t n_needed;    /* descriptors; a bell comes behind them */
	uint16_t bell1;       /* the bell's number, plus 1; 0: there is none */
	uint8_t inbox_id[16]; /* as it says; the memfd itself is what counts */
};

/* Listen for the peer of @fd's connection, and show under which number.  Return
 * the listener or -errno. */
MUST_CHECK int proposal_listen(int fd, struct notice *n);
/* Return the channel to the process that has the other end; -EAGAIN: it has not
 * come yet.  It has come, and may not share our memory: -EPERM, -EXDEV, -ENOSYS,
 * as trust_check(). */
MUST_CHECK int proposal_accept(int proposal_fd, int fd);
/* Connect to the process that has the other end of @fd's connection.  -ENOENT:
 * it has made no proposal; -EAGAIN: other processes are in the way; or the
 * errors of trust_check(), with the channel in *@refused: the process may not
 * share our memory. */
MUST_CHECK int proposal_connect(int fd, struct notice *n, int *refused);
/* No more takers. */
void proposal_close(int proposal_fd);
/* One end of a TCP connection. */
struct tcp_end {
	struct sockaddr_storage local, peer;
	uint64_t
	    netns; /* 0 where the kernel does not tell (before Linux 5.14) */
};
/* False: there is no peer.  A socket that is not TCP has none of the other's addresses. */
bool tcp_end_of(int fd, struct tcp_end *out);
/* Are these the two ends of one connection, in the same network namespace? */
bool are_two_ends(const struct tcp_end *a, const struct tcp_end *b);
enum announced { ANNOUNCED = 'a', ANNOUNCED_KERNEL = 'k' };
/* Bind the announcement of @listen_fd's port.  A descriptor or -errno. */
MUST_CHECK int announce_bind(int listen_fd, enum announced what);
/* 0 when a process of @owner announces @fd's peer port in this way. */
MUST_CHECK int announce_check(int fd, enum announced what, uid_t owner);

MUST_CHECK int hello_send(int channel, const struct hello *h, const int *fds,
			  int n_fds);
/* -EAGAIN: nothing there yet; -EPIPE: closed; -EBADMSG: not a hello;
 * -EPROTONOSUPPORT; -EMFILE: no room for the descriptors we need.  @fds:
 * HELLO_FDS, out: -1 where none came; on error there are none. */
MUST_CHECK int hello_recv(int channel, struct hello *h, int *fds);
