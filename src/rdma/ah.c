/* SPDX-License-Identifier: MIT */
/* rdma/ah.c - address handles: where a datagram goes */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdma/mcast.h"

#define OWN_LID 0 /* as ibv_query_port() says */

struct ibv_ah *rdma_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *a)
{
	/* Addresses are GIDs.  Only librdmacm may name this host by its LID, for rsockets. */
	static const union ibv_gid none;
	bool is_self = !a->is_global && a->dlid == OWN_LID &&
		       ctx_of(pd->context)->takes_lid;
	if ((!a->is_global && !is_self) || a->port_num != 1 ||
	    (a->is_global && !memcmp(&a->grh.dgid, &none, sizeof(none))) ||
	    device_gid(a->grh.sgid_index, NULL, NULL)) {
		errno = EINVAL;
		return NULL;
	}
	struct ah *ah = calloc(1, sizeof(*ah));
	if (!ah)
		return NULL;
	ah->ah.context = pd->context;
	ah->ah.pd = pd;
	ah->attr = *a;
	ah->dgid_index = is_self ? 0
			 : mcast_is_group(&a->grh.dgid)
			     ? (int)MCAST_INDEX
			     : device_find_gid(&a->grh.dgid);
	fetch_add(&container_of(pd, struct pd, pd)->n_refs, 1);
	return &ah->ah;
}

int rdma_destroy_ah(struct ibv_ah *ibah)
{
	fetch_sub(&container_of(ibah->pd, struct pd, pd)->n_refs, 1);
	free(container_of(ibah, struct ah, ah));
	return 0;
}

/* Back to where a datagram came from. */
int rdma_init_ah_from_wc(struct ibv_context *c, uint8_t port, struct ibv_wc *wc,
			 struct ibv_grh *grh, struct ibv_ah_attr *a)
{
	int index;

	if (!(wc->wc_flags & IBV_WC_GRH) || port != 1) {
		errno = EINVAL;
		return -1;
	}
	memset(a, 0, sizeof(*a));
	a->is_global = 1;
	a->port_num = port;
	a->sl = wc->sl;
	a->grh.dgid = grh->sgid;
	a->grh.hop_limit = 0xff;
	/* Who was reached as one of many answers from its first address. */
	index = mcast_is_group(&grh->dgid) ? 0 : device_find_gid(&grh->dgid);
	if (index >= 0) {
		a->grh.sgid_index = (uint8_t)index;
		return 0;
	}
	errno = ENOENT;
	return -1;
}

struct ibv_ah *rdma_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
				      struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr a;

	if (rdma_init_ah_from_wc(pd->context, port, wc, grh, &a))
		return NULL;
	return rdma_create_ah(pd, &a);
}
