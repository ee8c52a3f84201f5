/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/driver/loop_ex.h - what a later generation adds to the calls of loop_ex.c
 *
 * loop_time.c defines these functions for generation 2.
 */
#pragma once

#include "api/verbs/driver/loop.h"

#define LOOP_INLINE 0u

/* New members of the context, as far as the library has them. */
void loop_context_more(struct osf_context_ex *ex);
/* New fields of outputs, as far as @size reaches; comp_mask too. */
void loop_device_attr_more(struct osf_device_attr_ex *attr, size_t size);
void loop_wc_more(struct osf_wc_ex *wc, size_t size, const struct loop_cq *cq,
		  const struct loop_cqe *e);
/* New fields of inputs, whose bits are set.  -EINVAL: an unknown bit. */
int loop_cq_attr_more(struct loop_cq *cq,
		      const struct osf_cq_init_attr_ex *attr);
int loop_send_wr_more(struct loop_wr *to, const struct osf_send_wr_ex *from);
