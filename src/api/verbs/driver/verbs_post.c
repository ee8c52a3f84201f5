/* SPDX-License-Identifier: MIT */
/* api/verbs/driver/verbs_post.c - sends, receives, completions, the clock; see verbs.h */
#include <endian.h>
#include <errno.h>

#include "api/verbs/driver/verbs.h"

_Static_assert(sizeof(struct osf_sge) == sizeof(struct ibv_sge) &&
		   offsetof(struct osf_sge, length) ==
		       offsetof(struct ibv_sge, length) &&
		   offsetof(struct osf_sge, lkey) ==
		       offsetof(struct ibv_sge, lkey),
	       "the program's elements are passed on");
_Static_assert(OSF_WC_RETRY_EXC_ERR == (int)IBV_WC_RETRY_EXC_ERR &&
		   OSF_WC_REM_OP_ERR == (int)IBV_WC_REM_OP_ERR &&
		   OSF_WC_WR_FLUSH_ERR == (int)IBV_WC_WR_FLUSH_ERR &&
		   OSF_WC_RECV == (int)IBV_WC_RECV,
	       "numbers are passed on");

static int send_one(struct osf_qp *qp, struct ibv_send_wr *wr, uint32_t flags)
{
	struct ibv_send_wr *bad;

	wr->send_flags = flags & OSF_SEND_SIGNALED ? IBV_SEND_SIGNALED : 0;
	return -ibv_post_send(((struct verbs_qp *)qp)->verbs, wr, &bad);
}

int verbs_post_send(struct osf_qp *qp, struct osf_send_wr *wr,
		    struct osf_send_wr **bad_wr)
{
	for (; wr; wr = wr->next) {
		struct ibv_send_wr one = { .wr_id = wr->wr_id,
					   .sg_list =
					       (struct ibv_sge *)wr->sg_list,
					   .num_sge = wr->num_sge,
					   .opcode = IBV_WR_SEND };
		int err = send_one(qp, &one, wr->send_flags);

		if (err) {
			*bad_wr = wr;
			return err;
		}
	}
	return 0;
}

int verbs_post_recv(struct osf_qp *qp, struct osf_recv_wr *wr,
		    struct osf_recv_wr **bad_wr)
{
	for (; wr; wr = wr->next) {
		struct ibv_recv_wr *bad, one = {
			.wr_id = wr->wr_id,
			.sg_list = (struct ibv_sge *)wr->sg_list,
			.num_sge = wr->num_sge,
		};
		int err =
		    ibv_post_recv(((struct verbs_qp *)qp)->verbs, &one, &bad);

		if (err) {
			*bad_wr = wr;
			return -err;
		}
	}
	return 0;
}

/* Return: 0, 1, or -EOVERFLOW. */
static int poll_one(struct osf_cq *cq, struct ibv_wc *of, struct osf_wc *wc)
{
	int got = ibv_poll_cq(((struct verbs_cq *)cq)->verbs, 1, of);

	if (got <= 0)
		return got ? -EOVERFLOW : 0;
	*wc = (struct osf_wc){ .wr_id = of->wr_id,
			       .status = of->status,
			       .opcode = of->opcode & IBV_WC_RECV ? OSF_WC_RECV
								  : OSF_WC_SEND,
			       .byte_len = of->byte_len,
			       .qp_num = of->qp_num };
	return 1;
}

int verbs_poll_cq(struct osf_cq *cq, int n, struct osf_wc *wc)
{
	struct ibv_wc of;
	int i = 0, got = 1;

	while (i < n && (got = poll_one(cq, &of, &wc[i])) > 0)
		i++;
	return i ? i : got < 0 ? got : 0;
}

/*
 * Newer calls.
 */

static int post_send_ex(struct osf_qp *qp, const struct osf_send_wr_ex *wr,
			int n, size_t wr_size)
{
	for (int i = 0; i < n; i++) {
		const struct osf_send_wr_ex *from =
		    OSF_ELEMENT(const struct osf_send_wr_ex, wr, i, wr_size);
		bool has_imm = from->comp_mask & OSF_SEND_WR_IMM;
		struct ibv_send_wr one = {
			.wr_id = from->wr_id,
			.sg_list = (struct ibv_sge *)from->sg_list,
			.num_sge = from->num_sge,
			.opcode = has_imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND
		};
		int err = from->comp_mask & ~OSF_SEND_WR_KNOWN ? -EINVAL : 0;

		if (has_imm)
			one.imm_data = htobe32(from->imm_data);
		if (!err)
			err = send_one(qp, &one, from->send_flags);
		if (err)
			return i ? i : err;
	}
	return n;
}

static int poll_cq_ex(struct osf_cq *cq, int n, struct osf_wc_ex *wc,
		      size_t wc_size)
{
	struct ibv_wc of;
	int i = 0, got = 1;

	for (; i < n; i++) {
		struct osf_wc_ex *to =
		    OSF_ELEMENT(struct osf_wc_ex, wc, i, wc_size);

		got = poll_one(cq, &of, &to->orig);
		if (got <= 0)
			break;
		to->comp_mask = 0;
		if (!of.status && of.wc_flags & IBV_WC_WITH_IMM &&
		    OSF_SIZE_HAS(wc_size, struct osf_wc_ex, imm_data)) {
			to->imm_data = be32toh(of.imm_data);
			to->comp_mask |= OSF_WC_EX_IMM;
		}
	}
	return i ? i : got < 0 ? got : 0;
}

static int query_values(struct osf_context *context, uint32_t asked,
			struct osf_values *values, size_t values_size)
{
	struct ibv_values_ex of = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	int err = asked & ~OSF_VALUES_KNOWN
		      ? EINVAL
		      : ibv_query_rt_values_ex(verbs_of(context), &of);

	if (err)
		return err == EOPNOTSUPP ? -ENOSYS : -err;
	values->comp_mask = 0;
	if (asked & OSF_VALUES_HWCLOCK &&
	    OSF_SIZE_HAS(values_size, struct osf_values, hwclock_ns)) {
		values->hwclock_ns =
		    (uint64_t)of.raw_clock.tv_sec * UINT64_C(1000000000) +
		    (uint64_t)of.raw_clock.tv_nsec;
		values->comp_mask |= OSF_VALUES_HWCLOCK;
	}
	return 0;
}

void verbs_fill_ex(struct osf_context_ex *ex)
{
	if (OSF_CTX_HAS(ex, drv_post_send_ex)) {
		ex->drv_post_send_ex = post_send_ex;
		ex->has_ex |= OSF_HAS_POST_SEND_EX;
	}
	if (OSF_CTX_HAS(ex, drv_poll_cq_ex)) {
		ex->drv_poll_cq_ex = poll_cq_ex;
		ex->has_ex |= OSF_HAS_POLL_CQ_EX;
	}
	if (OSF_CTX_HAS(ex, drv_query_values)) {
		ex->drv_query_values = query_values;
		ex->has_ex |= OSF_HAS_QUERY_VALUES;
	}
}
