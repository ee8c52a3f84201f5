/* SPDX-License-Identifier: MIT */
/*
 * tests/vm/golden_states.c - states of a queue pair: which follows which, with which attributes
 *
 * See golden.h.
 */
#include "golden.h"

#define N_BITS 21

static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

/* The states that a program can bring about. */
static const enum ibv_qp_state states[] = { IBV_QPS_RESET, IBV_QPS_INIT,
					    IBV_QPS_RTR,   IBV_QPS_RTS,
					    IBV_QPS_SQD,   IBV_QPS_ERR };

#define N_STATES (sizeof(states) / sizeof(*states))

static int attempt(struct end *e, enum ibv_qp_type type, enum ibv_qp_state from,
		   enum ibv_qp_state to, int without, int with)
{
	int mask;
	struct ibv_qp_attr a = right_attributes(e, type, from, to, &mask);
	int error = ibv_modify_qp(e->qp, &a, (mask & ~without) | with);

	if (!error)
		renew(e, type, from);
	else if (state_of(e) != from)
		add(" (now %s)", state_name(state_of(e)));
	return error;
}

static void transition(struct end *e, enum ibv_qp_type type,
		       enum ibv_qp_state from, enum ibv_qp_state to)
{
	int mask, error;

	line("%s %s>%s", type_name(type), state_name(from), state_name(to));
	right_attributes(e, type, from, to, &mask);
	error = attempt(e, type, from, to, 0, 0);
	add(" %s", error_name(error));
	if (!error) {
		add("; needs");
		for (int bit = 1; bit < N_BITS; bit++)
			if (mask & 1 << bit &&
			    attempt(e, type, from, to, 1 << bit, 0))
				add(" %s", mask_name(bit));
		add("; takes");
		for (int bit = 1; bit < N_BITS; bit++)
			if (!(mask & 1 << bit) &&
			    !attempt(e, type, from, to, 0, 1 << bit))
				add(" %s", mask_name(bit));
	}
	end_line();
}

void states_transitions(void)
{
	struct end e;

	end_open(&e, IBV_QPT_RC);
	for (size_t t = 0; t < 3; t++)
		for (size_t i = 0; i < N_STATES; i++) {
			renew(&e, types[t], states[i]);
			for (int to = IBV_QPS_RESET; to <= IBV_QPS_ERR; to++)
				transition(&e, types[t], states[i],
					   (enum ibv_qp_state)to);
		}
}

static void try_value(struct end *e, const char *what, enum ibv_qp_type type,
		      enum ibv_qp_state from, struct ibv_qp_attr *a, int mask)
{
	int error = ibv_modify_qp(e->qp, a, mask);

	line("%s %s>%s with %s", type_name(type), state_name(from),
	     state_name(a->qp_state), what);
	add(" %s %s", error_name(error), state_name(state_of(e)));
	end_line();
}

