/* SPDX-License-Identifier: MIT */
/* rdma/mcast.c - see rdma/mcast.h */
#include <errno.h>
#include <string.h>

#include "rdma/lookup.h"
#include "rdma/mcast.h"
#include "rdma/wire.h"

#define N_PEERS 256u /* processes that a sender looks at */
#define PRUNE 256u   /* datagrams between looks at who has ended */

static struct lock lock;
static struct {
	struct peer *peer[N_PEERS];
	uint32_t n, n_sent;
	bool is_known;
} others;

bool mcast_is_group(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return gid->raw[0] == 0xff ||
	       (!memcmp(gid->raw, mapped, sizeof(mapped)) &&
		(gid->raw[12] & 0xf0) == 0xe0);
}

uint32_t mcast_hash(const uint8_t gid[16])
{
	uint32_t h = 2166136261u; /* FNV-1a */

	for (size_t i = 0; i < 16; i++)
		h = (h ^ gid[i]) * 16777619u;
	return h;
}

/*
 * Members.
 */

static struct x_mcast *entry(const struct qp *qp, const union ibv_gid *gid)
{
	struct x_dir *dir = self_current->dir;

	for (uint32_t i = 0; i < N_MCASTS; i++)
		if (dir->mcast[i].qpn == qp->qp.qp_num &&
		    !memcmp(dir->mcast[i].gid, gid->raw, sizeof(gid->raw)))
			return &dir->mcast[i];
	return NULL;
}

static struct x_mcast *free_entry(struct x_dir *dir)
{
	for (uint32_t i = 0; i < N_MCASTS; i++)
		if (!dir->mcast[i].qpn)
			return &dir->mcast[i];
	return NULL;
}

/* Once in the life of a process; later its directory tells. */
static void knock(struct self *s)
{
	static uint32_t done; /* by the number of forks */
	const struct hello h = { .magic = KNOCK_MAGIC };
	uint32_t blocks[N_PEERS], n;

	if (done == s->generation)
		return;
	done = s->generation;
	n = lookup_blocks(blocks, N_PEERS);
	for (uint32_t i = 0; i < n; i++)
		if (blocks[i] != s->block)
			ud_greet(blocks[i], &h);
	mcast_knocked();
}

static bool may_attach(const struct qp *qp, const union ibv_gid *gid)
{
	return qp->init.qp_type == IBV_QPT_UD && mcast_is_group(gid) &&
	       qp->generation == self_generation();
}

/* 0, ENOMEM, or -1: it is a member already. */
static int enter(struct self *s, struct qp *qp, const union ibv_gid *gid)
{
	GUARD(&s->lock);
	if (entry(qp, gid))
		return -1;
	struct x_mcast *m = free_entry(s->dir);
	if (!m)
		return ENOMEM;
	memcpy(m->gid, gid->raw, sizeof(m->gid));
	store_rel(&m->qpn, qp->qp.qp_num);
	fence_full();
	knock(s);
	return 0;
}

/* False: it is no member. */
static bool leave(struct self *s, struct qp *qp, const union ibv_gid *gid)
{
	GUARD(&s->lock);
	struct x_mcast *m = entry(qp, gid);

	if (m)
		store_rel(&m->qpn, 0);
	return m != NULL;
}

int rdma_attach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid,
		      uint16_t lid)
{
	struct qp *qp = container_of(ibqp, struct qp, qp);
	struct self *s = self_current;

	if (!may_attach(qp, gid))
		return EINVAL;
	int err = enter(s, qp, gid);
	if (!err)
		wire_group_join(gid);
	return err < 0 ? 0 : err;
}

int rdma_detach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid,
		      uint16_t lid)
{
	struct qp *qp = container_of(ibqp, struct qp, qp);
	bool was_member;

	if (!may_attach(qp, gid))
		return EINVAL;
	lock_get(
	    &qp->lock); /* a thread that receives has looked the group up */
	was_member = leave(self_current, qp, gid);
	lock_put(&qp->lock);
	if (was_member)
		wire_group_leave(gid);
	return was_member ? 0 : EINVAL;
}

bool mcast_is_member(const struct qp *qp)
{
	if (qp->init.qp_type != IBV_QPT_UD)
		return false;
	for (uint32_t i = 0; i < N_MCASTS; i++)
		if (self_current->dir->mcast[i].qpn == qp->qp.qp_num)
			return true;
	return false;
}

const uint8_t *mcast_group(const struct qp *qp, uint32_t hash)
{
	const struct x_dir *dir = self_current->dir;

	for (uint32_t i = 0; i < N_MCASTS; i++) {
		const uint8_t *gid = dir->mcast[i].gid;

		if (load_acq(&dir->mcast[i].qpn) == qp->qp.qp_num &&
		    mcast_hash(gid) == hash)
			return gid;
	}
	return NULL;
}

/*
 * Senders.
 */

void mcast_knocked(void) { store_rel(&others.is_known, false); }

/* Their descriptors stay; the parent's objects may refer to them. */
void mcast_after_fork(void)
{
	lock = (struct lock){ 0 };
	memset(&others, 0, sizeof(others));
}

static void forget(void)
{
	for (uint32_t i = 0; i < others.n; i++)
		peer_put(others.peer[i]);
	others.n = 0;
}

static void list_others(void)
{
	uint32_t blocks[N_PEERS];

	store_rel(&others.is_known,
		  true); /* who knocks from here on is heard */
	fence_full();
	forget();
	uint32_t n = lookup_blocks(blocks, N_PEERS);
	for (uint32_t i = 0; i < n; i++)
		if (!peer_get(blocks[i], &others.peer[others.n]))
			others.n++;
}

static void see_others(void)
{
	ud_accept();
	if (!load_acq(&others.is_known) || ++others.n_sent % PRUNE == 0)
		list_others();
}

/* To each member of one process. */
static void send_there(struct qp *qp, const struct swqe *w,
		       const struct x_dir *dir, const struct iovec *iov, int n)
{
	uint64_t route = (uint64_t)mcast_hash(w->dgid.raw) << 32 | w->route;

	for (uint32_t i = 0; i < N_MCASTS; i++) {
		uint32_t qpn = load_acq(&dir->mcast[i].qpn);

		if (!qpn ||
		    memcmp(dir->mcast[i].gid, w->dgid.raw, sizeof(w->dgid.raw)))
			continue;
		if (qpn >> QPN_BITS != dir->block ||
		    (qpn == qp->qp.qp_num && qp->hears_no_self))
			continue;
		if (ud_send_to(qp, w, qpn, iov, n, route) == -EAGAIN)
			count(&rdma_counters->dropped, 1);
	}
}

int mcast_send(struct qp *qp, struct swqe *w)
{
	struct iovec iov[N_SGE];
	int n = ud_gather(qp, w, iov);

	if (n < 0)
		return IBV_WC_LOC_PROT_ERR;
	GUARD(&lock);
	see_others();
	for (uint32_t i = 0; i < others.n; i++)
		send_there(qp, w, others.peer[i]->dir, iov, n);
	return load_acq(&wire_is_open) ? roce_ud_send(qp, w)
				       : (int)IBV_WC_SUCCESS;
}
