/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/region.h - memory of one process that its peers read where it lies
 *
 *     sender                                 receiver
 *     region_open(): a file of its own
 *     first use in a connection: MAP   ->    opens the file in /proc, maps it
 *                                      <-    its bit in seg_side.maps
 *     from then on: REF                ->    reads there
 *                                      <-    seg_side.refs_done
 *
 * Until the receiver has said that it has mapped a region, and for ever if it may
 * not, bytes are copied into the ring: nothing depends on it.  Receivers are poll
 * groups, whose sockets belong to one process; who shares a connection with children
 * does not say SEG_TAKES_REFS.
 *
 * A region is a memfd that cannot shrink, so reading it cannot fail.  The receiver
 * finds it by the sender's process and descriptor, which needs what ptrace(2) calls
 * read access (the same user, not less privileged), and takes it only if device, inode,
 * size and seals are as announced.  It maps it for reading only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/shm/ring.h"
#include "sock/region.h"

struct sock;

/* What a connection has told its peer of. */
struct region_list {
	uint64_t id[RING_REGIONS];
	uint32_t n;
};

/**
 * shm_send_ref() - the next bytes are @len of @r, from @off on
 * @len: at most RING_CHUNK
 *
 * For who has the socket to himself, as shm_send_sole().
 *
 * Return: @len, or 0: not (yet) by reference, send a copy; -ECONNRESET.
 */
ssize_t shm_send_ref(struct sock *sk, int fd, struct region_list *told,
		     const struct region *r, uint64_t off, uint32_t len);

/* How many references the peer is done with, of the @n_sent that it has been sent and
 * not before @n_done.  A count outside of that is a lie: @n_sent, and *@lies. */
uint32_t shm_refs_done(struct sock *sk, uint32_t n_done, uint32_t n_sent,
		       bool *lies);

/* References are understood from now on; false: no memory. */
bool shm_take_refs(struct sock *sk);
/* Forget what was mapped. */
void shm_refs_free(struct ring_refs *refs);
/* No more of what the peer has sent, or will, is going to be read. */
void shm_refs_over(struct ring_refs *refs);
/* See to the MAP record that is next in the ring.  -EPROTO: the peer lies. */
MUST_CHECK int shm_rx_map(struct sock *sk);
