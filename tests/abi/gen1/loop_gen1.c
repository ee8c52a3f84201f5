/* SPDX-License-Identifier: MIT */
/*
 * tests/abi/gen1/loop_gen1.c - the driver of generation 1: what stands in for
 *                              loop_time.c
 */
#include <errno.h>

#include "api/verbs/driver/loop_ex.h"

uint64_t loop_stamp(const struct loop_cq *cq) { return 0; }

void loop_context_more(struct osf_context_ex *ex) {}

void loop_device_attr_more(struct osf_device_attr_ex *attr, size_t size) {}

void loop_wc_more(struct osf_wc_ex *wc, size_t size, const struct loop_cq *cq,
		  const struct loop_cqe *e)
{
}

int loop_cq_attr_more(struct loop_cq *cq,
		      const struct osf_cq_init_attr_ex *attr)
{
	if (attr->comp_mask & ~OSF_CQ_ATTR_KNOWN)
		return -EINVAL;
	return attr->comp_mask & OSF_CQ_ATTR_FLAGS &&
		       attr->flags & ~(uint32_t)OSF_CQ_FLAGS_KNOWN
		   ? -EINVAL
		   : 0;
}

int loop_send_wr_more(struct loop_wr *to, const struct osf_send_wr_ex *from)
{
	return from->comp_mask & ~OSF_SEND_WR_KNOWN ? -EINVAL : 0;
}
