/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/diag.h - what the kernel says of the TCP sockets of a network namespace
 *
 *     NETLINK_SOCK_DIAG, in the namespace -> struct diag, searched by inode or ends
 *
 * Anybody may ask in a namespace of their own; for another one the caller needs the right
 * to enter it.  The kernel does not list sockets that are in none of its tables, because
 * they are not bound or no longer connected.
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

/* Reads the sockets of the namespace that @ns_fd names, or of the caller's for -1.  Return:
 * 0 or a negative errno; call diag_free() in both cases. */
int diag_read(struct diag *d, int ns_fd);
void diag_free(struct diag *d);

/* @family: AF_INET or AF_INET6; @addr as osf/stats.h has it. */
struct diag_end diag_end_of(unsigned family, const uint8_t *addr,
			    uint16_t port);
bool diag_is_any(const struct diag_end *e); /* 0.0.0.0 or [::] */

const struct diag_sock *diag_by_ino(const struct diag *d, uint64_t ino);
/* Finds a connection, or a listener if @peer has no port.  A local address of 0.0.0.0 or
 * [::] fits all addresses. */
const struct diag_sock *diag_by_ends(const struct diag *d,
				     const struct diag_end *local,
				     const struct diag_end *peer);