#define TRY(type, from, to, more, assign)                                      \
	do {                                                                   \
		int mask_;                                                     \
		renew(&e, type, from);                                         \
		struct ibv_qp_attr a_ =                                        \
		    right_attributes(&e, type, from, to, &mask_);              \
		a_.assign;                                                     \
		try_value(&e, #assign, type, from, &a_, mask_ | (more));       \
	} while (0)

static void values_of_path(void)
{
	struct end e;

	end_open(&e, IBV_QPT_RC);
	TRY(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, 0, path_mtu = 0);
	TRY(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, 0, path_mtu = IBV_MTU_256);
	TRY(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, 0, path_mtu = 6);
	TRY(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, 0, dest_qp_num = 0xffffff);
	TRY(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, 0, dest_qp_num = 0x1000000);
	TRY(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, 0, rq_psn = 0x1000000);
	TRY(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, 0, ah_attr.port_num = 0);
	TRY(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, 0, ah_attr.port_num = 2);
	TRY(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, 0, ah_attr.is_global = 0);
	TRY(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, 0,
	    ah_attr.grh.sgid_index = 200);
	TRY(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, 0, max_dest_rd_atomic = 0);
	TRY(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, 0, max_dest_rd_atomic = 255);
	TRY(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, 0, min_rnr_timer = 31);
	TRY(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, 0, min_rnr_timer = 32);
	TRY(IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR, 0, path_mtu = 6);
	TRY(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_PATH_MIG_STATE,
	    path_mig_state = IBV_MIG_ARMED);
}

void states_values(void)
{
	struct end e;

	end_open(&e, IBV_QPT_RC);
	TRY(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, 0, port_num = 0);
	TRY(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, 0, port_num = 2);
	TRY(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, 0, pkey_index = 1);
	TRY(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, 0, pkey_index = 5000);
	TRY(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, 0, qp_access_flags = 0);
	TRY(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, 0,
	    qp_access_flags = 1 << 30);
	TRY(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, 0, qp_state = 7);
	TRY(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, 0, qp_state = 200);
	TRY(IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, 0, qkey = 0xffffffff);
	TRY(IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, 0, port_num = 2);
	values_of_path();
	TRY(IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, 0, sq_psn = 0x1000000);
	TRY(IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, 0, timeout = 0);
	TRY(IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, 0, timeout = 31);
	TRY(IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, 0, timeout = 32);
	TRY(IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, 0, retry_cnt = 8);
	TRY(IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, 0, rnr_retry = 8);
	TRY(IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, 0, max_rd_atomic = 0);
	TRY(IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, 0, max_rd_atomic = 255);
	TRY(IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_CUR_STATE,
	    cur_qp_state = IBV_QPS_RTS);
	TRY(IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_CUR_STATE,
	    cur_qp_state = IBV_QPS_INIT);
	TRY(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QP_EN_SQD_ASYNC_NOTIFY,
	    en_sqd_async_notify = 1);
	/* Attributes without a new state. */
	renew(&e, IBV_QPT_RC, IBV_QPS_RTS);
	struct ibv_qp_attr a = { .min_rnr_timer = 5 };
	said("RC in RTS, only MIN_RNR_TIMER",
	     ibv_modify_qp(e.qp, &a, IBV_QP_MIN_RNR_TIMER));
	said("RC in RTS, only TIMEOUT",
	     ibv_modify_qp(e.qp, &a, IBV_QP_TIMEOUT));
	said("RC in RTS, no attribute", ibv_modify_qp(e.qp, &a, 0));
}

static void query(struct end *e, const char *when)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	memset(&a, 0, sizeof(a));
	int error = ibv_query_qp(e->qp, &a, 0x1fffff, &init);
	line("query %s", when);
	add(" %s %s cur %s", error_name(error), state_name(a.qp_state),
	    state_name(a.cur_qp_state));
	add(" mtu %d qkey %x rq_psn %x sq_psn %x dest %s access %x", a.path_mtu,
	    a.qkey, a.rq_psn, a.sq_psn,
	    !a.dest_qp_num                   ? "0"
	    : a.dest_qp_num == e->qp->qp_num ? "as set"
					     : "other",
	    a.qp_access_flags);
	add(" pkey %d port %d rd %d dest_rd %d rnr_timer %d timeout %d",
	    a.pkey_index, a.port_num, a.max_rd_atomic, a.max_dest_rd_atomic,
	    a.min_rnr_timer, a.timeout);
	add(" retry %d rnr_retry %d draining %d global %d sig_all %d",
	    a.retry_cnt, a.rnr_retry, a.sq_draining, a.ah_attr.is_global,
	    init.sq_sig_all);
	add(" cap %d", init.cap.max_send_wr >= 8 && init.cap.max_recv_wr >= 8 &&
			   init.cap.max_send_sge >= 2 &&
			   init.cap.max_inline_data >= 64);
	end_line();
}

void states_queries(void)
{
	struct end e;

	end_open(&e, IBV_QPT_RC);
	for (size_t i = 0; i < N_STATES; i++) {
		char when[16];

		snprintf(when, sizeof(when), "RC in %s", state_name(states[i]));
		renew(&e, IBV_QPT_RC, states[i]);
		query(&e, when);
	}
	renew(&e, IBV_QPT_UC, IBV_QPS_RTS);
	query(&e, "UC in RTS");
	renew(&e, IBV_QPT_UD, IBV_QPS_RTS);
	query(&e, "UD in RTS");
}

void states_posts(void)
{
	struct end e;

	end_open(&e, IBV_QPT_RC);
	for (size_t t = 0; t < 3; t++)
		for (size_t i = 0; i < N_STATES; i++) {
			struct ibv_sge sge;

			renew(&e, types[t], states[i]);
			line("%s in %s", type_name(types[t]),
			     state_name(states[i]));
			add(" receive %s", error_name(post_recv(&e, 1, 10)));
			struct ibv_send_wr wr =
			    request(&e, &sge, IBV_WR_SEND, 1, NULL);
			if (types[t] == IBV_QPT_UD) {
				wr.wr.ud.ah = ah_of(&e);
				wr.wr.ud.remote_qpn = 0xfffff;
			}
			if (states[i] != IBV_QPS_RTS)
				add(" send %s", error_name(send_one(&e, &wr)));
			end_line();
		}
}
