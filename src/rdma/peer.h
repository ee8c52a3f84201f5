/* SPDX-License-Identifier: MIT */
/*
 * rdma/peer.h - other processes and their queue pairs, to be read
 *
 *     QP number -> block -> unix socket's name -> the kernel: whose is it?
 *               -> proto/shm/trust.h: may we?  -> /proc/PID/fd -> the directory
 *               -> the queue pair's memory
 *
 * We notice by its pidfd that a process has died.  What it has exported stays readable, so
 * that a receiver still gets the messages that it sent before.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/lock.h"
#include "rdma/export.h"

struct peer {
	struct peer *next;
	int pid, pidfd, flock_fd;
	uint32_t block, n_refs;
	const struct x_dir *dir;
	bool is_dead;
	bool stays_inside; /* it is not waited for any more (users.h) */
	/* process_vm_readv() and its kin: refused if negative */
	int8_t may_reach;
	struct lock atomic_lock;
};

/* A queue pair of another process (or of this one), mapped for reading. */
struct remote {
	struct peer *peer; /* NULL: not connected */
	const struct x_qp *x;
	size_t bytes;
	/* Copied and checked once. */
	uint32_t qpn, gen, ring_size, n_recv, recv_sge, type;
	size_t recv_bytes; /* of each */
	const uint8_t *ring;
	const uint8_t *recv; /* n_recv of struct x_recv */
	uint32_t send_cq, recv_cq;
	bool has_srq, has_reply;
	const uint8_t *reply;
	/* The last pipes we have rung, by number there and here. */
	struct {
		int32_t theirs;
		int fd;
		uint32_t arm;
	} bell[3];
};

/* Is there a message at @pos of its ring?  For the first message the ring's memory does not
 * say it, but has_begun does: a look at a ring that nobody has written would make the
 * kernel give it memory, and a queue pair that was reset may have left a stamp there. */
static inline bool remote_has_message(const struct remote *r, uint64_t pos)
{
	const struct x_msg *m =
	    (const void *)(r->ring + (pos & (r->ring_size - 1)));

	return likely(pos) ? load_acq(&m->stamp) ==
				 msg_stamp(pos, r->ring_size) /* E1 */
			   : load_acq(&r->x->has_begun) != 0;
}

/* Find a queue pair.  Return: 0; -ENOENT: nobody has the number; -EPERM, -EXDEV: its
 * process is one that we may not share memory with; or another -errno */
MUST_CHECK int remote_open(struct remote *r, uint32_t qpn);
/* The same of what process @pid has as descriptor @fd. */
MUST_CHECK int remote_adopt(struct remote *r, int pid, int fd, uint32_t qpn);
void remote_close(struct remote *r);
/* Has the process at the other end ended?  A system call. */
bool peer_has_ended(struct peer *p);
/* The process that has @block; the caller puts it back.  0 or -errno. */
MUST_CHECK int peer_get(uint32_t block, struct peer **out);
void peer_put(struct peer *p);

enum { BELL_RECV, BELL_SEND, BELL_HELPER };
/* A pipe of the peer's, number @theirs there, opened here once; -1. */
int remote_bell(struct remote *r, int which, int32_t theirs);
static inline const struct x_cq *remote_cq(const struct remote *r, int which)
{
	return &r->peer->dir->cq[which == BELL_RECV ? r->recv_cq : r->send_cq];
}

/* Without a channel, which a completion queue gets when it is made, nobody sleeps for it. */
static inline bool remote_may_sleep(const struct remote *r, int which)
{
	return load_rlx(&remote_cq(r, which)->bell) >= 0;
}

/* Ring the peer's completion queue for receives or sends if it is armed, once for each
 * arming. */
void remote_ring(struct remote *r, int which, bool is_solicited);
/* Forget a child's inherited peers. */
void peer_after_fork(void);
