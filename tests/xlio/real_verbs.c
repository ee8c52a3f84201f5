/* SPDX-License-Identifier: MIT */
/*
 * tests/xlio/real_verbs.c - a program that loads the library and calls libibverbs
 *
 *     real_verbs LIBRARY
 *     LD_PRELOAD=libosf-verbs.so real_verbs LIBRARY device
 *
 * As SPDK does: the library comes by dlopen(), so ibv_reg_mr() is libibverbs' own.  Its
 * headers say here, too, that the layouts of api/verbs/device.h are right.
 *
 * With libosf-verbs.so the domain is one of the device osf0: the program sends one piece of
 * memory by one key over a queue pair and over a socket.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <mellanox/xlio_extra.h>

#define SAME(a, b) _Static_assert((a) == (b), #a)
#define CAN(call)                                                              \
	do {                                                                   \
		if (!(call)) {                                                 \
			fprintf(stderr, "%d: not so: %s, errno %d\n",          \
				__LINE__, #call, errno);                       \
			exit(1);                                               \
		}                                                              \
	} while (0)

SAME(sizeof(struct ibv_device), 664);
SAME(offsetof(struct ibv_device, name), 24);
SAME(sizeof(struct ibv_context), 328);
SAME(sizeof(struct ibv_context_ops), 32 * 8);
SAME(offsetof(struct ibv_context, mutex), 280);
SAME(offsetof(struct ibv_context, abi_compat), 320);
SAME(offsetof(struct verbs_context, context) -
	 offsetof(struct verbs_context, priv),
     14 * 8);
SAME(offsetof(struct verbs_context, context) -
	 offsetof(struct verbs_context, sz),
     8);
SAME(offsetof(struct ibv_mr, rkey), 40);

static struct xlio_api_t *api;
static int n_established;

static void on_event(xlio_socket_t sock, uintptr_t u, int event, int value)
{
	(void)sock, (void)u, (void)value;
	n_established += event == XLIO_SOCKET_EVENT_ESTABLISHED;
}

static struct xlio_socket_attr sa = { .domain = AF_INET };
static xlio_socket_t sock;
static int listener;

static struct ibv_pd *pd_of_a_connection(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct xlio_poll_group_attr attr = { .socket_event_cb = on_event };
	socklen_t len = sizeof(in);
	int fd = listener = socket(AF_INET, SOCK_STREAM, 0);

	CAN(!bind(fd, (void *)&in, len) && !listen(fd, 1) &&
	    !getsockname(fd, (void *)&in, &len));
	CAN(!api->xlio_poll_group_create(&attr, &sa.group));
	CAN(!api->xlio_socket_create(&sa, &sock));
	CAN(!api->xlio_socket_connect(sock, (void *)&in, len));
	while (!n_established)
		api->xlio_poll_group_poll(sa.group);
	return api->xlio_socket_get_pd(sock);
}

static void memory_is_registered(struct ibv_pd *pd)
{
	static char data[2][4096];

	struct ibv_mr *a =
	    ibv_reg_mr(pd, data[0], sizeof(data[0]), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *b = ibv_reg_mr_iova2(pd, data[1], sizeof(data[1]), 0,
					    IBV_ACCESS_LOCAL_WRITE);
	CAN(a && b && a->lkey && b->lkey && a->lkey != b->lkey);
	CAN(a->addr == data[0] && a->length == 4096 && a->pd == pd &&
	    a->context == pd->context);
	CAN(!ibv_dereg_mr(a));
	CAN(!ibv_dereg_mr(b));
}

static void all_else_is_refused(struct ibv_pd *pd)
{
	struct ibv_context *context = pd->context;
	struct ibv_qp_init_attr qp = { .qp_type = IBV_QPT_RC };
	struct ibv_device_attr_ex attr_ex;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;

	CAN(ibv_query_device(context, &attr));
	CAN(ibv_query_device_ex(context, NULL, &attr_ex));
	CAN(ibv_query_port(context, 1, &port));
	CAN(!ibv_alloc_pd(context));
	CAN(!ibv_create_cq(context, 1, NULL, NULL, 0));
	CAN(!ibv_create_qp(pd, &qp));
	CAN(!ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	CAN(!ibv_alloc_null_mr(pd));
	errno = 0;
	CAN(!context->ops.alloc_mw(pd, IBV_MW_TYPE_1) && errno == EOPNOTSUPP);
}

/*
 * With the device.
 */

static struct ibv_cq *cq;

static struct ibv_qp *qp_new(struct ibv_pd *pd)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_qp_attr init_attr = { .qp_state = IBV_QPS_INIT,
					 .port_num = 1,
					 .qp_access_flags =
					     IBV_ACCESS_REMOTE_WRITE };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	CAN(qp);
	CAN(!ibv_modify_qp(qp, &init_attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			       IBV_QP_ACCESS_FLAGS));
	return qp;
}

