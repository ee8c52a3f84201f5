/* SPDX-License-Identifier: MIT */
/*
 * tests/vm/golden.c - says what a device does in many situations
 *
 *     golden DEVICE [SITUATION...]
 *
 * Recorded with the kernel's soft-RoCE this is golden.txt; compare.py compares another
 * device with it.  Each group of situations is a process of its own, with a time limit.
 */
#include "golden.h"

#include <sys/wait.h>

#define GROUP_S 60

const char *device_name;
int gid_index;
bool impatient;
static char text[8192];
static size_t used;

static void add_list(const char *format, va_list list)
{
	int n = vsnprintf(text + used, sizeof(text) - used, format, list);

	CHECK(n >= 0 && (size_t)n < sizeof(text) - used);
	used += (size_t)n;
}

void line(const char *format, ...)
{
	va_list list;

	used = 0;
	va_start(list, format);
	add_list(format, list);
	va_end(list);
	add(":");
}

void add(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	add_list(format, list);
	va_end(list);
}

void end_line(void) { puts(text); }

static const char *name_in(const char *const *names, size_t n, int i)
{
	return i >= 0 && (size_t)i < n && names[i] ? names[i] : "unknown";
}

const char *state_name(int state)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS",
					     "SQD",   "SQE",  "ERR" };

	return name_in(names, sizeof(names) / sizeof(*names), state);
}

const char *mask_name(int bit)
{
	static const char *const names[] = {
		"STATE",
		"CUR_STATE",
		"EN_SQD_ASYNC_NOTIFY",
		"ACCESS_FLAGS",
		"PKEY_INDEX",
		"PORT",
		"QKEY",
		"AV",
		"PATH_MTU",
		"TIMEOUT",
		"RETRY_CNT",
		"RNR_RETRY",
		"RQ_PSN",
		"MAX_QP_RD_ATOMIC",
		"ALT_PATH",
		"MIN_RNR_TIMER",
		"SQ_PSN",
		"MAX_DEST_RD_ATOMIC",
		"PATH_MIG_STATE",
		"CAP",
		"DEST_QPN",
	};

	return (size_t)bit < sizeof(names) / sizeof(*names) ? names[bit] : NULL;
}

const char *type_name(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC ? "RC" : type == IBV_QPT_UC ? "UC" : "UD";
}

const char *error_name(int error)
{
	return error ? strerrorname_np(error) : "ok";
}

void said(const char *situation, int error)
{
	line("%s", situation);
	/* Some calls say -1 and have the number in errno. */
	add(" %s", error_name(error == -1 ? errno : error));
	end_line();
}

void made(const char *situation, const void *object)
{
	said(situation, object ? 0 : errno);
}

static const char *status_name(int status)
{
	static const char *const names[] = {
		"SUCCESS",           "LOC_LEN_ERR",
		"LOC_QP_OP_ERR",     "LOC_EEC_OP_ERR",
		"LOC_PROT_ERR",      "WR_FLUSH_ERR",
		"MW_BIND_ERR",       "BAD_RESP_ERR",
		"LOC_ACCESS_ERR",    "REM_INV_REQ_ERR",
		"REM_ACCESS_ERR",    "REM_OP_ERR",
		"RETRY_EXC_ERR",     "RNR_RETRY_EXC_ERR",
		"LOC_RDD_VIOL_ERR",  "REM_INV_RD_REQ_ERR",
		"REM_ABORT_ERR",     "INV_EECN_ERR",
		"INV_EEC_STATE_ERR", "FATAL_ERR",
		"RESP_TIMEOUT_ERR",  "GENERAL_ERR",
	};

	return name_in(names, sizeof(names) / sizeof(*names), status);
}

static const char *opcode_name(int opcode)
{
	static const char *const sent[] = { "SEND",      "WRITE",     "READ",
					    "COMP_SWAP", "FETCH_ADD", "BIND_MW",
					    "LOCAL_INV" };

	if (opcode == IBV_WC_RECV)
		return "RECV";
	return opcode == IBV_WC_RECV_RDMA_WITH_IMM
		   ? "RECV_WITH_IMM"
		   : name_in(sent, sizeof(sent) / sizeof(*sent), opcode);
}

/* What one end has completed.  The other fields of a completion that has failed mean
 * nothing. */
static void write_completion(FILE *f, const struct ibv_wc *wc, bool is_ud)
{
	fprintf(f, " #%d %s", (int)wc->wr_id, status_name(wc->status));
	if (wc->status)
		return;
	fprintf(f, " %s", opcode_name(wc->opcode));
	if (!(wc->opcode & IBV_WC_RECV))
		return;
	fprintf(f, " %u bytes", wc->byte_len);
	if (wc->wc_flags & IBV_WC_WITH_IMM)
		fprintf(f, " imm %u", be32toh(wc->imm_data));
	if (wc->wc_flags & IBV_WC_WITH_INV)
		fprintf(f, " inv");
	/* It means nothing elsewhere; soft-RoCE sets it always. */
	if (is_ud && wc->wc_flags & IBV_WC_GRH)
		fprintf(f, " grh");
}

