/* SPDX-License-Identifier: MIT */
/*
 * tests/abi/proof_old.c - a program of generation 1, which later ones must not harm
 *
 *     proof_old canary       outputs stay within the size that the program passes
 *     proof_old canary-cq    elements of an array stay within theirs
 *     proof_old mask2        comp_mask2 is not read without bit 31
 */
#include "proof.h"

/* The output is followed by bytes that count, and by a page without access. */
static void canary(struct app *a)
{
	struct osf_device_attr_ex *attr = proof_end_of_page(sizeof(*attr) + 16);
	int err = osf_query_device_ex(a->context, attr, sizeof(*attr));

	proof_need(!err, "osf_query_device_ex");
	proof_need(proof_is_untouched(attr + 1, 16), "bytes behind the output");
	attr = proof_end_of_page(sizeof(*attr));
	err = osf_query_device_ex(a->context, attr, sizeof(*attr));
	proof_need(!err && attr->orig.max_sge == 4, "osf_query_device_ex");
	proof_need(attr->comp_mask == OSF_DEVICE_ATTR_INLINE,
		   "a bit of a field for which there is no room");
	proof_need(osf_query_device_ex(a->context, attr, 8) == -EINVAL,
		   "a size that has no comp_mask");
}

/* The array ends where a page ends. */
static void canary_cq(struct app *a)
{
	struct app_pair p = app_pair(a, osf_create_cq(a->context, 16, NULL));
	struct osf_send_wr_ex *wr =
	    proof_end_of_page(APP_MESSAGES * sizeof(*wr));
	struct osf_wc_ex *wc =
	    proof_end_of_page(2 * APP_MESSAGES * sizeof(*wc));
	struct osf_sge sge = app_sent(a, 0);

	memset(wr, 0, APP_MESSAGES * sizeof(*wr));
	for (int i = 0; i < APP_MESSAGES; i++) {
		wr[i].wr_id = (unsigned)i;
		wr[i].sg_list = &sge;
		wr[i].num_sge = 1;
		wr[i].send_flags = OSF_SEND_SIGNALED;
	}
	app_post_recvs(a, &p);
	proof_need(osf_post_send_ex(p.qp[0], wr, APP_MESSAGES, sizeof(*wr)) ==
		       APP_MESSAGES,
		   "osf_post_send_ex");
	proof_need(osf_poll_cq_ex(p.cq, 2 * APP_MESSAGES, wc, sizeof(*wc)) ==
		       2 * APP_MESSAGES,
		   "osf_poll_cq_ex");
	for (int i = 0; i < 2 * APP_MESSAGES; i++)
		proof_need(!wc[i].orig.status &&
			       !(wc[i].comp_mask & ~OSF_WC_EX_SRC_QP),
			   "a bit of a field for which there is no room");
	app_unpair(&p);
}

/* Where a newer structure has comp_mask2, there is a page without access. */
static void mask2(struct app *a)
{
	struct osf_cq_init_attr_ex *attr = proof_end_of_page(sizeof(*attr));

	memset(attr, 0, sizeof(*attr));
	attr->cqe = 4;
	attr->comp_mask = OSF_CQ_ATTR_FLAGS;
	struct osf_cq *cq = osf_create_cq_ex(a->context, attr);

	proof_need(cq, "osf_create_cq_ex");
	osf_destroy_cq(cq);
	attr->flags = 1u << 30;
	proof_need(!osf_create_cq_ex(a->context, attr) && errno == EINVAL,
		   "EINVAL for an unknown flag");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(struct app *a);
	} proofs[] = { { "canary", canary },
		       { "canary-cq", canary_cq },
		       { "mask2", mask2 } };
	static struct app a;

	app_open(&a);
	for (size_t i = 0; i < sizeof(proofs) / sizeof(proofs[0]); i++)
		if (argc == 2 && !strcmp(argv[1], proofs[i].name))
			proofs[i].run(&a);
	app_close(&a);
	printf("holds\n");
	return 0;
}
