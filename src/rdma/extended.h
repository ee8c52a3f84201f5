/* SPDX-License-Identifier: MIT */
/* rdma/extended.h - the newer calls: functions in queue pairs and completion queues */
#pragma once

#include "rdma/core.h"
#include "rdma/domain.h"
#include "rdma/mcast.h"
#include "rdma/mw.h"
#include "rdma/xrc.h"

struct ibv_qp *rdma_create_qp_ex(struct ibv_context *c,
				 struct ibv_qp_init_attr_ex *a);
struct ibv_qp_ex *rdma_qp_to_qp_ex(struct ibv_qp *qp);
struct ibv_cq_ex *rdma_create_cq_ex(struct ibv_context *c,
				    struct ibv_cq_init_attr_ex *a);