static void qp_connect(struct ibv_qp *qp, uint32_t to)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = to,
		.max_dest_rd_atomic = 1,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh.hop_limit = 1 }
	};
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS,
				   .timeout = 14,
				   .retry_cnt = 7,
				   .rnr_retry = 7,
				   .max_rd_atomic = 1 };

	CAN(!ibv_query_gid(qp->context, 1, 0, &rtr.ah_attr.grh.dgid));
	CAN(!ibv_modify_qp(qp, &rtr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			       IBV_QP_MAX_DEST_RD_ATOMIC |
			       IBV_QP_MIN_RNR_TIMER));
	CAN(!ibv_modify_qp(qp, &rts,
			   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			       IBV_QP_MAX_QP_RD_ATOMIC));
}

static void is_written(struct ibv_qp *qp, struct ibv_mr *from,
		       struct ibv_mr *to)
{
	struct ibv_sge sge = { (uintptr_t)from->addr, (uint32_t)from->length,
			       from->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { (uintptr_t)to->addr, to->rkey },
	};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int n;

	CAN(!ibv_post_send(qp, &wr, &bad));
	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	CAN(n == 1 && wc.status == IBV_WC_SUCCESS);
	CAN(!memcmp(from->addr, to->addr, to->length));
}

static void is_sent(struct ibv_mr *from)
{
	struct xlio_socket_send_attr attr = { .flags =
						  XLIO_SOCKET_SEND_FLAG_FLUSH,
					      .mkey = from->lkey };
	static char got[4096];
	size_t n = 0;
	int fd = accept(listener, NULL, NULL);

	CAN(fd >= 0);
	CAN(!api->xlio_socket_send(sock, from->addr, from->length, &attr));
	while (n < sizeof(got)) {
		ssize_t r = recv(fd, got + n, sizeof(got) - n, MSG_DONTWAIT);

		CAN(r > 0 || (r < 0 && errno == EAGAIN));
		n += r > 0 ? (size_t)r : 0;
		api->xlio_poll_group_poll(sa.group);
	}
	CAN(!memcmp(got, from->addr, sizeof(got)));
	close(fd);
}

static void memory_goes_both_ways(struct ibv_pd *pd)
{
	static char data[2][4096] = { "one piece of memory" };
	struct ibv_mr *mr[2];

	for (int i = 0; i < 2; i++) {
		mr[i] = ibv_reg_mr(pd, data[i], sizeof(data[i]),
				   IBV_ACCESS_LOCAL_WRITE |
				       IBV_ACCESS_REMOTE_WRITE);
		CAN(mr[i]);
	}
	CAN((cq = ibv_create_cq(pd->context, 4, NULL, NULL, 0)));
	struct ibv_qp *a = qp_new(pd), *b = qp_new(pd);
	qp_connect(a, b->qp_num);
	qp_connect(b, a->qp_num);
	is_written(a, mr[0], mr[1]);
	is_sent(mr[0]);
	CAN(!ibv_rereg_mr(mr[0], IBV_REREG_MR_CHANGE_TRANSLATION, NULL, data[1],
			  sizeof(data[1]), 0));
	CAN(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq));
	CAN(!ibv_dereg_mr(mr[0]) && !ibv_dereg_mr(mr[1]));
}

/* It is the library's, and a child's is another one. */
static void the_domain_stays(struct ibv_pd *pd)
{
	struct ibv_device_attr attr;
	int status;

	CAN(!ibv_query_device(pd->context, &attr) && attr.max_qp > 0);
	CAN(ibv_dealloc_pd(pd) == EBUSY);
	CAN(pd == api->xlio_socket_get_pd(sock));
	pid_t child = fork();
	if (!child) {
		n_established = 0;
		struct ibv_pd *own = pd_of_a_connection();

		CAN(own && own != pd);
		memory_is_registered(own);
		_exit(0);
	}
	CAN(waitpid(child, &status, 0) == child && !status);
}

int main(int argc, char **argv)
{
	struct xlio_init_attr init = { 0 };
	socklen_t len = sizeof(api);

	alarm(30);
	CAN(argc == 2 || argc == 3);
	void *lib = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		fprintf(stderr, "%s\n", dlerror());
	CAN(lib);
	typeof(&getsockopt) get = (typeof(&getsockopt))dlsym(lib, "getsockopt");
	CAN(get && !get(-2, SOL_SOCKET, SO_XLIO_GET_API, &api, &len));
	CAN(!api->xlio_init_ex(&init));
	struct ibv_pd *pd = pd_of_a_connection();
	CAN(pd && pd->context && pd->context->device);
	CAN(!strcmp(pd->context->device->name, "osf0"));
	CAN(!strcmp(ibv_get_device_name(pd->context->device), "osf0"));
	memory_is_registered(pd);
	if (argc == 3) {
		memory_goes_both_ways(pd);
		the_domain_stays(pd);
	} else {
		CAN(pd->context->cmd_fd == -1);
		all_else_is_refused(pd);
	}
	CAN(!api->xlio_exit());
	return 0;
}
