/* SPDX-License-Identifier: MIT */
/*
 * tests/abi/app_2.c - a program of generation 2: time stamps and immediate data
 *
 * A new call, a new field of an input, new fields in elements of two arrays, a
 * new field of an output.  See tests/abi/app.h.
 */
#include <time.h>

#include "app.h"

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void query(struct app *a)
{
	struct osf_device_attr_ex attr;
	int err = osf_query_device_ex(a->context, &attr, sizeof(attr));

	if (!err && attr.comp_mask & OSF_DEVICE_ATTR_HWCLOCK)
		printf("hwclock_khz: %u\n", (unsigned)attr.hwclock_khz);
	else
		printf("hwclock_khz: %s\n", err ? app_errno(-err) : "absent");
}

/* The device's clock; or our own. */
static uint64_t device_ns(struct app *a)
{
	struct osf_values values;
	int err = osf_query_values(a->context, OSF_VALUES_HWCLOCK, &values,
				   sizeof(values));

	if (!err && !(values.comp_mask & OSF_VALUES_HWCLOCK))
		app_fail("osf_query_values", EIO);
	printf("query_values: %s\n", err ? app_errno(-err) : "hwclock");
	return err ? now_ns() : values.hwclock_ns;
}

/* With all that is known: down to nothing, which every library can. */
static struct osf_cq *create(struct app *a, uint64_t base)
{
	struct osf_cq_init_attr_ex attr = {
		.cqe = 16,
		.comp_mask =
		    OSF_CQ_ATTR_FLAGS | OSF_CQ_ATTR_TS_CLOCK | OSF_COMP_MASK2,
		.flags = OSF_CQ_TIMESTAMP,
		.ts_clock = CLOCK_MONOTONIC,
		.comp_mask2 = OSF_CQ_ATTR2_TS_BASE,
		.ts_base = base,
	};
	struct osf_cq *cq = osf_create_cq_ex(a->context, &attr);

	printf("create_cq_ex with time stamps: %s\n",
	       cq ? "yes" : app_errno(errno));
	attr.comp_mask = 0;
	if (!cq)
		cq = osf_create_cq_ex(a->context, &attr);
	if (!cq)
		app_fail("osf_create_cq_ex", errno);
	return cq;
}

static int post(struct app *a, struct app_pair *p, uint32_t mask)
{
	struct osf_send_wr_ex wr[APP_MESSAGES];
	struct osf_sge sge[APP_MESSAGES];

	memset(wr, 0, sizeof(wr));
	for (int i = 0; i < APP_MESSAGES; i++) {
		sge[i] = app_sent(a, i);
		wr[i].wr_id = (unsigned)i;
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = 1;
		wr[i].comp_mask = mask;
		wr[i].imm_data = 1000u + (unsigned)i;
	}
	return osf_post_send_ex(p->qp[0], wr, APP_MESSAGES, sizeof(wr[0]));
}

static void post_old(struct app *a, struct app_pair *p)
{
	for (int i = 0; i < APP_MESSAGES; i++) {
		struct osf_sge sge = app_sent(a, i);
		struct osf_send_wr one = { .wr_id = (unsigned)i,
					   .sg_list = &sge,
					   .num_sge = 1 };
		struct osf_send_wr *bad;

		if (osf_post_send(p->qp[0], &one, &bad))
			app_fail("osf_post_send", EIO);
	}
}

/* With immediate data; or without; or by the oldest call. */
static void send_all(struct app *a, struct app_pair *p)
{
	int n = post(a, p, OSF_SEND_WR_IMM);

	if (n < 0)
		printf("post_send_ex with imm: %s\n", app_errno(-n));
	else
		printf("post_send_ex with imm: %d\n", n);
	if (n == -EINVAL)
		n = post(a, p, 0);
	if (n == -ENOSYS)
		post_old(a, p);
	else if (n != APP_MESSAGES)
		app_fail("osf_post_send_ex", n);
}

/* Time stamps count from @base. */
static void reap(struct app_pair *p, uint64_t base)
{
	struct osf_wc_ex wc[APP_MESSAGES];
	struct osf_wc old[APP_MESSAGES];
	int n = osf_poll_cq_ex(p->cq, APP_MESSAGES, wc, sizeof(wc[0]));
	int n_ts = 0, n_imm = 0;

	if (n == -ENOSYS) {
		printf("poll_cq_ex: ENOSYS\n");
		n = osf_poll_cq(p->cq, APP_MESSAGES, old);
		if (n != APP_MESSAGES || old[0].status)
			app_fail("osf_poll_cq", n);
		return;
	}
	if (n != APP_MESSAGES)
		app_fail("osf_poll_cq_ex", n < 0 ? n : EIO);
	for (int i = 0; i < n; i++) {
		bool has_ts = wc[i].comp_mask & OSF_WC_EX_TS;

		if (wc[i].orig.status || wc[i].orig.wr_id != 100u + (unsigned)i)
			app_fail("completion", EIO);
		if (has_ts && wc[i].ts > now_ns() - base)
			app_fail("time stamp", ERANGE);
		n_ts += has_ts;
		n_imm += wc[i].comp_mask & OSF_WC_EX_IMM &&
			 wc[i].imm_data == 1000u + (unsigned)i;
	}
	printf("poll_cq_ex: %d with ts, %d with imm\n", n_ts, n_imm);
}

int main(void)
{
	static struct app a;

	app_open(&a);
	app_gen0(&a);
	app_gen1(&a);
	query(&a);
	uint64_t base = device_ns(&a);
	struct app_pair p = app_pair(&a, create(&a, base));

	app_fill(&a);
	app_post_recvs(&a, &p);
	send_all(&a, &p);
	reap(&p, base);
	app_check(&a);
	app_unpair(&p);
	app_close(&a);
	return 0;
}
