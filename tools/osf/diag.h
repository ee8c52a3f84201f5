/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/diag.h - what the kernel says of the TCP sockets of a network namespace
 *
 *     NETLINK_SOCK_DIAG, in the namespace -> struct diag, searched by inode or ends
 *
 * Anybody may ask in a namespace of his own; for another one it takes the right to
 * enter it.  Sockets that are in no table of the kernel, because they are not
 * bound or not connected any more, do not appear.
 *
 * Spec: sock_diag(7).
 */
#pragma once
#include "proto/inet/tcp_bytes.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* IPv4 as v4-mapped: the two ends of a connection may be of different families. */
struct diag_end {
	uint8_t addr[16];
	uint16_t port; /* host order */
};

struct diag_sock {
	struct diag_end local, peer;
	uint64_t ino; /* 0: not accepted yet, or orphaned */
	uint32_t uid;
	uint8_t state; /* as tcpi_state */
	bool has_bytes;
	struct tcp_bytes bytes;
};
#define DIAG_LISTEN 10 /* the state of a listener */

struct diag {
	struct diag_sock *socks; /* in the order of their ends */
	struct diag_sock **by_ino;
	size_t n;
};

/* Of the namespace that @ns_fd names, or of the caller's for -1: 0 or a negative
 * errno.  diag_free() in any case. */
int diag_read(struct diag *d, int ns_fd);
void diag_free(struct diag *d);

/* @family: AF_INET or AF_INET6; @addr as osf/stats.h has it. */
struct diag_end diag_end_of(unsigned family, const uint8_t *addr,
			    uint16_t port);
bool diag_is_any(const struct diag_end *e); /* 0.0.0.0 or [::] */

const struct diag_sock *diag_by_ino(const struct diag *d, uint64_t ino);
/* The connection, or with a peer without port the listener.  A local address that
 * is 0.0.0.0 or [::] fits all. */
const struct diag_sock *diag_by_ends(const struct diag *d,
				     const struct diag_end *local,
				     const struct diag_end *peer);
