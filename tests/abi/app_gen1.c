/* SPDX-License-Identifier: MIT */
/* tests/abi/app_gen1.c - what generation 1 has added; see tests/abi/app.h */
#include "app.h"

static void query(struct app *a)
{
	struct osf_device_attr_ex attr;
	int err = osf_query_device_ex(a->context, &attr, sizeof(attr));

	if (err == -ENOSYS) {
		printf("query_device_ex: ENOSYS\n");
		err = osf_query_device(a->context, &attr.orig);
	} else if (!err) {
		printf("query_device_ex: %s\n",
		       attr.comp_mask & OSF_DEVICE_ATTR_INLINE ? "inline"
							       : "no inline");
	}
	if (err || attr.orig.max_sge < 1)
		app_fail("query_device_ex", err);
}

static struct osf_cq *create(struct app *a)
{
	struct osf_cq_init_attr_ex attr = { .cqe = 16,
					    .comp_mask = OSF_CQ_ATTR_FLAGS,
					    .flags = OSF_CQ_IGNORE_OVERRUN };
	struct osf_cq *cq = osf_create_cq_ex(a->context, &attr);

	printf("create_cq_ex: %s\n", cq ? "flags" : app_errno(errno));
	if (cq)
		return cq;
	attr.comp_mask = 0; /* then it is osf_create_cq() */
	cq = osf_create_cq_ex(a->context, &attr);
	if (!cq)
		app_fail("osf_create_cq", errno);
	return cq;
}

/* All messages in one call; or each by the older call. */
static void send_all(struct app *a, struct app_pair *p)
{
	struct osf_send_wr_ex wr[APP_MESSAGES];
	struct osf_sge sge[APP_MESSAGES];

	memset(wr, 0, sizeof(wr));
	for (int i = 0; i < APP_MESSAGES; i++) {
		sge[i] = app_sent(a, i);
		wr[i].wr_id = (unsigned)i;
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = 1;
		wr[i].send_flags = OSF_SEND_SIGNALED;
	}
	int n = osf_post_send_ex(p->qp[0], wr, APP_MESSAGES, sizeof(wr[0]));

	if (n < 0)
		printf("post_send_ex: %s\n", app_errno(-n));
	else
		printf("post_send_ex: %d\n", n);
	for (int i = n < 0 ? 0 : n; i < APP_MESSAGES; i++) {
		struct osf_send_wr one = { .wr_id = (unsigned)i,
					   .sg_list = &sge[i],
					   .num_sge = 1,
					   .send_flags = OSF_SEND_SIGNALED };
		struct osf_send_wr *bad;

		if (osf_post_send(p->qp[0], &one, &bad))
			app_fail("osf_post_send", EIO);
	}
}

static void reap_old(struct app_pair *p)
{
	struct osf_wc wc;
	int n = 0;

	while (n < 2 * APP_MESSAGES) {
		int got = osf_poll_cq(p->cq, 1, &wc);

		if (got < 0 || (got && wc.status))
			app_fail("osf_poll_cq", EIO);
		n += got;
	}
}

static void reap(struct app_pair *p)
{
	struct osf_wc_ex wc[2 * APP_MESSAGES];
	int n = osf_poll_cq_ex(p->cq, 2 * APP_MESSAGES, wc, sizeof(wc[0]));
	int n_src = 0;

	if (n == -ENOSYS) {
		printf("poll_cq_ex: ENOSYS\n");
		reap_old(p);
		return;
	}
	if (n != 2 * APP_MESSAGES)
		app_fail("osf_poll_cq_ex", n < 0 ? n : EIO);
	for (int i = 0; i < n; i++) {
		if (wc[i].orig.status)
			app_fail("completion", EIO);
		n_src += wc[i].comp_mask & OSF_WC_EX_SRC_QP &&
			 wc[i].src_qp == p->qp[0]->qp_num;
	}
	printf("poll_cq_ex: %d, %d with src_qp\n", n, n_src);
}

void app_gen1(struct app *a)
{
	query(a);
	struct app_pair p = app_pair(a, create(a));

	app_fill(a);
	app_post_recvs(a, &p);
	send_all(a, &p);
	reap(&p);
	app_check(a);
	app_unpair(&p);
}
