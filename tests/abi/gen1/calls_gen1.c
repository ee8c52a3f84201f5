/* SPDX-License-Identifier: MIT */
/*
 * tests/abi/gen1/calls_gen1.c - the library of generation 1: what stands in for
 *                               calls_time.c
 */
#include "api/verbs/scheme/scheme_ex.h"

bool cq_attr_is_known(const struct osf_cq_init_attr_ex *attr)
{
	return !(attr->comp_mask & ~OSF_CQ_ATTR_KNOWN) &&
	       (!(attr->comp_mask & OSF_CQ_ATTR_FLAGS) ||
		!(attr->flags & ~(uint32_t)OSF_CQ_FLAGS_KNOWN));
}
