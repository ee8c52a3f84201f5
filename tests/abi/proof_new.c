/* SPDX-License-Identifier: MIT */
/*
 * tests/abi/proof_new.c - a program of generation 2, under libraries of any age
 *
 *     proof_new calls        the new call and the older ones can be called
 *     proof_new open         opens the device; tells of a fault in opening
 *     proof_new tail         outputs that an older one has not filled in are 0
 *     proof_new stride       arrays are walked by the distance that is passed
 *     proof_new unknown      each unknown bit is refused
 *     proof_new mask2        comp_mask2 counts if bit 31 is set, else not
 */
#include <limits.h>

#include "proof.h"

static void calls(struct app *a)
{
	struct osf_values values;
	int err = osf_query_values(a->context, OSF_VALUES_HWCLOCK, &values,
				   sizeof(values));

	proof_need(!err || err == -ENOSYS, "osf_query_values");
}

static void nothing(struct app *a) { proof_need(a->mr, "osf_reg_mr"); }

static void tail(struct app *a)
{
	struct osf_device_attr_ex attr;
	struct osf_values values;

	memset(&attr, PROOF_BYTE, sizeof(attr));
	memset(&values, PROOF_BYTE, sizeof(values));
	proof_need(
	    !osf_query_device_ex(a->context, &attr, sizeof(attr)) &&
		(attr.comp_mask & OSF_DEVICE_ATTR_HWCLOCK || !attr.hwclock_khz),
	    "a field without its bit is 0");
	proof_need(!osf_query_values(a->context, 0, &values, sizeof(values))
		       ? !values.comp_mask && !values.hwclock_ns
		       : proof_is_untouched(&values, sizeof(values)),
		   "what was not asked for is 0");
}

/* Elements far larger than any header has, and rubbish in what is not known. */
static void stride(struct app *a)
{
	enum { STRIDE = 256, N = APP_MESSAGES };
	struct app_pair p = app_pair(a, osf_create_cq(a->context, 16, NULL));
	uint8_t *wr = proof_end_of_page(N * STRIDE);
	uint8_t *wc = proof_end_of_page(2 * N * STRIDE);
	struct osf_sge sge[N];
	int n_recvs = 0;

	app_fill(a);
	app_post_recvs(a, &p);
	for (int i = 0; i < N; i++) {
		struct osf_send_wr_ex one = { .wr_id = (unsigned)i,
					      .sg_list = &sge[i],
					      .num_sge = 1,
					      .send_flags = OSF_SEND_SIGNALED };

		sge[i] = app_sent(a, i);
		memcpy(wr + i * STRIDE, &one,
		       offsetof(struct osf_send_wr_ex, imm_data));
	}
	proof_need(osf_post_send_ex(p.qp[0], (void *)wr, N, STRIDE) == N,
		   "osf_post_send_ex");
	proof_need(osf_poll_cq_ex(p.cq, 2 * N, (void *)wc, STRIDE) == 2 * N,
		   "osf_poll_cq_ex");
	for (int i = 0; i < 2 * N; i++) {
		const struct osf_wc_ex *one = (void *)(wc + i * STRIDE);
		unsigned n =
		    (unsigned)(one->orig.opcode == OSF_WC_RECV ? 100 + n_recvs++
							       : i - n_recvs);

		proof_need(!one->orig.status && one->orig.wr_id == n,
			   "an element where the next one is looked for");
		proof_need(proof_is_untouched(one + 1, STRIDE - sizeof(*one)),
			   "bytes between elements");
		proof_need(one->comp_mask & OSF_WC_EX_IMM ||
			       proof_is_untouched(&one->imm_data, 4),
			   "a field without its bit");
	}
	app_check(a);
	app_unpair(&p);
}

