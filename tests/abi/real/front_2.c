/* SPDX-License-Identifier: MIT */
/* tests/abi/real/front_2.c - what the newer header adds */
#include "front.h"

static struct ibv_dmah *alloc_dmah(struct ibv_context *context,
				   struct ibv_dmah_init_attr *attr)
{
	static struct ibv_dmah dmah;

	dmah.context = context;
	return &dmah;
}

void front_more(struct verbs_context *verbs)
{
	front_rt_values(verbs);
	verbs->alloc_dmah = alloc_dmah;
}