/* Our own device does all that it does in the calls, on however busy a machine. */
static bool is_ours(void) { return !strcmp(device_name, "osf0"); }

int credit_ms(void) { return is_ours() ? 30000 : 5000; }

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

struct list {
	char *text;
	size_t size;
	FILE *f;
	int n;
	bool failed;
};

static void take(struct end *e, struct list *list)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(e->cq, 1, &wc))) {
		CHECK(n == 1);
		write_completion(list->f, &wc, e->qp->qp_type == IBV_QPT_UD);
		list->failed |= wc.status != IBV_WC_SUCCESS;
		list->n++;
	}
}

enum ibv_qp_state state_of(struct end *e)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(!ibv_query_qp(e->qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

/* A state changes soon after the completion that says why. */
static void add_state(struct end *e)
{
	int64_t end = now_ms() + (is_ours() ? 0 : 300);

	while (state_of(e) == IBV_QPS_RTS && now_ms() < end)
		;
	add(" %s", state_name(state_of(e)));
}

void outcome(const char *situation, struct end *a, int n_a, struct end *b,
	     int n_b)
{
	struct list of_a = { 0 }, of_b = { 0 };
	int64_t end = now_ms() + credit_ms();

	CHECK((of_a.f = open_memstream(&of_a.text, &of_a.size)));
	CHECK((of_b.f = open_memstream(&of_b.text, &of_b.size)));
	do {
		take(a, &of_a);
		take(b, &of_b);
	} while ((of_a.n < n_a || of_b.n < n_b) && now_ms() < end);
	fclose(of_a.f);
	fclose(of_b.f);
	line("%s", situation);
	add("%s%s |%s%s |", of_a.text, of_a.n < n_a ? " and none" : "",
	    of_b.text, of_b.n < n_b ? " and none" : "");
	if (of_a.failed || of_b.failed) {
		add_state(a);
		add_state(b);
	}
	end_line();
	free(of_a.text);
	free(of_b.text);
}

struct ibv_qp_attr right_attributes(struct end *e, enum ibv_qp_type type,
				    enum ibv_qp_state from,
				    enum ibv_qp_state to, int *mask)
{
	struct ibv_qp_attr a = {
		.qp_state = to,
		.cur_qp_state = from,
		.path_mtu = IBV_MTU_1024,
		.path_mig_state = IBV_MIG_MIGRATED,
		.qkey = 0x11111111,
		.qp_access_flags = REMOTE,
		.cap = { 8, 8, 2, 2, 64 },
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .sgid_index = (uint8_t)gid_index,
				      .hop_limit = 64 } },
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.port_num = 1,
		.timeout = 18,
		.retry_cnt = 7,
		.rnr_retry = 1,
		.alt_port_num = 1,
		.alt_timeout = 14,
	};
	bool rc = type == IBV_QPT_RC, ud = type == IBV_QPT_UD;

	CHECK(!ibv_query_gid(e->ctx, 1, gid_index, &a.ah_attr.grh.dgid));
	a.dest_qp_num = e->qp ? e->qp->qp_num : 0;
	a.alt_ah_attr = a.ah_attr;
	*mask = IBV_QP_STATE;
	if (from == IBV_QPS_RESET && to == IBV_QPS_INIT)
		*mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			 (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	if (from == IBV_QPS_INIT && to == IBV_QPS_RTR && !ud)
		*mask |=
		    IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		    IBV_QP_RQ_PSN |
		    (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
	if (from == IBV_QPS_RTR && to == IBV_QPS_RTS)
		*mask |= IBV_QP_SQ_PSN |
			 (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				   IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
			     : 0);
	return a;
}

static void step(struct end *e, enum ibv_qp_type type, enum ibv_qp_state from,
		 enum ibv_qp_state to)
{
	int mask;
	struct ibv_qp_attr a = right_attributes(e, type, from, to, &mask);

	CHECK(!ibv_modify_qp(e->qp, &a, mask));
}

void renew(struct end *e, enum ibv_qp_type type, enum ibv_qp_state state)
{
	struct ibv_qp_init_attr init = { .send_cq = e->cq,
					 .recv_cq = e->cq,
					 .cap = { 8, 8, 2, 2, 64 },
					 .qp_type = type,
					 .sq_sig_all = 1 };

	CHECK(!ibv_destroy_qp(e->qp));
	CHECK((e->qp = ibv_create_qp(e->pd, &init)));
	if (state == IBV_QPS_ERR) {
		step(e, type, IBV_QPS_RESET, IBV_QPS_INIT);
		step(e, type, IBV_QPS_INIT, IBV_QPS_ERR);
		return;
	}
	if (state >= IBV_QPS_INIT)
		step(e, type, IBV_QPS_RESET, IBV_QPS_INIT);
	if (state >= IBV_QPS_RTR)
		step(e, type, IBV_QPS_INIT, IBV_QPS_RTR);
	if (state >= IBV_QPS_RTS)
		step(e, type, IBV_QPS_RTR, IBV_QPS_RTS);
	if (state == IBV_QPS_SQD)
		step(e, type, IBV_QPS_RTS, IBV_QPS_SQD);
}

void go(struct end *e, uint32_t to, int access, enum ibv_qp_state last)
{
	static const enum ibv_qp_state way[] = { IBV_QPS_RESET, IBV_QPS_INIT,
						 IBV_QPS_RTR, IBV_QPS_RTS };

	for (int i = 1; i < 4 && way[i] <= last; i++) {
		int mask;
		struct ibv_qp_attr a = right_attributes(
		    e, e->qp->qp_type, way[i - 1], way[i], &mask);

		a.dest_qp_num = to;
		a.qp_access_flags = (unsigned)access;
		if (impatient) {
			a.timeout = 12;
			a.retry_cnt = 1;
		}
		CHECK(!ibv_modify_qp(e->qp, &a, mask));
	}
}

void meet(struct end *a, struct end *b, int access)
{
	go(a, b->qp->qp_num, access, IBV_QPS_RTS);
	go(b, a->qp->qp_num, access, IBV_QPS_RTS);
}

void pair_up(struct end *a, struct end *b, enum ibv_qp_type type)
{
	end_open(a, type);
	end_open(b, type);
	meet(a, b, REMOTE);
}

struct ibv_ah *ah_of(struct end *e)
{
	int mask;
	struct ibv_qp_attr a =
	    right_attributes(e, IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, &mask);

	return ibv_create_ah(e->pd, &a.ah_attr);
}

struct ibv_send_wr request(struct end *e, struct ibv_sge *sge,
			   enum ibv_wr_opcode op, uint32_t length,
			   const struct end *to)
{
	struct ibv_send_wr wr = {
		.wr_id = 7, .sg_list = sge, .num_sge = 1, .opcode = op
	};

	*sge = (struct ibv_sge){ (uintptr_t)e->buf, length, e->mr->lkey };
	if (op == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)to->buf;
		wr.wr.atomic.rkey = to->mr->rkey;
	} else if (to) {
		wr.wr.rdma.remote_addr = (uintptr_t)to->buf;
		wr.wr.rdma.rkey = to->mr->rkey;
	}
	return wr;
}

int send_one(struct end *e, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;

	return ibv_post_send(e->qp, wr, &bad);
}

static const struct test groups[] = {
	{ "transitions", states_transitions },
	{ "values", states_values },
	{ "queries", states_queries },
	{ "posts", states_posts },
	{ "good", data_good },
	{ "types", data_other_types },
	{ "lengths", data_lengths },
	{ "keys", data_keys },
	{ "one-sided", data_one_sided },
	{ "local", data_local },
	{ "rnr", data_rnr },
	{ "nobody", data_nobody },
	{ "flush", data_flush },
	{ "unreliable", data_unreliable },
	{ "datagrams", data_datagrams },
	{ "shared", data_srq },
	{ "fence", data_fence },
	{ "windows", data_windows },
	{ "busy", calls_busy },
	{ "create", calls_create },
	{ "memory", calls_memory },
	{ "cq", calls_cq },
	{ "srq", calls_srq },
	{ "ah", calls_ah },
	{ "port", calls_port },
	{ "wrong posts", calls_posts },
	{ "events", calls_events },
	{ "full", calls_full },
};

static void find_gid(struct ibv_context *c)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	union ibv_gid gid;

	for (int i = 0; i < 16 && !ibv_query_gid(c, 1, i, &gid); i++)
		if (!memcmp(gid.raw, mapped, sizeof(mapped))) {
			gid_index = i;
			break;
		}
}

static void run_group(const struct test *group)
{
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		alarm(GROUP_S);
		struct ibv_context *c = open_device();
		CHECK(c);
		find_gid(c);
		group->run();
		exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	if (WIFSIGNALED(status))
		printf("group %s: ends by SIG%s\n", group->name,
		       sigabbrev_np(WTERMSIG(status)));
}

int main(int argc, char **argv)
{
	CHECK(argc > 1);
	device_name = argv[1];
	setvbuf(stdout, NULL, _IONBF, 0);
	for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++) {
		bool wanted = argc == 2;

		for (int k = 2; k < argc; k++)
			wanted |= !strcmp(argv[k], groups[i].name);
		if (wanted)
			run_group(&groups[i]);
	}
	return 0;
}
