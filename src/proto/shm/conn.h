/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/conn.h - the state of a connection in shared memory
 *
 * It lies in struct sock (sock.conn), the memory of one process, and is zeroed
 * with it.  The holder of the rx lock owns the rx half, the holder of the tx lock
 * the tx half.  The rest is set while the mode is UPGRADING.
 *
 * What a small message reads and writes stands first in its half, so that it lies in two
 * cache lines.
 *
 * If several processes hold the connection, the positions of a half go from one
 * to the next with its lock (proto/shm/shared.c), and the words of struct
 * shm_words are where all of them see them.  Where a member says "ours", it is
 * this process's own.
 */
#pragma once

#include <stdint.h>

#include "proto/shm/notice.h"
#include "proto/shm/ring.h"
#include "sock/sock.h"

struct seg;
struct peer_inbox;
struct shm_lend;

struct shm_conn {
	struct seg *seg; /* mapped at the same address in all holders */
	struct peer_inbox *peer_inbox; /* mapped likewise */
	uint8_t side; /* of the segment: 0 created it, 1 took it */

	/* Receiving. */
	struct ring_rx rx;
	uint64_t rx_unlooked; /* ours: bytes read since rx_outlives() looked */
	uint64_t rx_tcp_base; /* bytes of TCP that were read so far */
	uint64_t cookie;      /* the anchor's (SO_COOKIE) */
	int64_t rx_tcp_left;  /* bytes of TCP before the ring, once known */
	/* proto/shm/readahead.c: TCP bytes that wait here, in memory that forks
	 * share. */
	uint8_t *readahead;
	uint32_t readahead_pos, readahead_end;
	uint32_t bells_drained;
	uint8_t saw_anchor_end; /* ours: it found that the peer has ended */

	/* Sending. */
	alignas(CACHE_LINE) struct ring_tx tx;
	uint8_t tx_fin;       /* a FIN record was pushed */
	uint64_t tx_tcp_base; /* bytes sent by TCP, exact while PENDING */
	uint32_t tx_full_at; /* ours: the peer's tail, when there was no room */
	uint64_t tx_full_ns; /* ours: since when it is that; 0: no matter */
	uint32_t tx_limit;   /* bytes in flight at most, from SO_SNDBUF */
	uint32_t corked_bytes; /* of records that wait for more; 0: none */
	uint32_t granted;      /* ours: bytes of the ring beyond the window */
	uint32_t bulk_bytes;   /* ours: in large chunks, since bulk_since_ns */
	uint64_t bulk_since_ns;
	uint32_t n_bulk_slow; /* looks at the pace in a row; see tx_grow.c */
	uint32_t corked_at; /* the first of them, whose header is not stored */
	uint64_t corked_hdr, corked_since_ns;
	uint8_t fin_due;       /* the kernel's FIN, once the peer has settled */
	uint8_t saw_unsettled; /* ours: somebody may sleep because of that */
	uint8_t is_orphan; /* ours: no process has the peer's socket any more */

	/* The upgrade. */
	int32_t proposal_fd;  /* the listener of our proposal, or 0 */
	int32_t channel_fd;   /* to the acceptor of our segment, or 0 */
	int32_t refusal;      /* why the peer may not share memory, or 0 */
	struct notice notice; /* what the TCP socket shows meanwhile */
	uint32_t inbox_tag; /* of our inbox that the peer was given; 0: none */
	uint32_t slot;      /* this side's slot in its own inbox */

	struct shm_lend *lend; /* lend.c; NULL: nobody uses it */
};

static_assert(sizeof(struct shm_conn) <= SOCK_CONN_BYTES,
	      "it lies in sock.conn");

/* In sock_words.proto. */
struct shm_words {
	uint8_t rx_tcp;  /* 1: bytes may still be in TCP, ahead of the ring */
	uint8_t rx_eof;  /* a FIN record, or the anchor's FIN, was reached */
	uint8_t rx_back; /* the peer's BACK record was reached */
	uint8_t
	    fell_back; /* we ended the ring alone: there are no doorbells any more */
	uint8_t rx_broken;  /* the peer broke the protocol */
	uint8_t peer_died;  /* PEER_*: its process has ended without closing */
	uint8_t tx_ring;    /* 1: the ring, 0: still (or again) TCP */
	uint8_t bell_waits; /* the kernel holds a doorbell back */
};

static_assert(sizeof(struct shm_words) <= SOCK_PROTO_WORDS,
	      "they lie in sock_words.proto");

enum {
	PEER_LIVES,
	PEER_READ_ALL, /* the stream ends as with a FIN */
	PEER_TOLD, /* and we have written since: as with a reset that follows */
	PEER_RESET, /* it left bytes unread */
};

static inline struct shm_conn *shm_of(const struct sock *sk)
{
	return (struct shm_conn *)sk->conn;
}

static inline struct shm_words *shm_w(const struct sock *sk)
{
	return (struct shm_words *)sk->w->proto;
}
