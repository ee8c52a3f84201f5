/* SPDX-License-Identifier: MIT */
/*
 * rdma/export.h - memory that one process writes and others only read
 *
 *     directory (one a process)    queue pairs, memory regions, completion queues
 *     queue pair (one each)        state, receive queue, a ring of messages to its peer
 *
 * Each is a memfd that only its owner can write: F_SEAL_FUTURE_WRITE forbids every later
 * writable mapping and every write().  So a process changes no memory of another process
 * here.  It can only lie in its own memory, and readers check what they read.  There are no
 * locks: a reader takes a number, copies what it stands for, and checks its bounds.
 *
 * A reader finds the files in /proc/PID/fd of the owner, which needs what ptrace(2) calls
 * read access: the same user, and no less privileged.
 *
 * Pairs of release and acquire:
 *   E1  a message's bytes and header; `x_msg.stamp`   -> the receiver
 *   E2  the receiver's last read; `tail`              -> the sender, who writes there
 *   E3  a receive's description; `n_posted`           -> the sender
 *   E4  what a queue pair is; `state`                 -> everybody
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define EXPORT_MAGIC UINT64_C(0x0a616d64726673ff)
#define EXPORT_VERSION 8u

#define N_QPS 1024u /* of one process: the low bits of a QP number */
#define QPN_BITS 10u
#define N_MRS 16384u
#define N_CQS 4096u
#define N_SRQS 1024u  /* for XRC: the low bits of their numbers */
#define N_MCASTS 128u /* members of groups */
#define N_LINKS 128u  /* senders of datagrams to one queue pair */
#define N_SGE 16u

enum x_kind { X_FREE, X_REGION, X_WINDOW };

/* In x_mr.access: the key is a local one, too.  No value of the program's has this bit. */
#define X_LOCAL 0x80000000u

/* A memory region or a memory window, as others may address it. */
struct x_mr {
	uint32_t key; /* plus 1; 0: none, or a window that is not bound */
	uint32_t access;
	uint64_t iova, length;
	uint64_t addr; /* of iova, in the owner's memory */
	uint32_t pd;
	uint32_t qpn; /* the only queue pair that may be asked; 0: any */
	/* The owner's own business. */
	uint32_t kind;      /* enum x_kind */
	uint32_t n_windows; /* that are bound to this region */
	uint32_t region;    /* of a window that is bound */
	uint32_t unused[3];
};

/* A completion queue: who has news for it rings the pipe if it is armed. */
struct x_cq {
	alignas(
	    CACHE_LINE) uint32_t arm; /* CQ_ARMED | a number; 0: not armed */
	int32_t bell;                 /* the pipe's descriptor */
	uint32_t size;                /* for `osf rdma'; 0: there is none */
};

enum { CQ_ARMED = 1, CQ_SOLICITED = 2, CQ_ARM_STEP = 4 };

/* A shared receive queue that messages name (XRC). */
struct x_srq {
	uint32_t num; /* 0: none */
	uint32_t domain, pd, cq;
};

/* A queue pair that is a member of a group. */
struct x_mcast {
	uint32_t qpn; /* 0: none */
	uint8_t gid[16];
};

/* What a process has done.  Increments may get lost between two threads. */
struct x_counters {
	uint64_t sends, send_bytes, recvs, recv_bytes;
	uint64_t writes, write_bytes, reads, read_bytes, atomics;
	uint64_t placed;  /* sends straight into the receiver's memory */
	uint64_t dropped; /* datagrams and messages of unreliable connections */
	uint64_t errors;  /* queue pairs that went to the error state */
};

struct x_dir {
	uint64_t magic;
	uint32_t version, block;
	int32_t helper;       /* its pipe plus 1 (helper.c); 0: none */
	int32_t qp_fd[N_QPS]; /* its memfd plus 1; 0: none */
	struct x_mr mr[N_MRS];
	struct x_cq cq[N_CQS];
	struct x_srq srq[N_SRQS];
	struct x_mcast mcast[N_MCASTS];
	struct x_counters counters;
};

/* One receive that its owner has posted.  Only the first x_qp.recv_sge parts have memory. */
struct x_recv {
	uint32_t n_sge;
	uint32_t length; /* of all together */
	struct {
		uint64_t addr;
		uint32_t length, lkey;
	} sge[N_SGE];
};

/* How far a datagram's receiver has read a sender's ring. */
struct x_link {
	uint32_t qpn, gen; /* the sender's; 0: free */
	uint64_t tail;
};

struct x_qp {
	uint64_t magic;
	uint32_t version, qpn;
	uint32_t type, ring_size, n_recv, has_srq;
	uint32_t send_cq, recv_cq;
	uint32_t has_reply; /* a ring of replies follows the other one */
	uint32_t domain;    /* of XRC */
	uint32_t recv_sge;  /* parts of a receive, at most */

