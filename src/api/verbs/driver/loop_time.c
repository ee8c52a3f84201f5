/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/driver/loop_time.c - generation 2: time stamps and immediate data
 *
 * The device's clock is CLOCK_MONOTONIC.  docs/extending.md walks through this.
 */
#include <errno.h>
#include <time.h>

#include "api/verbs/driver/loop_ex.h"

#define CLOCK_KHZ 1000000u

static uint64_t clock_ns(int clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t loop_stamp(const struct loop_cq *cq)
{
	return cq->is_stamped ? clock_ns(cq->clock) - cq->ts_base : 0;
}

static int query_values(struct osf_context *context, uint32_t asked,
			struct osf_values *values, size_t values_size)
{
	if (asked & ~OSF_VALUES_KNOWN)
		return -EINVAL;
	values->comp_mask = 0;
	if (asked & OSF_VALUES_HWCLOCK &&
	    OSF_SIZE_HAS(values_size, struct osf_values, hwclock_ns)) {
		values->hwclock_ns = clock_ns(CLOCK_MONOTONIC);
		values->comp_mask |= OSF_VALUES_HWCLOCK;
	}
	return 0;
}

void loop_context_more(struct osf_context_ex *ex)
{
	if (!OSF_CTX_HAS(ex, drv_query_values))
		return;
	ex->drv_query_values = query_values;
	ex->has_ex |= OSF_HAS_QUERY_VALUES | OSF_HAS_TIMESTAMP;
}

void loop_device_attr_more(struct osf_device_attr_ex *attr, size_t size)
{
	if (!OSF_SIZE_HAS(size, struct osf_device_attr_ex, hwclock_khz))
		return;
	attr->hwclock_khz = CLOCK_KHZ;
	attr->comp_mask |= OSF_DEVICE_ATTR_HWCLOCK;
}

void loop_wc_more(struct osf_wc_ex *wc, size_t size, const struct loop_cq *cq,
		  const struct loop_cqe *e)
{
	if (cq->is_stamped && OSF_SIZE_HAS(size, struct osf_wc_ex, ts)) {
		wc->ts = e->ts;
		wc->comp_mask |= OSF_WC_EX_TS;
	}
	if (e->has_imm && OSF_SIZE_HAS(size, struct osf_wc_ex, imm_data)) {
		wc->imm_data = e->imm_data;
		wc->comp_mask |= OSF_WC_EX_IMM;
	}
}

static bool clock_is_known(uint32_t clock)
{
	return clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW ||
	       clock == CLOCK_REALTIME;
}

int loop_cq_attr_more(struct loop_cq *cq,
		      const struct osf_cq_init_attr_ex *attr)
{
	uint32_t mask = attr->comp_mask;
	uint32_t mask2 = mask & OSF_COMP_MASK2 ? attr->comp_mask2 : 0;
	uint32_t flags = mask & OSF_CQ_ATTR_FLAGS ? attr->flags : 0;

	if (mask & ~OSF_CQ_ATTR_KNOWN || mask2 & ~OSF_CQ_ATTR2_KNOWN ||
	    flags & ~(uint32_t)OSF_CQ_FLAGS_KNOWN)
		return -EINVAL;
	if (mask & OSF_CQ_ATTR_TS_CLOCK && !clock_is_known(attr->ts_clock))
		return -EINVAL;
	cq->is_stamped = flags & OSF_CQ_TIMESTAMP;
	cq->clock =
	    mask & OSF_CQ_ATTR_TS_CLOCK ? (int)attr->ts_clock : CLOCK_MONOTONIC;
	cq->ts_base = mask2 & OSF_CQ_ATTR2_TS_BASE ? attr->ts_base : 0;
	return 0;
}

int loop_send_wr_more(struct loop_wr *to, const struct osf_send_wr_ex *from)
{
	if (from->comp_mask & ~OSF_SEND_WR_KNOWN)
		return -EINVAL;
	to->has_imm = from->comp_mask & OSF_SEND_WR_IMM;
	to->imm_data = to->has_imm ? from->imm_data : 0;
	return 0;
}
