/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/rendezvous.h - how two processes that share a TCP connection find each other
 *
 * Abstract unix names live in the network namespace, like the addresses they are
 * made of:
 *
 *     osf1/a/PORT                          a listener under osf announces itself
 *     osf1/k/PORT                          one that is left to the kernel does
 *     osf1/o/CLIENT:PORT>SERVER:PORT       the opener of a connection offers
 *
 * With NAT between them the two ends know different addresses, no offer is found,
 * and the connection stays where it is.  Who answers is known by SO_PEERCRED.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/compiler.h"

#define HELLO_MAGIC 0x316f736fu
#define HELLO_FDS 3

/* What goes over an offer, once each way, with descriptors beside it: segment and
 * inbox to the offerer, the inbox back; and the bell of the thread that speaks. */
struct hello {
	uint32_t magic;
	uint16_t version; /* SEG_VERSION */
	uint16_t size;    /* of this struct; newer ones only append */
	uint32_t pid;
	uint16_t n_needed;    /* descriptors; a bell comes behind them */
	uint16_t bell1;       /* the bell's number, plus 1; 0: there is none */
	uint8_t inbox_id[16]; /* as it says; the memfd itself is what counts */
};

/* Listen for takers of @fd's connection.  The listener or -errno. */
MUST_CHECK int offer_listen(int fd);
/* A taker's channel; -EAGAIN none yet; -EPERM one of another user. */
MUST_CHECK int offer_accept(int offer_fd, int fd);
/* A channel to whoever offers @fd's connection; -ENOENT nobody; -EPERM. */
MUST_CHECK int offer_connect(int fd);
/* Who is at the other end of a channel, by the kernel's word; 0: unknown. */
pid_t channel_pid(int channel);
/* Are these the two ends of one connection, in the same network namespace? */
bool are_two_ends(int a, int b);
enum announced { ANNOUNCED = 'a', ANNOUNCED_KERNEL = 'k' };
/* Bind the announcement of @listen_fd's port.  A descriptor or -errno. */
MUST_CHECK int announce_bind(int listen_fd, enum announced what);
/* 0 when @fd's peer port is announced in this way. */
MUST_CHECK int announce_check(int fd, enum announced what);
/* Whose is the other end of @fd's connection?  -ENOENT: nobody's in this network
 * namespace; -EAGAIN: no process has it yet, or any more.  Ten microseconds. */
MUST_CHECK int owner_of_peer(int fd, uid_t *uid);

MUST_CHECK int hello_send(int channel, const struct hello *h, const int *fds,
			  int n_fds);
/* -EAGAIN nothing there yet, -EPIPE closed, -EBADMSG nonsense, -EPROTONOSUPPORT, -EMFILE
 * we have no room for what is needed.
 * @fds: HELLO_FDS, out: -1 where none came; on error all are closed. */
MUST_CHECK int hello_recv(int channel, struct hello *h, int *fds);
