/* SPDX-License-Identifier: MIT */
/*
 * tests/abi/two.c - one of two processes that send each other messages
 *
 *     two TAG: prints its QP's number, reads the other's -> "ready" -> a line ->
 *              messages both ways -> "sent N, received N" -> a line -> end
 *
 * The lines are verbs.py's, which has both wait for each other.
 */
#include <time.h>

#include "app.h"

#define PATIENCE_S 30

static void wait_line(char *line, int size)
{
	fflush(stdout);
	if (!fgets(line, size, stdin))
		app_fail("the other process", EPIPE);
}

static struct osf_qp *qp_open(struct app *a, struct osf_cq *cq)
{
	struct osf_qp_init_attr attr = { cq, cq, 8, 8 };
	struct osf_qp *qp = osf_create_qp(a->pd, &attr);
	struct app_pair p = { .cq = cq, .qp = { NULL, qp } };
	char line[32];

	if (!qp)
		app_fail("osf_create_qp", errno);
	app_post_recvs(a, &p);
	printf("qp_num: %u\n", qp->qp_num);
	wait_line(line, sizeof(line));
	int err = osf_connect_qp(qp, (uint32_t)atol(line));

	if (err)
		app_fail("osf_connect_qp", err);
	printf("ready\n");
	wait_line(line, sizeof(line));
	return qp;
}

static void send_all(struct app *a, struct osf_qp *qp)
{
	for (int i = 0; i < APP_MESSAGES; i++) {
		struct osf_sge sge = app_sent(a, i);
		struct osf_send_wr wr = { .wr_id = (unsigned)i,
					  .sg_list = &sge,
					  .num_sge = 1,
					  .send_flags = OSF_SEND_SIGNALED };
		struct osf_send_wr *bad;
		int err = osf_post_send(qp, &wr, &bad);

		if (err)
			app_fail("osf_post_send", err);
	}
}

static void reap(struct osf_cq *cq)
{
	time_t end = time(NULL) + PATIENCE_S;
	int n_sent = 0, n_got = 0;

	while (n_sent + n_got < 2 * APP_MESSAGES) {
		struct osf_wc wc;
		int got = osf_poll_cq(cq, 1, &wc);

		if (got < 0 || (got && wc.status))
			app_fail("completion", EIO);
		if (got)
			*(wc.wr_id < 100 ? &n_sent : &n_got) += 1;
		else if (time(NULL) > end)
			app_fail("osf_poll_cq", ETIMEDOUT);
	}
	printf("sent %d, received %d\n", n_sent, n_got);
}

int main(int argc, char **argv)
{
	static struct app a;
	int tag = argc > 1 ? atoi(argv[1]) : 0;
	char line[32];

	app_open(&a);
	app_fill(&a);
	for (size_t i = 0; i < sizeof(a.memory) / 2; i++)
		a.memory[i] += (uint8_t)tag;
	struct osf_cq *cq = osf_create_cq(a.context, 16, NULL);

	if (!cq)
		app_fail("osf_create_cq", errno);
	struct osf_qp *qp = qp_open(&a, cq);

	send_all(&a, qp);
	reap(cq);
	/* What came is the other's: its tag is the other one of 0 and 1. */
	for (size_t i = 0; i < sizeof(a.memory) / 2; i++)
		a.memory[i] += (uint8_t)(tag ? -1 : 1);
	app_check(&a);
	wait_line(line, sizeof(line));
	if (osf_destroy_qp(qp) || osf_destroy_cq(cq))
		app_fail("destroy", EBUSY);
	app_close(&a);
	return 0;
}
