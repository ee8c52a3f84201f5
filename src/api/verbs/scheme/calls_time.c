/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/scheme/calls_time.c - generation 2: time stamps
 *
 * This generation adds one call, and it adds fields to the structures of
 * generation 1.  So it also changes what the calls of generation 1 do.
 */
#include <errno.h>
#include <string.h>

#include "api/verbs/scheme/scheme_ex.h"

/* comp_mask2 lies beyond the memory that a program of generation 1 has allocated, so only
 * bit 31 of comp_mask says that it is there. */
bool cq_attr_is_known(const struct osf_cq_init_attr_ex *attr)
{
	if (attr->comp_mask & ~OSF_CQ_ATTR_KNOWN)
		return false;
	if (attr->comp_mask & OSF_CQ_ATTR_FLAGS &&
	    attr->flags & ~(uint32_t)OSF_CQ_FLAGS_KNOWN)
		return false;
	return !(attr->comp_mask & OSF_COMP_MASK2) ||
	       !(attr->comp_mask2 & ~OSF_CQ_ATTR2_KNOWN);
}

int lib_query_values(struct osf_context *context, uint32_t asked,
		     struct osf_values *values, size_t values_size)
{
	struct osf_context_ex *ex = osf_get_ctx_ex(context);

	if (asked & ~OSF_VALUES_KNOWN ||
	    !OSF_SIZE_HAS(values_size, struct osf_values, comp_mask))
		return -EINVAL;
	if (!ex->drv_query_values)
		return -ENOSYS;
	memset(values, 0, values_size);
	return ex->drv_query_values(context, asked, values,
				    MIN(values_size, sizeof(*values)));
}
