/* SPDX-License-Identifier: MIT */
/*
 * rdma/mcast.h - datagrams to groups, on this host and on others
 *
 *     rdma_attach_mcast()  writes group and queue pair into an entry of the directory
 *     mcast_send()         looks through the directories of all processes that we may share
 *                          memory with, and sends each member a datagram of its own (ud.c);
 *                          sends one packet to all other hosts (wire_group.c)
 *
 * A sender lists the processes of the device once.  A process that joins its first group
 * knocks at the sockets of all others, and each of them then makes its list again.
 */
#pragma once

#include "rdma/core.h"

#define MCAST_QPN 0xffffffu
#define MCAST_BLOCK (MCAST_QPN >> QPN_BITS)
#define MCAST_INDEX 0xffu /* in place of the number of a GID of ours */

bool mcast_is_group(const union ibv_gid *gid);
int rdma_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid,
		      uint16_t lid);
int rdma_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid,
		      uint16_t lid);
bool mcast_is_member(const struct qp *qp);
/* A status.  A member whose ring is full loses it. */
int mcast_send(struct qp *qp, struct swqe *w);
/* What a message says of its group, in place of 16 bytes. */
uint32_t mcast_hash(const uint8_t gid[16]);
/* The group of @hash that @qp is a member of; NULL. */
const uint8_t *mcast_group(const struct qp *qp, uint32_t hash);
/* Somebody has joined a first group. */
void mcast_knocked(void);
void mcast_after_fork(void);

/* ud.c */
#define KNOCK_MAGIC UINT64_C(0x6b6f6e6b66736fff)
struct hello {
	uint64_t magic;
	uint32_t src_qpn, dst_qpn;
	int32_t fd;
};
/* Say something to the process that has @block; -errno. */
int ud_greet(uint32_t block, const struct hello *h);
/* One datagram to one queue pair: a status, or -EAGAIN. */
int ud_send_to(struct qp *qp, const struct swqe *w, uint32_t qpn,
	       const struct iovec *iov, int n, uint64_t route);
/* The parts of @w's bytes; -1: a key is wrong. */
int ud_gather(struct qp *qp, const struct swqe *w, struct iovec *iov);
