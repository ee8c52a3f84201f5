/* SPDX-License-Identifier: MIT */
/*
 * rdma/one_sided.c - RDMA writes, reads and atomic operations
 *
 * The initiator executes them: it checks the key in the receiver's directory, and copies
 * (reach.c).  They are over when tx_one_sided() returns, unless the kernel refuses the
 * copy: then the receiver executes them (ask.c).
 */
#include <errno.h>
#include <string.h>

#include "rdma/mw.h"
#include "rdma/xrc.h"

static const struct {
	uint32_t remote, local;
} one_sided[] = {
	[IBV_WR_RDMA_WRITE] = { IBV_ACCESS_REMOTE_WRITE, 0 },
	[IBV_WR_RDMA_WRITE_WITH_IMM] = { IBV_ACCESS_REMOTE_WRITE, 0 },
	[IBV_WR_RDMA_READ] = { IBV_ACCESS_REMOTE_READ, IBV_ACCESS_LOCAL_WRITE },
	[IBV_WR_ATOMIC_CMP_AND_SWP] = { IBV_ACCESS_REMOTE_ATOMIC,
					IBV_ACCESS_LOCAL_WRITE },
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = { IBV_ACCESS_REMOTE_ATOMIC,
					  IBV_ACCESS_LOCAL_WRITE },
};

void tx_count_one_sided(const struct swqe *w)
{
	struct x_counters *c = rdma_counters;

	if (w->opcode == IBV_WR_RDMA_READ) {
		count(&c->reads, 1);
		count(&c->read_bytes, w->length);
	} else if (w->opcode == IBV_WR_RDMA_WRITE ||
		   w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
		count(&c->writes, 1);
		count(&c->write_bytes, w->length);
	} else {
		count(&c->atomics, 1);
	}
}

/* @here has room for one part more.  Bytes, or -errno. */
static ssize_t reach_into(struct qp *qp, struct swqe *w, uint64_t addr,
			  struct iovec *here, unsigned n)
{
	struct iovec there = { (void *)(uintptr_t)addr, w->length };
	uint64_t old;

	/* What comes with immediate data has a completion to wait for. */
	if (w->opcode == IBV_WR_RDMA_WRITE)
		n = reach_cut(here, n, reach_last(addr, w->length));
	if (w->opcode != IBV_WR_ATOMIC_CMP_AND_SWP &&
	    w->opcode != IBV_WR_ATOMIC_FETCH_AND_ADD)
		return reach(qp->remote.peer, here, n, &there, 1,
			     w->opcode != IBV_WR_RDMA_READ);
	int err = reach_atomic(qp->remote.peer, addr,
			       w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP,
			       w->compare_add, w->swap, &old);
	if (!err)
		memcpy(here[0].iov_base, &old, sizeof(old));
	return err;
}

/* IBV_WC_RESP_TIMEOUT_ERR: the receiver's process is gone.  No program sees it. */
static enum ibv_wc_status status_of(ssize_t err)
{
	return err >= 0            ? IBV_WC_SUCCESS
	       : err == -EPERM     ? IBV_WC_REM_OP_ERR
	       : err == -ESRCH     ? IBV_WC_RESP_TIMEOUT_ERR
	       : err == -ETIMEDOUT ? IBV_WC_RETRY_EXC_ERR
				   : IBV_WC_REM_ACCESS_ERR;
}

/*
 * This process says that it is inside before it reads the receiver's keys.  The receiver
 * withdraws a key before it looks who is inside.  So nobody touches memory that is no
 * longer registered.
 */
static enum ibv_wc_status operate(struct qp *qp, struct swqe *w,
				  const struct x_qp *t, uint32_t pd)
{
	struct iovec here[N_SGE + 1];
	uint32_t access = one_sided[w->opcode].remote;
	enum ibv_wc_status status = IBV_WC_REM_ACCESS_ERR;
	int n =
	    tx_gather(qp, w, 0, w->length, one_sided[w->opcode].local, here);

	if (n < 0)
		return IBV_WC_LOC_PROT_ERR;
	if (unlikely(!(load_rlx(&t->access) & access)))
		return IBV_WC_REM_INV_REQ_ERR;
	if (!w->length)
		return IBV_WC_SUCCESS; /* no key is looked at */
	if (unlikely(qp->n_invalidated) && mw_is_invalidated(qp, w->rkey))
		return status;
	tx_enter(qp);
	uint64_t addr = mr_remote(qp->remote.peer->dir, pd, qp->remote.qpn,
				  w->rkey, w->addr, w->length, access);
	if (addr && tx_receiver(qp))
		status = status_of(reach_into(qp, w, addr, here, (unsigned)n));
	tx_leave(qp);
	return status;
}

enum tx tx_one_sided(struct qp *qp, struct swqe *w)
{
	const struct x_qp *t = tx_receiver(qp);
	bool takes_recv = w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	enum tx verdict;

	if (unlikely(!t))
		return tx_no_answer(qp, w);
	uint32_t pd = load_rlx(&t->pd);
	if (qp->init.qp_type == IBV_QPT_XRC_SEND && !xrc_aim(qp, w, t, &pd))
		return tx_fail_both(qp, w, IBV_WC_REM_INV_REQ_ERR,
				    IBV_WC_REM_INV_REQ_ERR);
	if (takes_recv && !w->off && !qp->remote.has_srq &&
	    !tx_find_recv(qp, w, t, &verdict))
		return verdict;
	if (takes_recv && !tx_fits(qp, 0)) {
		tx_waits_too_long(qp, 0);
		return TX_BLOCKED;
	}
	enum ibv_wc_status status =
	    w->off ? IBV_WC_REM_OP_ERR : operate(qp, w, t, pd);
	if (unlikely(status == IBV_WC_REM_OP_ERR)) { /* the kernel refuses */
		if (tx_ask(qp, w) == TX_BLOCKED)
			return TX_BLOCKED;
		if (w->is_lost)
			return TX_DONE;
		status = (enum ibv_wc_status)w->status;
	}
	if (unlikely(status == IBV_WC_RESP_TIMEOUT_ERR))
		return tx_no_answer(qp, w);
	if (status == IBV_WC_REM_ACCESS_ERR ||
	    status == IBV_WC_REM_INV_REQ_ERR) {
		if (qp->init.qp_type == IBV_QPT_UC) /* dropped there */
			return tx_done(w, IBV_WC_SUCCESS);
		return tx_fail_both(qp, w, status, status);
	}
	if (status == IBV_WC_SUCCESS) {
		tx_count_one_sided(w);
		if (takes_recv) {
			tx_put_short(qp, tx_header(qp, w), MSG_WRITE_IMM);
			if (!qp->remote.has_srq)
				qp->n_used++;
			else
				w->needs_ack =
				    type_is_reliable(qp->init.qp_type);
		}
	}
	return tx_done(w, status);
}
