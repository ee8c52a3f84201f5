/* SPDX-License-Identifier: MIT */
/*
 * tests/xlio/real_verbs.c - a program that loads the library and calls libibverbs
 *
 *     real_verbs LIBRARY
 *
 * As SPDK does: the library comes by dlopen(), so ibv_reg_mr() is libibverbs' own.  Its
 * headers say here, too, that the layouts of api/verbs/device.h are right.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static struct ibv_pd *pd_of_a_connection(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct xlio_poll_group_attr attr = { .socket_event_cb = on_event };
	struct xlio_socket_attr sa = { .domain = AF_INET };
	socklen_t len = sizeof(in);
	xlio_socket_t sock;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

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

int main(int argc, char **argv)
{
	struct xlio_init_attr init = { 0 };
	socklen_t len = sizeof(api);

	alarm(30);
	CAN(argc == 2);
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
	CAN(pd->context->cmd_fd == -1);
	memory_is_registered(pd);
	all_else_is_refused(pd);
	CAN(!api->xlio_exit());
	return 0;
}
