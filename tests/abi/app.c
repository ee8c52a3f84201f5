/* SPDX-License-Identifier: MIT */
/* tests/abi/app.c - see tests/abi/app.h */
#include "app.h"

void app_fail(const char *what, int err)
{
	printf("%s: failed: %s\n", what, strerror(err < 0 ? -err : err));
	exit(1);
}

const char *app_errno(int err)
{
	static char other[32];

	if (err == ENOSYS)
		return "ENOSYS";
	if (err == EINVAL)
		return "EINVAL";
	snprintf(other, sizeof(other), "errno %d", err);
	return other;
}

void app_open(struct app *a)
{
	int n;
	struct osf_device **list = osf_get_device_list(&n);

	if (n != 1)
		app_fail("osf_get_device_list", ENODEV);
	printf("device: %s\n", osf_get_device_name(list[0]));
	a->context = osf_open_device(list[0]);
	if (!a->context)
		app_fail("osf_open_device", errno);
	osf_free_device_list(list);
	a->pd = osf_alloc_pd(a->context);
	if (!a->pd)
		app_fail("osf_alloc_pd", errno);
	a->mr = osf_reg_mr(a->pd, a->memory, sizeof(a->memory));
	if (!a->mr)
		app_fail("osf_reg_mr", errno);
}

void app_close(struct app *a)
{
	int err = osf_dereg_mr(a->mr);

	if (!err)
		err = osf_dealloc_pd(a->pd);
	if (!err)
		err = osf_close_device(a->context);
	if (err)
		app_fail("close", err);
}

struct app_pair app_pair(struct app *a, struct osf_cq *cq)
{
	struct app_pair p = { .cq = cq };
	struct osf_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .max_send_wr = 8, .max_recv_wr = 8
	};

	for (int i = 0; i < 2; i++) {
		p.qp[i] = osf_create_qp(a->pd, &attr);
		if (!p.qp[i])
			app_fail("osf_create_qp", errno);
	}
	for (int i = 0; i < 2; i++) {
		int err = osf_connect_qp(p.qp[i], p.qp[!i]->qp_num);

		if (err)
			app_fail("osf_connect_qp", err);
	}
	return p;
}

void app_unpair(struct app_pair *p)
{
	for (int i = 0; i < 2; i++) {
		int err = osf_destroy_qp(p->qp[i]);

		if (err)
			app_fail("osf_destroy_qp", err);
	}
	int err = osf_destroy_cq(p->cq);

	if (err)
		app_fail("osf_destroy_cq", err);
}

static struct osf_sge piece(struct app *a, int i)
{
	return (struct osf_sge){
		.addr = (uintptr_t)(a->memory + i * APP_BYTES),
		.length = APP_BYTES,
		.lkey = a->mr->lkey,
	};
}

struct osf_sge app_sent(struct app *a, int i) { return piece(a, i); }

void app_fill(struct app *a)
{
	for (size_t i = 0; i < sizeof(a->memory); i++)
		a->memory[i] =
		    i < sizeof(a->memory) / 2 ? (uint8_t)(i * 7 + i / 251) : 0;
}

void app_check(struct app *a)
{
	if (memcmp(a->memory, a->memory + sizeof(a->memory) / 2,
		   sizeof(a->memory) / 2)) {
		printf("wrong bytes\n");
		exit(1);
	}
}

void app_post_recvs(struct app *a, struct app_pair *p)
{
	for (int i = 0; i < APP_MESSAGES; i++) {
		struct osf_sge sge = piece(a, APP_MESSAGES + i);
		struct osf_recv_wr wr = { .wr_id = 100u + (unsigned)i,
					  .sg_list = &sge,
					  .num_sge = 1 };
		struct osf_recv_wr *bad;
		int err = osf_post_recv(p->qp[1], &wr, &bad);

		if (err)
			app_fail("osf_post_recv", err);
	}
}

/* Sends are posted before and after the receives that they need. */
void app_exchange(struct app *a)
{
	struct app_pair p = app_pair(a, osf_create_cq(a->context, 16, a));
	int n = 0, n_sends = 0;

	app_fill(a);
	for (int i = 0; i < APP_MESSAGES; i++) {
		struct osf_sge sge = app_sent(a, i);
		struct osf_send_wr wr = { .wr_id = (unsigned)i,
					  .sg_list = &sge,
					  .num_sge = 1,
					  .send_flags = OSF_SEND_SIGNALED };
		struct osf_send_wr *bad;
		int err = osf_post_send(p.qp[0], &wr, &bad);

		if (err)
			app_fail("osf_post_send", err);
		if (!i)
			app_post_recvs(a, &p);
	}
	while (n < 2 * APP_MESSAGES) {
		struct osf_wc wc[4];
		int got = osf_poll_cq(p.cq, 4, wc);

		if (got < 0)
			app_fail("osf_poll_cq", got);
		for (int i = 0; i < got; i++, n++) {
			if (wc[i].status)
				app_fail("completion", EIO);
			n_sends += wc[i].wr_id < 100;
		}
	}
	app_check(a);
	printf("data: %d sends, %d receives\n", n_sends, n - n_sends);
	app_unpair(&p);
}

void app_gen0(struct app *a)
{
	struct osf_device_attr attr;
	int err = osf_query_device(a->context, &attr);

	if (err)
		app_fail("osf_query_device", err);
	printf("query_device: %u elements\n", attr.max_sge);
	app_exchange(a);
}
