/* SPDX-License-Identifier: MIT */
/* ops/builtin.c - see ops/builtin.h */
#include "ops/builtin.h"

/* The kernel reaches every destination, and is asked last. */
const struct osf_proto builtin_inet = {
	.size = sizeof(builtin_inet),
	.name = "inet",
	.caps = OSF_CAP_SELF_ROUTING | OSF_CAP_LOCAL | OSF_CAP_REMOTE |
		OSF_CAP_IPV6 | OSF_CAP_GATEWAY,
	.priority = INT32_MIN,
};

/* Modules come before it, unless their priority is lower. */
const struct osf_proto builtin_shm = {
	.size = sizeof(builtin_shm),
	.name = "shm",
	.caps = OSF_CAP_LOCAL | OSF_CAP_IPV6 | OSF_CAP_ZCOPY,
	.priority = OSF_PRIORITY_SHM,
};

void builtin_register(bool with_shm)
{
	ops_proto_register(&builtin_inet);
	if (with_shm)
		ops_proto_register(&builtin_shm);
}
