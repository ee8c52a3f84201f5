/* SPDX-License-Identifier: MIT */
/* tests/abi/real/front.c - see tests/abi/real/front.h */
#include "front.h"

static struct {
	struct ibv_device device;
	char beyond[64]; /* where libibverbs would look for its own: nothing */
} front = { .device = { .name = "front0", .dev_name = "front0" } };

static struct ibv_xrcd *open_xrcd(struct ibv_context *context,
				  struct ibv_xrcd_init_attr *attr)
{
	struct ibv_xrcd *xrcd = calloc(1, sizeof(*xrcd));

	if (xrcd)
		xrcd->context = context;
	return xrcd;
}

static int close_xrcd(struct ibv_xrcd *xrcd)
{
	free(xrcd);
	return 0;
}

struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	if (list)
		list[0] = &front.device;
	if (n)
		*n = list ? 1 : 0;
	return list;
}

void ibv_free_device_list(struct ibv_device **list) { free(list); }

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct verbs_context *verbs = calloc(1, sizeof(*verbs));

	if (!verbs)
		return NULL;
	verbs->sz = sizeof(*verbs);
	verbs->open_xrcd = open_xrcd;
	verbs->close_xrcd = close_xrcd;
	front_more(verbs);
	verbs->context.device = device;
	verbs->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	return &verbs->context;
}

int ibv_close_device(struct ibv_context *context)
{
	free(verbs_get_ctx(context));
	return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	*attr = (struct ibv_device_attr){ .max_qp = 7 };
	return 0;
}
