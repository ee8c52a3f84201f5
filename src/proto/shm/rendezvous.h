/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/rendezvous.h - how both ends of a connection find each other
 *
 * They use abstract unix names, which belong to the network namespace, as do
 * the addresses that these names contain:
 *
 *     osf1/a/PORT                       a listener under osf announces itself
 *     osf1/k/PORT                       the same, but it stays in the kernel
 *     osf1/o/CLIENT:PORT>SERVER:PORT    the opener of a connection proposes
 *
 * Behind NAT the two ends know different addresses.  The acceptor then finds
 * no proposal, and the connection stays in the kernel.  SO_PEERCRED says who
 * answers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/compiler.h"

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

/* Listen for the peer of @fd's connection.  Return the listener or -errno. */
MUST_CHECK int proposal_listen(int fd);
/* Return the channel to an acceptor; -EAGAIN: none yet; -EPERM: another user's. */
MUST_CHECK int proposal_accept(int proposal_fd, int fd);
/* Connect to the side that proposes @fd's connection; -ENOENT: nobody; -EPERM. */
MUST_CHECK int proposal_connect(int fd);
/* Which process is at the other end of a channel?  The kernel says so; 0:
 * unknown. */
pid_t channel_pid(int channel);
/* Are these the two ends of one connection, in the same network namespace? */
bool are_two_ends(int a, int b);
enum announced { ANNOUNCED = 'a', ANNOUNCED_KERNEL = 'k' };
/* Bind the announcement of @listen_fd's port.  A descriptor or -errno. */
MUST_CHECK int announce_bind(int listen_fd, enum announced what);
/* 0 when @fd's peer port is announced in this way. */
MUST_CHECK int announce_check(int fd, enum announced what);
/* Which user has the other end of @fd's connection?  -ENOENT: nobody in this
 * network namespace; -EAGAIN: no process has it now.  Takes ten us. */
MUST_CHECK int owner_of_peer(int fd, uid_t *uid);

MUST_CHECK int hello_send(int channel, const struct hello *h, const int *fds,
			  int n_fds);
/* -EAGAIN: nothing there yet; -EPIPE: closed; -EBADMSG: not a hello;
 * -EPROTONOSUPPORT; -EMFILE: no room for the descriptors we need.  @fds:
 * HELLO_FDS, out: -1 where none came; on error all are closed. */
MUST_CHECK int hello_recv(int channel, struct hello *h, int *fds);
