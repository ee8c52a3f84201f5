/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/region.h - memory of one process that its peers read in place
 *
 *     sender                                 receiver
 *     region_open(): a file of its own
 *     first use in a connection: MAP   ->    opens the file in /proc, maps it
 *                                      <-    its bit in seg_side.maps
 *     from then on: REF                ->    reads there
 *                                      <-    seg_side.refs_done
 *
 * The sender copies bytes into the ring until the receiver says that it has
 * mapped the region.  If the receiver may not map it, the sender always
 * copies.  Only poll groups receive references, because their sockets belong
 * to one process.  A process that shares a connection with children does not
 * set SEG_TAKES_REFS.
 *
 * A region is a memfd that cannot shrink, so reading it cannot fail.  The
 * receiver finds it through the sender's process and descriptor.  That needs
 * what ptrace(2) calls read access: the same user, and no less privileged.
 * The receiver accepts the file only if device, inode, size and seals are as
 * announced, and maps it for reading only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/shm/ring.h"
#include "sock/region.h"

struct sock;

/* The regions that we have announced to the peer of one connection. */
struct region_list {
	uint64_t id[RING_REGIONS];
	uint32_t n;
};

/**
 * shm_send_ref() - send @len bytes of @r, from @off on, by reference @len: at
 * most RING_CHUNK
 *
 * For a caller that has the socket to itself, as shm_send_sole().
 *
 * Return: @len, or 0: not (yet) by reference, send a copy; -ECONNRESET.
 */
ssize_t shm_send_ref(struct sock *sk, int fd, struct region_list *known,
		     const struct region *r, uint64_t off, uint32_t len);

/* How many references is the peer done with?  It was sent @n_sent, and had
 * done @n_done before.  If its count is outside of that, return @n_sent and
 * set *@lies. */
uint32_t shm_refs_done(struct sock *sk, uint32_t n_done, uint32_t n_sent,
		       bool *lies);

/* Accept references from now on; false: no memory. */
bool shm_take_refs(struct sock *sk);
/* Unmap the peer's regions. */
void shm_refs_free(struct ring_refs *refs);
/* Tell the peer that we read no more references, old or new. */
void shm_refs_over(struct ring_refs *refs);
/* Handle the MAP record that is next in the ring.  -EPROTO: the peer lies. */
MUST_CHECK int shm_rx_map(struct sock *sk);
