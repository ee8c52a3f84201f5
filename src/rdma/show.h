/* SPDX-License-Identifier: MIT */
/*
 * rdma/show.h - what the device does, shown to `osf tap' as RoCEv2 packets
 *
 *     tx.c, rx.c -> show_request(), show_answer(), ... (show.c): which packets
 *     wire_tx.c, wire.c -> show_packet() (show_packet.c): IP and UDP around them
 *         -> port/tap.h -> osf tap
 *
 * Between two processes of one host no packet exists: a message is a copy.  While somebody
 * reads the tap, each side of a queue pair shows the packets that two hosts would have
 * exchanged for what this side has done, and numbers them from the queue pair's sq_psn and
 * rq_psn on.  If a peer writes or reads a process's memory without its help, only the peer
 * shows that.
 *
 * While nobody reads, a message costs a load and a branch or two more.  Callers ask
 * show_is_wanted() first.
 */
#pragma once

#include "rdma/core.h"
#include "rdma/roce/icrc.h"
#include "rdma/roce/packet.h"

/* Until when a reader wants packets, or 0.  The memory is shared with the reader. */
extern const uint64_t *show_until;

static inline bool show_is_wanted(void)
{
	return unlikely(load_rlx(show_until) != 0);
}

/* Packets can be shown from now on; without memory for it, none are. */
void show_open(void);
/* A child has none of its parent's memory. */
void show_after_fork(void);

/* show.c.  The caller holds the queue pair's lock. */
/* @w was executed: shows its request, unless @w has failed on this side. */
COLD void show_request(struct qp *qp, const struct swqe *w);
/* @w is over: shows its responder's answer. */
COLD void show_answer(struct qp *qp, const struct swqe *w);
/* Shows the peer's message, which is in the receive that was taken (qp.in.wqe). */
COLD void show_arrival(struct qp *qp, const struct x_msg *m);
/* Shows that the peer's message is refused: @m is a MSG_ERROR. */
COLD void show_refusal(struct qp *qp, const struct x_msg *m);

/* show_packet.c */
/* Does anybody still want packets?  Then the number of this time of reading, else 0. */
uint32_t show_begin(void);
/* A packet from the BTH up to its ICRC.  @id: the identification that the ICRC covers. */
COLD void show_packet(bool is_out, const struct roce_flow *f, uint16_t id,
		      const uint8_t *p, size_t n);
