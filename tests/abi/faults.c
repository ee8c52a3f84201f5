/* SPDX-License-Identifier: MIT */
/*
 * tests/abi/faults.c - a program on a device that fails: nothing is lost silently
 *
 *     OSF_FAULTS -> 60 rounds of 4 sends -> how many went which way
 *
 * Each post that was taken completes once, in order.  What completes with success
 * has arrived unchanged; what failed has not arrived.
 */
#include "app.h"

#define ROUNDS 60
#define SENDS 4
#define BYTES 64

static struct {
	int fine, lost, flushed, refused, no_memory;
} counts;

struct round {
	struct app_pair p;
	struct osf_mr *mr;
	uint8_t sent[SENDS][BYTES], got[SENDS][BYTES];
	int taken[SENDS], n_taken; /* which sends were posted */
	int n_done, n_arrived;
	bool has_failed;
};

static void need(bool is_so, const char *what)
{
	if (!is_so)
		app_fail(what, EIO);
}

static struct osf_sge piece(struct round *r, uint8_t *at)
{
	return (struct osf_sge){ .addr = (uintptr_t)at,
				 .length = BYTES,
				 .lkey = r->mr->lkey };
}

static void post_recvs(struct round *r)
{
	for (int i = 0; i < SENDS; i++) {
		struct osf_sge sge = piece(r, r->got[i]);
		struct osf_recv_wr wr = { .wr_id = 100u + (unsigned)i,
					  .sg_list = &sge,
					  .num_sge = 1 };
		struct osf_recv_wr *bad;

		need(!osf_post_recv(r->p.qp[1], &wr, &bad), "osf_post_recv");
	}
}

static void post_sends(struct round *r)
{
	for (int i = 0; i < SENDS; i++) {
		struct osf_sge sge = piece(r, r->sent[i]);
		struct osf_send_wr wr = { .wr_id = (unsigned)i,
					  .sg_list = &sge,
					  .num_sge = 1,
					  .send_flags = OSF_SEND_SIGNALED };
		struct osf_send_wr *bad = NULL;
		int err = osf_post_send(r->p.qp[0], &wr, &bad);

		need(!err || (err == -ENOMEM && bad == &wr), "osf_post_send");
		if (err)
			counts.refused++;
		else
			r->taken[r->n_taken++] = i;
	}
}

static void take(struct round *r, const struct osf_wc *wc)
{
	if (wc->wr_id >= 100) {
		int i = r->taken[r->n_arrived];

		need(wc->wr_id == 100u + (unsigned)r->n_arrived && !wc->status,
		     "a receive");
		need(!memcmp(r->got[r->n_arrived], r->sent[i], BYTES),
		     "what arrived");
		r->n_arrived++;
		return;
	}
	need(wc->wr_id == (unsigned)r->taken[r->n_done++], "the order");
	need(!r->has_failed || wc->status == OSF_WC_WR_FLUSH_ERR,
	     "after an error");
	counts.fine += wc->status == OSF_WC_SUCCESS;
	counts.lost += wc->status == OSF_WC_RETRY_EXC_ERR;
	counts.flushed += wc->status == OSF_WC_WR_FLUSH_ERR;
	r->has_failed = wc->status;
}

static void reap(struct round *r)
{
	int n_empty = 0, n_fine = counts.fine;
	struct osf_wc wc;

	/* Each empty poll frees one of what is held. */
	while (r->n_done < r->n_taken && n_empty <= SENDS) {
		int got = osf_poll_cq(r->p.cq, 1, &wc);

		need(got >= 0, "osf_poll_cq");
		n_empty += !got;
		if (got)
			take(r, &wc);
	}
	need(r->n_done == r->n_taken, "a send that does not complete");
	need(osf_poll_cq(r->p.cq, 1, &wc) == 0, "one completion too many");
	need(r->n_arrived == counts.fine - n_fine, "what failed has arrived");
	for (int i = r->n_arrived; i < SENDS; i++)
		need(!r->got[i][0], "bytes of what failed");
}

/* False: there is no memory for it. */
static bool pair_open(struct app *a, struct round *r)
{
	struct osf_qp_init_attr attr = { .max_send_wr = 8, .max_recv_wr = 8 };

	r->mr = osf_reg_mr(a->pd, r->sent, sizeof(r->sent) + sizeof(r->got));
	r->p.cq = r->mr ? osf_create_cq(a->context, 16, NULL) : NULL;
	attr.send_cq = attr.recv_cq = r->p.cq;
	r->p.qp[0] = r->p.cq ? osf_create_qp(a->pd, &attr) : NULL;
	r->p.qp[1] = r->p.qp[0] ? osf_create_qp(a->pd, &attr) : NULL;
	if (!r->p.qp[1]) {
		need(errno == ENOMEM, "errno");
		return false;
	}
	need(!osf_connect_qp(r->p.qp[0], r->p.qp[1]->qp_num) &&
		 !osf_connect_qp(r->p.qp[1], r->p.qp[0]->qp_num),
	     "osf_connect_qp");
	return true;
}

static void pair_close(struct round *r)
{
	for (int i = 0; i < 2; i++)
		need(!r->p.qp[i] || !osf_destroy_qp(r->p.qp[i]), "destroy_qp");
	need(!r->p.cq || !osf_destroy_cq(r->p.cq), "destroy_cq");
	need(!r->mr || !osf_dereg_mr(r->mr), "dereg_mr");
}

static void run_round(struct app *a, unsigned seed)
{
	struct round r;

	memset(&r, 0, sizeof(r));
	for (int i = 0; i < SENDS; i++)
		memset(r.sent[i], (int)(1 + (seed * SENDS + (unsigned)i) % 255),
		       BYTES);
	a->pd = osf_alloc_pd(a->context);
	if (a->pd && pair_open(a, &r)) {
		post_recvs(&r);
		post_sends(&r);
		reap(&r);
	} else {
		counts.no_memory++;
	}
	if (a->pd) {
		pair_close(&r);
		need(!osf_dealloc_pd(a->pd), "osf_dealloc_pd");
	}
}

int main(void)
{
	static struct app a;
	int n;
	struct osf_device **list = osf_get_device_list(&n);

	if (n != 1)
		app_fail("osf_get_device_list", ENODEV);
	a.context = osf_open_device(list[0]);
	osf_free_device_list(list);
	if (!a.context)
		app_fail("osf_open_device", errno);
	for (unsigned i = 0; i < ROUNDS; i++)
		run_round(&a, i);
	need(!osf_close_device(a.context), "osf_close_device");
	printf("fine %d, lost %d, flushed %d, refused %d, no memory %d\n",
	       counts.fine, counts.lost, counts.flushed, counts.refused,
	       counts.no_memory);
	return 0;
}