/* Bits 0 to 30, each alone, in each input.  @known: to library and driver. */
static void unknown_bits(struct app *a, struct app_pair *p)
{
	struct osf_sge sge = app_sent(a, 0);
	struct osf_values values;

	for (int bit = 4; bit < 31; bit++) {
		struct osf_cq_init_attr_ex attr = { .cqe = 4,
						    .comp_mask = 1u << bit };
		struct osf_cq_init_attr_ex flags = { .cqe = 4,
						     .comp_mask =
							 OSF_CQ_ATTR_FLAGS,
						     .flags = 1u << bit };
		struct osf_send_wr_ex wr = { .sg_list = &sge,
					     .num_sge = 1,
					     .comp_mask = 1u << bit };
		int err = osf_query_values(a->context, 1u << bit, &values,
					   sizeof(values));

		proof_need(!osf_create_cq_ex(a->context, &attr) &&
			       errno == EINVAL,
			   "comp_mask of a CQ");
		proof_need(!osf_create_cq_ex(a->context, &flags) &&
			       errno == EINVAL,
			   "flags of a CQ");
		proof_need(osf_post_send_ex(p->qp[0], &wr, 1, sizeof(wr)) ==
			       -EINVAL,
			   "comp_mask of a send");
		proof_need(err == -EINVAL || err == -ENOSYS,
			   "a value that nobody knows");
	}
}

static void unknown(struct app *a)
{
	struct app_pair p = app_pair(a, osf_create_cq(a->context, 16, NULL));
	struct osf_sge sge = app_sent(a, 0);
	struct osf_send_wr_ex wr[2];
	struct osf_wc wc;

	unknown_bits(a, &p);
	/* What stands before the first that is refused is posted. */
	memset(wr, 0, sizeof(wr));
	for (int i = 0; i < 2; i++) {
		wr[i].sg_list = &sge;
		wr[i].num_sge = 1;
		wr[i].send_flags = OSF_SEND_SIGNALED;
		wr[i].comp_mask = i ? 1u << 20 : 0;
	}
	app_post_recvs(a, &p);
	proof_need(osf_post_send_ex(p.qp[0], wr, 2, sizeof(wr[0])) == 1,
		   "how many were posted");
	proof_need(osf_poll_cq(p.cq, 1, &wc) == 1 && !wc.status,
		   "the one before it");
	app_unpair(&p);
}

static bool makes_cq(struct app *a, const struct osf_cq_init_attr_ex *attr)
{
	struct osf_cq *cq = osf_create_cq_ex(a->context, attr);

	proof_need(cq || errno == EINVAL, "EINVAL");
	if (cq)
		osf_destroy_cq(cq);
	return cq;
}

static void mask2(struct app *a)
{
	struct osf_cq_init_attr_ex attr = { .cqe = 4,
					    .comp_mask = OSF_CQ_ATTR_FLAGS,
					    .comp_mask2 = UINT32_MAX };

	proof_need(makes_cq(a, &attr), "comp_mask2 without bit 31");
	attr.comp_mask |= OSF_COMP_MASK2;
	proof_need(!makes_cq(a, &attr), "unknown bits of comp_mask2");
	for (int bit = 1; bit < 32; bit++) {
		attr.comp_mask2 = 1u << bit;
		proof_need(!makes_cq(a, &attr), "an unknown bit of comp_mask2");
	}
	attr.comp_mask2 = OSF_CQ_ATTR2_TS_BASE;
	bool knows = makes_cq(a, &attr);

	attr.comp_mask2 = 0;
	proof_need(makes_cq(a, &attr) == knows, "bit 31 and no other");
	printf("bit 31: %s\n", knows ? "known" : "EINVAL");
}

/* Tells whether the fault is in the page above a context. */
static void on_fault(int sig, siginfo_t *info, void *more)
{
	uintptr_t at = (uintptr_t)info->si_addr, from, to;
	char line[PATH_MAX + 100], access[5] = "";
	FILE *maps = fopen("/proc/self/maps", "r");

	while (maps && fgets(line, sizeof(line), maps) &&
	       sscanf(line, "%lx-%lx %4s", &from, &to, access) == 3 &&
	       (at < from || at >= to))
		;
	printf("fault in a page with %s, %lu bytes below its end\n", access,
	       to - at);
	fflush(stdout);
	_exit(3);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(struct app *a);
	} proofs[] = { { "calls", calls },     { "open", nothing },
		       { "tail", tail },       { "stride", stride },
		       { "unknown", unknown }, { "mask2", mask2 } };
	static struct app a;
	struct sigaction action = { .sa_sigaction = on_fault,
				    .sa_flags = SA_SIGINFO };

	sigaction(SIGSEGV, &action, NULL);
	app_open(&a);
	for (size_t i = 0; i < sizeof(proofs) / sizeof(proofs[0]); i++)
		if (argc == 2 && !strcmp(argv[1], proofs[i].name))
			proofs[i].run(&a);
	app_close(&a);
	printf("holds\n");
	return 0;
}
