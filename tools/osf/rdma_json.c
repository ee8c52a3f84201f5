/* SPDX-License-Identifier: MIT */
/* tools/osf/rdma_json.c - "osf rdma --json"; see rdma.h */
#include "osf.h"
#include "rdma.h"
#include <cjson/cJSON.h>
#include <stdlib.h>

static void add_number(cJSON *to, const char *name, uint64_t n)
{
	cJSON_AddNumberToObject(to, name, (double)n);
}

static cJSON *json_qp(const struct rdma_qp *qp)
{
	const struct x_qp *x = &qp->x;
	cJSON *o = cJSON_CreateObject();

	add_number(o, "qpn", x->qpn);
	cJSON_AddStringToObject(o, "type", rdma_type(x->type));
	cJSON_AddStringToObject(o, "state", rdma_state(x->state));
	add_number(o, "peer_qpn", x->dest_qpn);
	if (x->is_far)
		cJSON_AddStringToObject(o, "peer_host", rdma_host(x->dgid).s);
	add_number(o, "pd", x->pd);
	add_number(o, "send_cq", x->send_cq);
	add_number(o, "recv_cq", x->recv_cq);
	add_number(o, "receives", rdma_receives(x));
	add_number(o, "bytes", qp->bytes);
	cJSON_AddBoolToObject(o, "has_srq", x->has_srq != 0);
	cJSON_AddBoolToObject(o, "is_blocked", x->is_blocked != 0);
	return o;
}

static cJSON *json_mr(const struct x_mr *m)
{
	cJSON *o = cJSON_CreateObject();

	add_number(o, "key", m->key - 1);
	add_number(o, "address", m->addr);
	add_number(o, "bytes", m->length);
	add_number(o, "pd", m->pd);
	cJSON_AddStringToObject(o, "kind",
				m->kind == X_WINDOW ? "window" : "region");
	cJSON_AddStringToObject(o, "access", rdma_access(m).s);
	return o;
}

static cJSON *json_cq(const struct rdma_process *p, uint32_t i)
{
	cJSON *o = cJSON_CreateObject();

	add_number(o, "cq", i);
	add_number(o, "entries", p->dir->cq[i].size);
	add_number(o, "qps", rdma_cq_users(p, i));
	cJSON_AddBoolToObject(o, "is_armed", p->dir->cq[i].arm & CQ_ARMED);
	return o;
}

static cJSON *json_srq(const struct x_srq *s)
{
	cJSON *o = cJSON_CreateObject();

	add_number(o, "srq", s->num);
	add_number(o, "cq", s->cq);
	add_number(o, "pd", s->pd);
	add_number(o, "xrc_domain", s->domain);
	return o;
}

static cJSON *json_group(const struct x_mcast *m)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "group", rdma_host(m->gid).s);
	add_number(o, "qpn", m->qpn);
	return o;
}

static void add_queues(cJSON *o, const struct rdma_process *p)
{
	cJSON *cqs = cJSON_AddArrayToObject(o, "cqs");
	cJSON *srqs = cJSON_AddArrayToObject(o, "xrc_srqs");
	cJSON *groups = cJSON_AddArrayToObject(o, "groups");

	for (uint32_t i = 0; i < N_CQS; i++)
		if (p->dir->cq[i].size)
			cJSON_AddItemToArray(cqs, json_cq(p, i));
	for (uint32_t i = 0; i < N_SRQS; i++)
		if (p->dir->srq[i].num)
			cJSON_AddItemToArray(srqs, json_srq(&p->dir->srq[i]));
	for (uint32_t i = 0; i < N_MCASTS; i++)
		if (p->dir->mcast[i].qpn)
			cJSON_AddItemToArray(groups,
					     json_group(&p->dir->mcast[i]));
}

static cJSON *json_process(const struct rdma_process *p)
{
	cJSON *o = cJSON_CreateObject();

	add_number(o, "pid", (uint64_t)p->pid);
	cJSON_AddStringToObject(o, "program", p->name);
	cJSON *counters = cJSON_AddObjectToObject(o, "counters");
#define COUNTER(name) add_number(counters, #name, p->dir->counters.name);
#include "rdma_counters.def"
#undef COUNTER
	cJSON *qps = cJSON_AddArrayToObject(o, "qps");
	for (size_t i = 0; i < p->n_qps; i++)
		cJSON_AddItemToArray(qps, json_qp(&p->qps[i]));
	cJSON *mrs = cJSON_AddArrayToObject(o, "mrs");
	for (uint32_t i = 0; i < N_MRS; i++)
		if (p->dir->mr[i].key)
			cJSON_AddItemToArray(mrs, json_mr(&p->dir->mr[i]));
	add_queues(o, p);
	return o;
}

void rdma_print_json(const struct rdma_list *l)
{
	cJSON *all = cJSON_CreateArray();

	for (size_t i = 0; i < l->n; i++)
		if (l->processes[i].is_wanted)
			cJSON_AddItemToArray(all,
					     json_process(&l->processes[i]));
	char *text = cJSON_Print(all);
	puts(text ? text : "[]");
	free(text);
	cJSON_Delete(all);
}