	/* E4 */
	alignas(CACHE_LINE) uint32_t state; /* enum ibv_qp_state */
	uint32_t dest_qpn, gen, access, pd, qkey, min_rnr;
	uint32_t src_gen; /* the peer's gen to which tail and n_acked refer */
	uint32_t is_far;  /* the peer is on another host, for `osf rdma' */
	uint8_t dgid[16]; /* the peer's, for `osf rdma' */

	/* As sender.  A message changes nothing here. */
	alignas(CACHE_LINE) uint32_t has_begun; /* E1, of the first message */
	uint32_t is_blocked; /* waits for a receive, or for space */
	uint32_t n_inside;   /* in the receiver's memory, just here */
	uint64_t reply_tail; /* E2, of the peer's replies */

	/* As receiver. */
	alignas(CACHE_LINE) uint64_t tail; /* E2 */
	uint32_t n_acked;                  /* messages */
	uint32_t n_posted;                 /* E3 */
	uint64_t reply_head;               /* E1 */
	uint32_t is_rnr; /* the next message waits for a receive */
	uint32_t
	    refused; /* enum ibv_wc_status: the next message has ended this one */

	alignas(CACHE_LINE) struct x_link link[N_LINKS];
};

/* A fragment of a message in a ring; the next one is at a multiple of RING_LINE.  The
 * receiver waits for the stamp, so a short message costs the transfer of one cache line
 * from core to core. */
struct x_msg {
	uint32_t length; /* of this fragment, which follows */
	uint8_t op;
	uint8_t flags;
	uint16_t stamp; /* E1: msg_stamp() once the message is complete */
	uint32_t imm;   /* or the key to invalidate; network order, as given */
	uint32_t total;
	uint32_t src_qpn; /* of XRC: the shared receive queue's number */
	uint32_t qkey;
	uint64_t
	    addr; /* of a connected sender's message: SHOW_PSN and its number */
};

/* The message has a number, for packets that are shown (show.h). */
#define SHOW_PSN (UINT64_C(1) << 32)

enum msg_op {
	MSG_SEND = 1,
	MSG_PLACED, /* the bytes are in the receiver's memory already */
	MSG_WRITE_IMM,
	MSG_ERROR, /* the sender has failed for @imm, an enum ibv_wc_status */
	/* What the receiver is to do (serve.c): @addr and, in @qkey, the key. */
	MSG_WRITE,
	MSG_READ,
	MSG_ATOMIC, /* @imm: compare and swap; with its operands */
	MSG_REPLY,  /* in the other ring; @imm: an enum ibv_wc_status */
};

enum {
	MSG_FIRST = 1,
	MSG_LAST = 2,
	MSG_SOLICITED = 4,
	MSG_IMM = 8,
	MSG_INV = 16
};

#define RING_LINE 32u
#define RING_SIZE (256u * 1024) /* a power of two */
#define REPLY_SIZE (128u * 1024)
#define RING_SIZE_MAX (16u * 1024 * 1024)
#define FRAGMENT (32u * 1024)
#define N_RECV_MAX 32768u

static_assert(sizeof(struct x_msg) == RING_LINE, "one line");
static_assert(sizeof(struct x_mr) == CACHE_LINE, "one line");

/* The stamp of a message at @pos.  It differs from the stamp that the same place of the
 * ring had one round before, and is never 0.  @ring_size: a power of two */
static inline uint16_t msg_stamp(uint64_t pos, uint32_t ring_size)
{
	return (uint16_t)(pos >> __builtin_ctz(ring_size) | 0x8000);
}
/* How a queue pair's memory is divided.  A receive has no more room than the program asked
 * for: with room for all that the device allows, an idle queue pair would take ten times
 * the memory. */
struct x_shape {
	uint32_t n_recv, recv_sge, ring_size;
	bool has_reply;
};

static inline size_t export_recv_bytes(uint32_t recv_sge)
{
	return offsetof(struct x_recv, sge) +
	       recv_sge * sizeof(((struct x_recv *)NULL)->sge[0]);
}

static inline size_t export_ring_offset(const struct x_shape *s)
{
	size_t end =
	    sizeof(struct x_qp) + s->n_recv * export_recv_bytes(s->recv_sge);

	return (end + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

static inline size_t export_qp_bytes(const struct x_shape *s)
{
	return export_ring_offset(s) + s->ring_size +
	       (s->has_reply ? REPLY_SIZE : 0);
}

/* Make memory that others may read: a sealed memfd, mapped at *@map; -errno. */
MUST_CHECK int export_new(const char *name, size_t bytes, void **map);
/* Map for reading what process @pid has as descriptor @fd, if it is sealed memory.
 * 0 or -errno. */
MUST_CHECK int import_map(int pid, int fd, const void **map, size_t *bytes);
/* Find the descriptor of process @pid whose memory is called @name; -errno. */
MUST_CHECK int import_find(int pid, const char *name);
/* Open for writing the pipe that process @pid has as descriptor @fd; -errno. */
MUST_CHECK int import_pipe(int pid, int fd);
