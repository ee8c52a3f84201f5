/* SPDX-License-Identifier: MIT */
/* rdma/cq_ex.c - ibv_start_poll() and its kin: completions, one at a time and in parts */
#include <errno.h>

#include "rdma/extended.h"

#define WC_KNOWN                                                               \
	((uint64_t)IBV_WC_STANDARD_FLAGS |                                     \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |                                 \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static struct cq *cq_of(struct ibv_cq_ex *ex)
{
	return container_of(ex, struct cq, ex);
}

static int next_poll(struct ibv_cq_ex *ex)
{
	struct cq *cq = cq_of(ex);

	if (!cq_take(cq, 1, &cq->now)) {
		cq_progress(cq);
		if (!cq_take(cq, 1, &cq->now) &&
		    !(cq_progress_others() && cq_take(cq, 1, &cq->now)))
			return ENOENT;
	}
	ex->status = cq->now.wc.status;
	ex->wr_id = cq->now.wc.wr_id;
	return 0;
}

static void end_poll(struct ibv_cq_ex *ex)
{
	struct cq *cq = cq_of(ex);

	if (!cq->is_of_one_thread)
		lock_put(&cq->poll_lock);
}

/* A program ends what it has begun, unless this returns an error. */
static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *a)
{
	struct cq *cq = cq_of(ex);

	if (a->comp_mask ||
	    ctx_of(ex->context)->generation != self_generation())
		return EINVAL;
	if (!cq->is_of_one_thread)
		lock_get(&cq->poll_lock);
	int err = next_poll(ex);
	if (err)
		end_poll(ex);
	return err;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now.wc.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now.wc.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now.wc.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now.wc.imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now.wc.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now.wc.src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now.wc.wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now.wc.slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ex) { return cq_of(ex)->now.wc.sl; }

static uint8_t read_path_bits(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now.wc.dlid_path_bits;
}

static uint64_t read_ts(struct ibv_cq_ex *ex) { return cq_of(ex)->now.at_ns; }

struct ibv_cq_ex *rdma_create_cq_ex(struct ibv_context *c,
				    struct ibv_cq_init_attr_ex *a)
{
	uint32_t flags =
	    a->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? a->flags : 0;

	/* A parent domain would come with one of our own, which there is not. */
	if (a->comp_mask & ~(uint32_t)IBV_CQ_INIT_ATTR_MASK_FLAGS ||
	    a->wc_flags & ~WC_KNOWN ||
	    flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	struct ibv_cq *ibcq = rdma_create_cq(c, (int)a->cqe, a->cq_context,
					     a->channel, (int)a->comp_vector);
	if (!ibcq)
		return NULL;
	struct cq *cq = container_of(ibcq, struct cq, cq);
	cq->wants_time = a->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS;
	cq->is_of_one_thread = flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	cq->ex.start_poll = start_poll;
	cq->ex.next_poll = next_poll;
	cq->ex.end_poll = end_poll;
	cq->ex.read_opcode = read_opcode;
	cq->ex.read_vendor_err = read_vendor_err;
	cq->ex.read_byte_len = read_byte_len;
	cq->ex.read_imm_data = read_imm_data;
	cq->ex.read_qp_num = read_qp_num;
	cq->ex.read_src_qp = read_src_qp;
	cq->ex.read_wc_flags = read_wc_flags;
	cq->ex.read_slid = read_slid;
	cq->ex.read_sl = read_sl;
	cq->ex.read_dlid_path_bits = read_path_bits;
	cq->ex.read_completion_ts = read_ts;
	cq->ex.read_completion_wallclock_ns = read_ts;
	return &cq->ex;
}
