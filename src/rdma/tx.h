/* SPDX-License-Identifier: MIT */
/*
 * rdma/tx.h - executing one request of a send queue
 *
 *     tx.c -> message.c    a send: into the ring, or into the receive
 *          -> one_sided.c  a write, read or atomic operation
 *             -> ask.c     where the receiver has to execute it
 *          -> ud.c         a datagram
 *     all of them -> way.c: is the receiver there, is there room, how long to wait
 */
#pragma once

#include "rdma/core.h"

/* TX_DONE: swqe.status says how it went. */
enum tx { TX_BLOCKED, TX_DONE };

static inline enum tx tx_done(struct swqe *w, enum ibv_wc_status status)
{
	w->status = (uint8_t)status;
	return TX_DONE;
}

/* message.c, one_sided.c, ask.c */
enum tx tx_message(struct qp *qp, struct swqe *w);
enum tx tx_one_sided(struct qp *qp, struct swqe *w);
enum tx tx_ask(struct qp *qp, struct swqe *w);
void tx_take_replies(struct qp *qp);
/* The ring is full: wait, or lose an unreliable message. */
enum tx tx_no_room(struct qp *qp, struct swqe *w);
/* A receive for it, if it takes one.  NULL with *@verdict: wait, or an error. */
const struct x_recv *tx_find_recv(struct qp *qp, struct swqe *w,
				  const struct x_qp *t, enum tx *verdict);

/* How long to wait for a receive; 0: for ever. */
uint64_t tx_rnr_ns(const struct qp *qp, const struct x_qp *t);

/* Says that we are inside the receiver's memory.  The receiver waits for tx_leave() before
 * it lets the program free memory.  The caller checks the keys between the two calls. */
static inline void tx_enter(struct qp *qp)
{
	store_rlx(&qp->x->n_inside, 1);
	fence_full();
}

static inline void tx_leave(struct qp *qp) { store_rel(&qp->x->n_inside, 0); }

void tx_count_one_sided(const struct swqe *w);
/* tx.c: the oldest request is over.  A failure ends the queue pair. */
void tx_over(struct qp *qp, const struct swqe *w, enum ibv_wc_status status);

/* way.c */
/* Has the queue pair waited longer than @limit for this request?  0: for ever. */
bool tx_waits_too_long(struct qp *qp, uint64_t limit);
/* The peer's process has ended, and now is the time to say so (cq.c); else it is put off. */
bool tx_may_tell_end(struct qp *qp);
/* The peer cannot be reached, or does not answer. */
enum tx tx_no_answer(struct qp *qp, struct swqe *w);
/* The receiver, if it is ready for us. */
const struct x_qp *tx_receiver(struct qp *qp);
/* Has our ring room for @length bytes?  Looks how far the receiver has read. */
bool tx_fits(struct qp *qp, uint32_t length);
/* How far the receiver has read. */
void tx_see_tail(struct qp *qp);
/* Where @w's bytes lie here, from @off on, @length at most.  -1: a key is wrong. */
int tx_gather(struct qp *qp, const struct swqe *w, uint32_t off,
	      uint32_t length, uint32_t access, struct iovec *iov);
/* What a header says of where it comes from; of XRC, where it goes. */
static inline uint32_t tx_source(const struct qp *qp, const struct swqe *w)
{
	return qp->init.qp_type == IBV_QPT_XRC_SEND ? w->dest_qpn
						    : qp->qp.qp_num;
}

struct x_msg tx_header(const struct qp *qp, const struct swqe *w);
/* A message without bytes.  False: no room. */
bool tx_put_short(struct qp *qp, struct x_msg m, enum msg_op op);
/* Tell the receiver that it fails, too. */
enum tx tx_fail_both(struct qp *qp, struct swqe *w, enum ibv_wc_status there,
		     enum ibv_wc_status here);
