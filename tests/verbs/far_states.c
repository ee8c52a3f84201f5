/* SPDX-License-Identifier: MIT */
/*
 * tests/verbs/far_states.c - SQD between hosts, and what a queue pair is told in it
 *
 *     far_states PORT            receives
 *     far_states PORT ADDRESS    sends
 *
 * Both run under `osf run`.  A TCP connection says whose turn it is.
 */
#include <poll.h>
#include <stdbool.h>

#include "far.h"

static const struct address none;

static void set(struct end *e, struct ibv_qp_attr a, int mask)
{
	CHECK(!ibv_modify_qp(e->qp, &a, mask));
}

static bool is_draining(struct end *e)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	CHECK(!ibv_query_qp(e->qp, &a, IBV_QP_STATE, &init));
	CHECK(a.qp_state == IBV_QPS_SQD);
	return a.sq_draining;
}

static bool has_event(struct end *e)
{
	struct pollfd p = { e->ctx->async_fd, POLLIN, 0 };

	return poll(&p, 1, 0) == 1;
}

static void sends(struct end *e)
{
	struct ibv_async_event event;

	/* It waits for a receive, however long. */
	CHECK(!post(e, IBV_WR_SEND, 5, e->mr->lkey, NULL));
	set(e,
	    (struct ibv_qp_attr){ .qp_state = IBV_QPS_SQD,
				  .en_sqd_async_notify = 1 },
	    IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
	CHECK(is_draining(e) && !has_event(e));
	tell(&none);
	CHECK(next(e).status == IBV_WC_SUCCESS);
	CHECK(!is_draining(e) && has_event(e));
	CHECK(!ibv_get_async_event(e->ctx, &event));
	CHECK(event.event_type == IBV_EVENT_SQ_DRAINED);
	ibv_ack_async_event(&event);

	/* From now on it waits once. */
	set(e, (struct ibv_qp_attr){ .rnr_retry = 1 }, IBV_QP_RNR_RETRY);
	set(e, (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS }, IBV_QP_STATE);
	CHECK(!post(e, IBV_WR_SEND, 5, e->mr->lkey, NULL));
	CHECK(next(e).status == IBV_WC_RNR_RETRY_EXC_ERR);
	tell(&none);
}

static void receives(struct end *e)
{
	hear();
	CHECK(!post_recv(e, 1, BUF));
	CHECK(next(e).byte_len == 5);
	hear();
}

int main(int argc, char **argv)
{
	struct end e;

	setvbuf(stdout, NULL, _IONBF, 0);
	alarm(60);
	meet(atoi(argv[1]), argc > 2 ? argv[2] : NULL);
	end_open(&e, IBV_QPT_RC);
	struct address mine = address_of(&e);
	tell(&mine);
	struct address theirs = hear();
	end_connect(&e, &theirs);
	tell(&mine); /* both are ready */
	hear();
	if (argc > 2)
		sends(&e);
	else
		receives(&e);
	return 0;
}
