/* SPDX-License-Identifier: MIT */
/* rdma/transition.h - which changes of a queue pair's state are allowed */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>

/* May a queue pair of @type go @from one state @to another with the attributes @mask? */
bool transition_is_allowed(enum ibv_qp_type type, enum ibv_qp_state from,
			   enum ibv_qp_state to, int mask);
