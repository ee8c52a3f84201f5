/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/peer_rdma.c - the benchmarks' peer that makes queue pairs of the device osf0
 *
 *     rdma-idle: many queue pairs, connected to each other in twos, with all their receives
 *     posted -> what one of them takes of this process's memory
 *
 * The device's calls are found at run time, as this program is not linked to libibverbs.
 */
#include "osf.h"
#include "peer.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#if __has_include(<infiniband/verbs.h>)
#include <infiniband/verbs.h>

#define WRS 128 /* a common depth, of sends and of receives */

static void *call(const char *name)
{
	void *f = dlsym(RTLD_DEFAULT, name);

	if (!f)
		peer_die(name);
	return f;
}

#define CALL(f) ((__typeof__(&(f)))call(#f))

/* This process's share of all pages that it maps: one that it maps twice counts once. */
static double resident(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "re");
	unsigned long kb = 0;
	char line[256];

	while (f && !kb && fgets(line, sizeof(line), f))
		(void)!sscanf(line, "Pss: %lu kB", &kb);
	if (!kb)
		peer_die("/proc/self/smaps_rollup");
	fclose(f);
	return (double)kb * 1024;
}

static struct ibv_context *open_osf0(void)
{
	struct ibv_device **list = CALL(ibv_get_device_list)(NULL);
	struct ibv_context *c = NULL;

	for (int i = 0; list && list[i] && !c; i++)
		if (!strcmp(list[i]->name, "osf0"))
			c = CALL(ibv_open_device)(list[i]);
	if (!c)
		peer_die("osf0");
	return c;
}

static void fill(struct ibv_qp *qp)
{
	struct ibv_sge sge = { .length = 0 };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	for (int i = 0; i < WRS; i++)
		if (ibv_post_recv(qp, &wr, &bad))
			peer_die("ibv_post_recv");
}

static struct ibv_qp *make(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .cap = { .max_send_wr = WRS,
						  .max_recv_wr = WRS,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp *qp = CALL(ibv_create_qp)(pd, &init);

	if (!qp || CALL(ibv_modify_qp)(qp, &a,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX |
					   IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		peer_die("ibv_create_qp");
	fill(qp);
	return qp;
}

static void connect_to(struct ibv_qp *qp, uint32_t peer,
		       const union ibv_gid *gid)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 1,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh.dgid = *gid }
	};
	int err = CALL(ibv_modify_qp)(
	    qp, &a,
	    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		IBV_QP_MIN_RNR_TIMER);

	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				  .timeout = 14,
				  .retry_cnt = 7,
				  .max_rd_atomic = 1 };
	if (err ||
	    CALL(ibv_modify_qp)(qp, &a,
				IBV_QP_STATE | IBV_QP_TIMEOUT |
				    IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		peer_die("ibv_modify_qp");
}

int peer_rdma_idle(int argc, char **args)
{
	unsigned n = (unsigned)atoi(args[0]) / 2 * 2;
	struct ibv_context *c = open_osf0();
	struct ibv_pd *pd = CALL(ibv_alloc_pd)(c);
	struct ibv_cq *cq = CALL(ibv_create_cq)(c, 1, NULL, NULL, 0);
	struct ibv_qp **qps = calloc(n, sizeof(struct ibv_qp *));
	union ibv_gid gid;

	peer_raise_files();
	if (!pd || !cq || !qps || CALL(ibv_query_gid)(c, 1, 0, &gid))
		peer_die("osf0");
	for (unsigned i = 0; i < 2; i++) /* what the first ones need besides */
		make(pd, cq);
	double before = resident();
	for (unsigned i = 0; i < n; i++)
		qps[i] = make(pd, cq);
	for (unsigned i = 0; i < n; i++)
		connect_to(qps[i], qps[i ^ 1]->qp_num, &gid);
	printf("bytes %.1f\n", (resident() - before) / n);
	return 0;
}

#else
int peer_rdma_idle(int argc, char **args)
{
	errno = ENOTSUP;
	peer_die("built without verbs.h");
}
#endif
