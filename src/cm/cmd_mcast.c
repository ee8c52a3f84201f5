/* SPDX-License-Identifier: MIT */
/*
 * cm/cmd_mcast.c - commands that join groups and leave them
 *
 * A command that joins a group makes a number, and an event with the group's GID.
 * librdmacm then attaches the id's queue pair (rdma/mcast.h).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/id.h"
#include "rdma/mcast.h"

#define UDP_QKEY 0x01234567u
#define HOPS 64
#define N_GROUPS 128u /* of an id */

struct cm_mcast {
	struct cm_mcast *next;
	uint32_t handle, events_reported;
	uint64_t uid;
};

void mcast_count_event(struct cm_mcast *m) { m->events_reported++; }

void mcast_free_all(struct cm_id *id)
{
	while (id->mcasts) {
		struct cm_mcast *m = id->mcasts;

		id->mcasts = m->next;
		free(m);
	}
}

static struct cm_mcast *new_mcast(struct cm_id *id, uint64_t uid)
{
	static uint32_t last;
	struct cm_mcast *m;
	uint32_t n = 0;

	for (m = id->mcasts; m; m = m->next)
		n++;
	m = n < N_GROUPS ? calloc(1, sizeof(*m)) : NULL;
	if (!m)
		return NULL;
	m->handle = ++last;
	m->uid = uid;
	m->next = id->mcasts;
	return id->mcasts = m;
}

static struct cm_event *joined(struct cm_id *id, struct cm_mcast *m,
			       const union addr *a)
{
	struct cm_event *e = event_new(id, EVENT_MULTICAST_JOIN, 0);
	union ibv_gid gid;

	if (!e)
		return NULL;
	struct rdma_ucm_ud_param *u = &e->resp.param.ud;
	e->mcast = m;
	e->resp.uid = m->uid;
	e->resp.id = m->handle;
	u->qp_num = MCAST_QPN;
	u->qkey = UDP_QKEY;
	gid = addr_as_gid(a);
	memcpy(u->ah_attr.grh.dgid, gid.raw, sizeof(gid.raw));
	u->ah_attr.grh.sgid_index = addr_gid(&id->src, &gid);
	u->ah_attr.grh.hop_limit = HOPS;
	u->ah_attr.is_global = 1;
	u->ah_attr.port_num = 1;
	return e;
}

static int join(struct cm_call *c, uint32_t handle, uint64_t uid,
		const union addr *a)
{
	struct cm_id *id = id_get(c->file, handle);

	if (!id)
		return -ENOENT;
	if (!id->has_device || id->qp_type != IBV_QPT_UD ||
	    !addr_is_multicast(a))
		return -EINVAL;
	struct cm_mcast *m = new_mcast(id, uid);
	struct cm_event *e = m ? joined(id, m, a) : NULL;
	struct rdma_ucm_create_id_resp resp = { .id = m ? m->handle : 0 };
	int err =
	    e ? call_reply(c, &resp, sizeof(resp), sizeof(resp)) : -ENOMEM;
	if (err) {
		free(e);
		if (m) {
			id->mcasts = m->next;
			free(m);
		}
		return err;
	}
	event_queue(e);
	return 0;
}

int cmd_join_ip_mcast(struct cm_call *c)
{
	const struct rdma_ucm_join_ip_mcast *in = c->in;
	union addr a = { 0 };

	memcpy(&a, &in->addr, sizeof(in->addr));
	c->response = in->response;
	return join(c, in->id, in->uid, &a);
}

/* The same with a group of any family, of which there are two, and a kind of membership. */
int cmd_join_mcast(struct cm_call *c)
{
	const struct rdma_ucm_join_mcast *in = c->in;
	union addr a = { 0 };

	if (in->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return -EINVAL;
	memcpy(&a, &in->addr, sizeof(a));
	if (!addr_is_ip(&a) || in->addr_size != addr_len(&a))
		return -EINVAL;
	c->response = in->response;
	return join(c, in->id, in->uid, &a);
}

/* Its number among all ids of the channel's. */
static struct cm_mcast **find(struct cm_call *c, uint32_t handle,
			      struct cm_id **owner)
{
	for (uint32_t i = 1; i < id_end(); i++) {
		struct cm_id *id = id_get(c->file, i);

		for (struct cm_mcast **pm = id ? &id->mcasts : NULL; pm && *pm;
		     pm = &(*pm)->next)
			if ((*pm)->handle == handle) {
				*owner = id;
				return pm;
			}
	}
	return NULL;
}

int cmd_leave_mcast(struct cm_call *c)
{
	const struct rdma_ucm_destroy_id *in = c->in;
	struct cm_id *id;
	struct cm_mcast **pm = find(c, in->id, &id), *m = pm ? *pm : NULL;

	if (!m)
		return -ENOENT;
	struct rdma_ucm_destroy_id_resp resp = { .events_reported =
						     m->events_reported };
	c->response = in->response;
	int err = call_reply(c, &resp, sizeof(resp), sizeof(resp));
	if (err)
		return err;
	events_forget_mcast(id, m);
	*pm = m->next;
	free(m);
	return 0;
}
