/* SPDX-License-Identifier: MIT */
/*
 * tests/abi/real/app.h - programs for infiniband/verbs.h of three ages
 *
 *     app_0.c, app_1.c, app_2.c -> "call: result" -> tests/abi/real.py
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <infiniband/verbs.h>

static inline const char *app_result(int err)
{
	return !err ? "works" : err == EOPNOTSUPP ? "EOPNOTSUPP" : "fails";
}

/* What the oldest of them does: an exported call, and one through the context. */
static inline struct ibv_context *app_open(void)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT
	};
	struct ibv_device_attr device;
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context =
	    list && list[0] ? ibv_open_device(list[0]) : NULL;

	if (!context || ibv_query_device(context, &device) ||
	    device.max_qp < 1) {
		printf("no device\n");
		exit(1);
	}
	ibv_free_device_list(list);
	struct ibv_xrcd *xrcd = ibv_open_xrcd(context, &attr);

	printf("open_xrcd: %s\n", app_result(xrcd ? 0 : errno));
	if (xrcd)
		ibv_close_xrcd(xrcd);
	return context;
}
