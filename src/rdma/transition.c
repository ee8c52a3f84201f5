/* SPDX-License-Identifier: MIT */
/* rdma/transition.c - see rdma/transition.h; the table is transitions.def */
#include <stddef.h>

#include "rdma/transition.h"

#define NEVER (-1) /* as what is required */

enum column { RC, UC, UD, XRC_SEND, XRC_RECV, N_COLUMNS };

struct transition {
	enum ibv_qp_state from, to;
	struct {
		int required, optional;
	} of[N_COLUMNS];
};

static const struct transition table[] = {
#define T(from, to, rc1, rc2, uc1, uc2, ud1, ud2, xs1, xs2, xr1, xr2)          \
	{ IBV_QPS_##from,                                                      \
	  IBV_QPS_##to,                                                        \
	  { [RC] = { rc1, rc2 },                                               \
	    [UC] = { uc1, uc2 },                                               \
	    [UD] = { ud1, ud2 },                                               \
	    [XRC_SEND] = { xs1, xs2 },                                         \
	    [XRC_RECV] = { xr1, xr2 } } },
#include "rdma/transitions.def"
#undef T
};

static enum column column_of(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_UD:
		return UD;
	case IBV_QPT_UC:
		return UC;
	case IBV_QPT_XRC_SEND:
		return XRC_SEND;
	case IBV_QPT_XRC_RECV:
		return XRC_RECV;
	default:
		return RC;
	}
}

/* The present state may be named only where the program can know it. */
static bool may_name(enum ibv_qp_state s)
{
	return s == IBV_QPS_RTR || s == IBV_QPS_RTS || s == IBV_QPS_SQD ||
	       s == IBV_QPS_SQE;
}

bool transition_is_allowed(enum ibv_qp_type type, enum ibv_qp_state from,
			   enum ibv_qp_state to, int mask)
{
	if (mask & IBV_QP_CUR_STATE && !may_name(from))
		return false;
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		const struct transition *t = &table[i];
		int required = t->of[column_of(type)].required;
		int optional = t->of[column_of(type)].optional;

		if (t->from != from || t->to != to)
			continue;
		return required != NEVER && (mask & required) == required &&
		       !(mask & ~(required | optional | IBV_QP_STATE));
	}
	return false;
}
