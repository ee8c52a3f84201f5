/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/scheme/scheme_ex.h - what stands in the lib_ members of a context
 *
 * One function for each call of OSF_VERBS_CALLS.
 */
#pragma once

#include "api/verbs/scheme/scheme.h"

#define DECLARE(name)                                                          \
	typeof(*((struct osf_context_ex *)0)->lib_##name) lib_##name;
OSF_VERBS_CALLS(DECLARE)
#undef DECLARE

/* Are all bits of the masks known?  Reads no field whose bit is not set. */
bool cq_attr_is_known(const struct osf_cq_init_attr_ex *attr);
