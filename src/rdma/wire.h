/* SPDX-License-Identifier: MIT */
/*
 * rdma/wire.h - RoCEv2 between hosts: the UDP socket, and who reads it
 *
 *     a queue pair's machine (roce/conn.h) -> wire_put() ... wire_flush() -> UDP port 4791
 *     UDP port 4791 -> wire_progress() -> the queue pair of the packet's number
 *
 * wire_progress() runs in the program's own polls.  An RDMA write or read needs an answer
 * at any time, so a thread calls it when the program does not poll.  That thread starts
 * with the port and sleeps while the program polls.
 *
 * Locks: wire.rx_lock, then a queue pair's; a thread that holds wire.tx_lock takes no
 * other.
 */
#pragma once

#include "rdma/core.h"
#include "rdma/roce/icrc.h"
#include "rdma/roce/packet.h"

/* Ready to send and receive.  0; -EADDRINUSE: the port is a stranger's; -errno. */
MUST_CHECK int wire_open(void);
/* The way from GID @sgid of this host to @dgid.  False: there is none. */
MUST_CHECK bool wire_flow(const union ibv_gid *sgid, const union ibv_gid *dgid,
			  struct roce_flow *f);
/* The same as GIDs. */
void wire_gid(const struct roce_flow *f, const uint8_t *addr,
	      union ibv_gid *gid);
/* Send a packet, soon: wire_flush() is the latest. */
void wire_put(const struct roce_flow *f, struct roce_head *h,
	      const struct iovec *iov, int n);
void wire_flush(void);
/* wire_attach(): packets for @qp may come from now on.  wire_detach(): none comes any more;
 * it waits until no thread handles one, so the caller holds no lock. */
void wire_attach(struct qp *qp);
void wire_detach(struct qp *qp);
/* A queue pair of this process enters a group, or leaves it.  If the kernel refuses to join
 * the group, it has members on this host alone. */
void wire_group_join(const union ibv_gid *gid);
void wire_group_leave(const union ibv_gid *gid);
/* Somebody has to call wire_progress() at @ns. */
void wire_wake_at(uint64_t ns);
/* Start the thread. */
void wire_help(void);
/* Receives the packets that are there, and does what is due.  @is_thread: the caller is the
 * thread, which also receives what comes rarely: packets from other processes, and for
 * special numbers.  False: another thread is doing it. */
bool wire_progress(bool is_thread);
extern bool wire_is_open;
/* The same in a program's poll that has found nothing. */
static inline void wire_poll(void)
{
	if (unlikely(load_acq(&wire_is_open)))
		(void)wire_progress(false);
}
void wire_after_fork(void);

/* Who has the datagrams to queue pair 1 (cm/bridge.h).  It is called with rx_lock held. */
enum wire_verdict { WIRE_TAKEN, WIRE_FOR_BLOCK, WIRE_FOR_ALL };
struct wire_bridge {
	/* @is_first_hand: no other process has had it. */
	enum wire_verdict (*mad)(const struct roce_flow *f, const uint8_t *p,
				 size_t n, bool is_first_hand, uint32_t *block);
	/* It is @now.  When to call again; 0: never. */
	uint64_t (*tick)(uint64_t now);
	/* @fd is readable. */
	void (*ready)(void);
};
void wire_set_bridge(const struct wire_bridge *b, int fd);

/* roce_qp.c, roce_ud.c */
struct roce_qp;
/* The peer is on another host. */
void roce_qp_open(struct qp *qp);
void roce_qp_send(struct qp *qp);
void roce_qp_set_psn(struct qp *qp);
/* Timers and counts of tries. */
void roce_qp_set_times(struct qp *qp);
/* It fails, or is reset. */
void roce_qp_stop(struct qp *qp);
void roce_qp_free(struct qp *qp);
/* Packets of a batch, which came at @now, then its end.  The caller holds the queue pair's lock. */
void roce_qp_packet(struct qp *qp, const struct roce_flow *f,
		    const struct roce_head *h, uint64_t now);
void roce_qp_end(struct qp *qp, bool may_wait, uint64_t now);
/* Does an acknowledgement wait?  Only where it may: roce_qp_late() sends it. */
bool roce_qp_waits(const struct qp *qp);
void roce_qp_late(struct qp *qp);
void roce_qp_tick(struct qp *qp, uint64_t now);
/* When roce_qp_tick() is due; 0: never. */
uint64_t roce_qp_deadline(const struct qp *qp);
/* A queue pair of datagrams is ready to receive. */
void roce_ud_open(struct qp *qp);
int roce_ud_send(struct qp *qp, struct swqe *w);
void roce_ud_packet(struct qp *qp, const struct roce_flow *f,
		    const struct roce_head *h);
