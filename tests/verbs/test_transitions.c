/* SPDX-License-Identifier: MIT */
/*
 * tests/verbs/test_transitions.c - every pair of states, right and wrong attributes
 *
 * The expectations are written out here as the InfiniBand Architecture has them (volume
 * 1, section 11.2.5.2), not made from rdma/transitions.def.
 */
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "rdma/transition.h"

#define N_STATES 7
#define ALL_BITS 26

#define N_TYPES 5

static const enum ibv_qp_type types[N_TYPES] = { IBV_QPT_RC, IBV_QPT_UC,
						 IBV_QPT_UD, IBV_QPT_XRC_SEND,
						 IBV_QPT_XRC_RECV };

/* Rows: from; columns: to RESET, INIT, RTR, RTS, SQD, SQE, ERR. */
static const char *const allowed[N_STATES] = {
	"yy.....", /* RESET */
	"yyy...y", /* INIT */
	"y..y..y", /* RTR */
	"y..yy.y", /* RTS */
	"y..yy.y", /* SQD */
	"y..u..y", /* SQE: not of a reliable one */
	"y.....y", /* ERR */
};

/* What a transition needs besides IBV_QP_STATE. */
static int needs(enum ibv_qp_type type, int from, int to)
{
	bool is_ud = type == IBV_QPT_UD;
	/* RC is both ends of what XRC has two types for. */
	bool answers = type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV;
	bool asks = type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND;

	if (from == IBV_QPS_RESET && to == IBV_QPS_INIT)
		return IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		       (is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	if (from == IBV_QPS_INIT && to == IBV_QPS_RTR && !is_ud)
		return IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		       IBV_QP_RQ_PSN |
		       (answers
			    ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER
			    : 0);
	if (from == IBV_QPS_RTR && to == IBV_QPS_RTS)
		return IBV_QP_SQ_PSN | (asks || answers ? IBV_QP_TIMEOUT : 0) |
		       (asks ? IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_MAX_QP_RD_ATOMIC
			     : 0);
	return 0;
}

/* Attributes that no transition takes, of any type. */
static const int never = IBV_QP_CAP | IBV_QP_RATE_LIMIT;

static bool may(enum ibv_qp_type type, int from, int to)
{
	char c = allowed[from][to];

	return c == 'y' ||
	       (c == 'u' && (type == IBV_QPT_UC || type == IBV_QPT_UD));
}

static void test_pairs(void **state)
{
	for (size_t t = 0; t < N_TYPES; t++)
		for (int from = 0; from < N_STATES; from++)
			for (int to = 0; to < N_STATES; to++) {
				int mask =
				    IBV_QP_STATE | needs(types[t], from, to);

				if (transition_is_allowed(types[t], from, to,
							  mask) !=
				    may(types[t], from, to))
					fail_msg("type %d from %d to %d",
						 types[t], from, to);
			}
}

/* Each attribute that is needed, left out. */
static void test_missing(void **state)
{
	for (size_t t = 0; t < N_TYPES; t++)
		for (int from = 0; from < N_STATES; from++)
			for (int to = 0; to < N_STATES; to++) {
				int need = needs(types[t], from, to);

				for (int bit = 1; bit < 1 << ALL_BITS; bit *= 2)
					if (need & bit)
						assert_false(
						    transition_is_allowed(
							types[t], from, to,
							(IBV_QP_STATE | need) &
							    ~bit));
			}
}

static void test_never(void **state)
{
	for (size_t t = 0; t < N_TYPES; t++)
		for (int from = 0; from < N_STATES; from++)
			for (int to = 0; to < N_STATES; to++)
				for (int bit = 1; bit < 1 << ALL_BITS; bit *= 2)
					if (bit & never)
						assert_false(
						    transition_is_allowed(
							types[t], from, to,
							IBV_QP_STATE |
							    needs(types[t],
								  from, to) |
							    bit));
}

/* To leave everything behind takes nothing, and allows nothing. */
static void test_ends(void **state)
{
	for (size_t t = 0; t < N_TYPES; t++)
		for (int from = 0; from < N_STATES; from++)
			for (int bit = 2; bit < 1 << ALL_BITS; bit *= 2) {
				assert_false(transition_is_allowed(
				    types[t], from, IBV_QPS_RESET,
				    IBV_QP_STATE | bit));
				assert_false(transition_is_allowed(
				    types[t], from, IBV_QPS_ERR,
				    IBV_QP_STATE | bit));
			}
}

static void test_optional(void **state)
{
	const int rts = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS;

	assert_true(transition_is_allowed(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTS,
					  rts | IBV_QP_MIN_RNR_TIMER));
	assert_false(transition_is_allowed(IBV_QPT_UC, IBV_QPS_RTS, IBV_QPS_RTS,
					   rts | IBV_QP_MIN_RNR_TIMER));
	assert_true(
	    transition_is_allowed(IBV_QPT_UC, IBV_QPS_RTS, IBV_QPS_RTS, rts));
	assert_false(
	    transition_is_allowed(IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_RTS, rts));
	assert_true(transition_is_allowed(IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_RTS,
					  IBV_QP_STATE | IBV_QP_QKEY));
	assert_false(transition_is_allowed(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTS,
					   IBV_QP_STATE | IBV_QP_QKEY));
	assert_true(
	    transition_is_allowed(IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_SQD,
				  IBV_QP_STATE | IBV_QP_AV | IBV_QP_TIMEOUT));
	assert_false(transition_is_allowed(IBV_QPT_UC, IBV_QPS_SQD, IBV_QPS_SQD,
					   IBV_QP_STATE | IBV_QP_TIMEOUT));
	assert_false(transition_is_allowed(IBV_QPT_XRC_SEND, IBV_QPS_RTS,
					   IBV_QPS_RTS,
					   rts | IBV_QP_MIN_RNR_TIMER));
	assert_true(transition_is_allowed(IBV_QPT_XRC_RECV, IBV_QPS_RTS,
					  IBV_QPS_RTS,
					  rts | IBV_QP_MIN_RNR_TIMER));
	assert_true(
	    transition_is_allowed(IBV_QPT_XRC_SEND, IBV_QPS_SQD, IBV_QPS_SQD,
				  IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC));
	assert_false(
	    transition_is_allowed(IBV_QPT_XRC_SEND, IBV_QPS_SQD, IBV_QPS_SQD,
				  IBV_QP_STATE | IBV_QP_MAX_DEST_RD_ATOMIC));
	assert_true(
	    transition_is_allowed(IBV_QPT_XRC_RECV, IBV_QPS_SQD, IBV_QPS_SQD,
				  IBV_QP_STATE | IBV_QP_MAX_DEST_RD_ATOMIC));
	/* A state may be named only where the program can know it. */
	assert_true(transition_is_allowed(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTS,
					  rts | IBV_QP_CUR_STATE));
	assert_false(transition_is_allowed(
	    IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_INIT,
	    IBV_QP_STATE | IBV_QP_PORT | IBV_QP_CUR_STATE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pairs),    cmocka_unit_test(test_missing),
		cmocka_unit_test(test_never),    cmocka_unit_test(test_ends),
		cmocka_unit_test(test_optional),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
