/* SPDX-License-Identifier: MIT */
/* tools/osf/rdma_queues.c - "osf rdma --queues"; see rdma.h */
#include "osf.h"
#include "rdma.h"
#include "table.h"

uint32_t rdma_cq_users(const struct rdma_process *p, uint32_t cq)
{
	uint32_t n = 0;

	for (size_t i = 0; i < p->n_qps; i++)
		n += p->qps[i].x.send_cq == cq || p->qps[i].x.recv_cq == cq;
	return n;
}

static void print(struct table *t, const struct screen *s)
{
	if (t->n_rows) {
		putchar('\n');
		table_print(t, stdout, s);
	}
	table_free(t);
}

static void add_cqs(struct table *t, const struct rdma_process *p)
{
	for (uint32_t i = 0; i < N_CQS; i++) {
		const struct x_cq *cq = &p->dir->cq[i];

		if (!cq->size)
			continue;
		table_row(t, NULL);
		table_cell(t, "%u", i);
		table_cell(t, "%d", p->pid);
		table_cell(t, "%u", cq->size);
		table_cell(t, "%u", rdma_cq_users(p, i));
		table_cell(t, "%s",
			   !(cq->arm & CQ_ARMED)    ? "-"
			   : cq->arm & CQ_SOLICITED ? "solicited"
						    : "any");
	}
}

static void add_srqs(struct table *t, const struct rdma_process *p)
{
	for (uint32_t i = 0; i < N_SRQS; i++) {
		const struct x_srq *srq = &p->dir->srq[i];

		if (!srq->num)
			continue;
		table_row(t, NULL);
		table_cell(t, "0x%06x", srq->num);
		table_cell(t, "%d", p->pid);
		table_cell(t, "%u", srq->domain);
		table_cell(t, "%u", srq->pd);
		table_cell(t, "%u", srq->cq);
	}
}

static void add_groups(struct table *t, const struct rdma_process *p)
{
	for (uint32_t i = 0; i < N_MCASTS; i++) {
		const struct x_mcast *m = &p->dir->mcast[i];

		if (!m->qpn)
			continue;
		table_row(t, NULL);
		table_cell(t, "%s", rdma_host(m->gid).s);
		table_cell(t, "%d", p->pid);
		table_cell(t, "0x%06x", m->qpn);
	}
}

void rdma_print_queues(const struct rdma_list *l, const struct screen *s)
{
	static const char *const cqs[] = { "CQ", "PID", ">ENTRIES", ">QPS",
					   "WAKES FOR" };
	static const char *const srqs[] = { "XRC SRQ", "PID", ">DOMAIN", ">PD",
					    ">CQ" };
	static const char *const groups[] = { "GROUP", "PID", "QP" };
	static const struct {
		const char *const *headings;
		size_t n;
		void (*add)(struct table *t, const struct rdma_process *p);
	} tables[] = { { cqs, 5, add_cqs },
		       { srqs, 5, add_srqs },
		       { groups, 3, add_groups } };

	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++) {
		struct table t = { .headings = tables[i].headings,
				   .n_columns = tables[i].n };

		for (size_t j = 0; j < l->n; j++)
			if (l->processes[j].is_wanted)
				tables[i].add(&t, &l->processes[j]);
		print(&t, s);
	}
}
