/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/rdma.c - "osf rdma": what programs do on the software RDMA device
 *
 *     /proc/PID/fd -> directories and queue pairs (rdma_find.c) -> tables or JSON
 *
 * The command only reads.  It locks, signals and writes nothing, so it does not disturb the
 * programs.
 */
#include "osf.h"
#include "rdma.h"
#include "table.h"
#include <argp.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_JSON = 'j', OPT_MEMORY = 'm', OPT_QUEUES = 'q' };

static const struct argp_option options[] = {
	{ "json", OPT_JSON, NULL, 0, "JSON, with all counters", 0 },
	{ "memory", OPT_MEMORY, NULL, 0, "Also memory regions and windows", 0 },
	{ "queues", OPT_QUEUES, NULL, 0,
	  "Also completion queues, receive queues of XRC and groups", 0 },
	{ 0 },
};

struct args {
	bool wants_json, wants_memory, wants_queues;
	pid_t *pids;
	size_t n_pids;
};

static error_t parse_opt(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;
	char *end;
	unsigned long pid;

	switch (key) {
	case OPT_JSON:
		a->wants_json = true;
		return 0;
	case OPT_MEMORY:
		a->wants_memory = true;
		return 0;
	case OPT_QUEUES:
		a->wants_queues = true;
		return 0;
	case ARGP_KEY_ARG:
		pid = strtoul(arg, &end, 10);
		if (*arg < '0' || *arg > '9' || *end || !pid || pid > INT32_MAX)
			argp_error(state, "'%s' is not a process number", arg);
		a->pids = xgrow(a->pids, a->n_pids, sizeof(*a->pids));
		a->pids[a->n_pids++] = (pid_t)pid;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_opt,
	.args_doc = "[PID...]",
	.doc = "Show the queue pairs of running programs on the software RDMA "
	       "device osf0, and what each program has moved.\v"
	       "Only of processes that you may trace (ptrace(2)).",
};

static void mark_wanted(const struct rdma_list *l, const struct args *a)
{
	for (size_t i = 0; i < l->n; i++) {
		struct rdma_process *p = &l->processes[i];

		p->is_wanted = !a->n_pids;
		for (size_t j = 0; j < a->n_pids; j++)
			p->is_wanted |= a->pids[j] == p->pid;
	}
}

/* Whose queue pair is @qpn?  0: nobody's that we can see. */
static pid_t owner_of(const struct rdma_list *l, uint32_t qpn)
{
	for (size_t i = 0; i < l->n; i++)
		for (size_t j = 0; j < l->processes[i].n_qps; j++)
			if (l->processes[i].qps[j].x.qpn == qpn)
				return l->processes[i].pid;
	return 0;
}

static size_t count_mrs(const struct rdma_process *p, uint64_t *bytes)
{
	size_t n = 0;

	*bytes = 0;
	for (uint32_t i = 0; i < N_MRS; i++)
		if (p->dir->mr[i].key && p->dir->mr[i].kind == X_REGION) {
			*bytes += p->dir->mr[i].length;
			n++;
		}
	return n;
}

uint32_t rdma_receives(const struct x_qp *x)
{
	uint32_t n = x->n_posted - x->n_acked;

	return x->has_srq || n > x->n_recv ? 0 : n;
}

/*
 * Tables.
 */

static void print_processes(const struct rdma_list *l, const struct screen *s)
{
	static const char *const headings[] = {
		"PID",    "PROGRAM", ">QPS",  ">MRS",     ">MEMORY",   ">SENT",
		">RECVD", ">WRITE",  ">READ", "?>ATOMIC", "?>DROPPED", ">ERRORS"
	};
	struct table t = { .headings = headings,
			   .n_columns = sizeof(headings) / sizeof(*headings) };

	for (size_t i = 0; i < l->n; i++) {
		const struct rdma_process *p = &l->processes[i];
		const struct x_counters *c = &p->dir->counters;
		uint64_t bytes;
		size_t n_mrs = count_mrs(p, &bytes);

		if (!p->is_wanted)
			continue;
		table_row(&t, NULL);
		table_cell(&t, "%d", p->pid);
		table_cell(&t, "%s", p->name);
		table_cell(&t, "%zu", p->n_qps);
		table_cell(&t, "%zu", n_mrs);
		table_cell(&t, "%s", unit_bytes(bytes).s);
		table_cell(&t, "%s", unit_bytes(c->send_bytes).s);
		table_cell(&t, "%s", unit_bytes(c->recv_bytes).s);
		table_cell(&t, "%s", unit_bytes(c->write_bytes).s);
		table_cell(&t, "%s", unit_bytes(c->read_bytes).s);
		table_cell(&t, "%s", unit_count(c->atomics).s);
		table_cell(&t, "%s", unit_count(c->dropped).s);
		table_cell(&t, "%s", unit_count(c->errors).s);
	}
	table_print(&t, stdout, s);
	table_free(&t);
}

static void print_qp(struct table *t, const struct rdma_list *l, pid_t pid,
		     const struct rdma_qp *qp)
{
	const struct x_qp *x = &qp->x;
	pid_t peer = x->dest_qpn ? owner_of(l, x->dest_qpn) : 0;

	table_row(t, x->state == RDMA_ERR ? STYLE_RED : NULL);
	table_cell(t, "0x%06x", x->qpn);
	table_cell(t, "%d", pid);
	table_cell(t, "%s", rdma_type(x->type));
	table_cell(t, "%s", rdma_state(x->state));
	table_cell(t, x->dest_qpn ? "0x%06x" : "-", x->dest_qpn);
	if (x->is_far)
		table_cell(t, "%s", rdma_host(x->dgid).s);
	else
		table_cell(t, peer ? "%d" : "-", peer);
	table_cell(t, "%u", x->pd);
	table_cell(t, "%s", unit_bytes(qp->bytes).s);
	table_cell(t, x->has_srq ? "shared" : "%u", rdma_receives(x));
	table_cell(t, "%s",
		   x->is_blocked ? "waits for a receive, or for room"
		   : x->is_rnr   ? "a message waits for a receive"
				 : "");
}

static void print_qps(const struct rdma_list *l, const struct screen *s)
{
	static const char *const headings[] = { "QP",    "PID",     "TYPE",
						"STATE", "PEER",    "OF",
						"?>PD",  "?>BYTES", ">RECEIVES",
						"WAITS" };
	struct table t = { .headings = headings,
			   .n_columns = sizeof(headings) / sizeof(*headings) };

	for (size_t i = 0; i < l->n; i++)
		for (size_t j = 0; j < l->processes[i].n_qps; j++)
			if (l->processes[i].is_wanted)
				print_qp(&t, l, l->processes[i].pid,
					 &l->processes[i].qps[j]);
	if (t.n_rows) {
		putchar('\n');
		table_print(&t, stdout, s);
	}
	table_free(&t);
}

static void print_memory(const struct rdma_list *l, const struct screen *s)
{
	static const char *const headings[] = { "KEY",    "PID",  "ADDRESS",
						">BYTES", "?>PD", "ACCESS" };
	struct table t = { .headings = headings,
			   .n_columns = sizeof(headings) / sizeof(*headings) };

	for (size_t i = 0; i < l->n; i++) {
		const struct rdma_process *p = &l->processes[i];

		for (uint32_t j = 0; p->is_wanted && j < N_MRS; j++) {
			const struct x_mr *m = &p->dir->mr[j];

			if (!m->key)
				continue;
			table_row(&t, NULL);
			table_cell(&t, "0x%08x", m->key - 1);
			table_cell(&t, "%d", p->pid);
			table_cell(&t, "0x%lx", (unsigned long)m->addr);
			table_cell(&t, "%lu", (unsigned long)m->length);
			table_cell(&t, "%u", m->pd);
			table_cell(&t, "%s", rdma_access(m).s);
		}
	}
	if (t.n_rows) {
		putchar('\n');
		table_print(&t, stdout, s);
	}
	table_free(&t);
}

/* A process that was named and has no device. */
static int tell_missing(const struct rdma_list *l, const struct args *a)
{
	int status = EXIT_SUCCESS;

	for (size_t i = 0; i < a->n_pids; i++) {
		bool found = false;

		for (size_t j = 0; j < l->n; j++)
			found |= l->processes[j].pid == a->pids[i];
		if (found)
			continue;
		complain(
		    "process %d does not use osf0, or may not be looked at",
		    a->pids[i]);
		status = EXIT_FAILURE;
	}
	return status;
}

int cmd_rdma(int argc, char **argv)
{
	struct args a = { 0 };
	struct rdma_list l;
	struct screen s = screen_of(stdout);

	argp_parse(&argp, argc, argv, 0, NULL, &a);
	rdma_find(&l);
	mark_wanted(&l, &a);
	int status = tell_missing(&l, &a);
	if (a.wants_json) {
		rdma_print_json(&l);
	} else if (!l.n) {
		puts("no process uses osf0");
	} else if (status == EXIT_SUCCESS || a.n_pids > 1) {
		print_processes(&l, &s);
		print_qps(&l, &s);
		if (a.wants_queues)
			rdma_print_queues(&l, &s);
		if (a.wants_memory)
			print_memory(&l, &s);
	}
	rdma_free(&l);
	free(a.pids);
	return status;
}
